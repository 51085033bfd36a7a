"""What the benchmarks read from `perf stat`."""

from __future__ import annotations

import pytest

from bench.instructions import read_count


def test_the_count_is_the_first_field_of_the_events_line() -> None:
    output = "# started on Sun Nov 22\n\n27100345,,instructions:u,300086624,100.00,1.21,insn per cycle\n"
    assert read_count(output) == 27100345


@pytest.mark.parametrize("value", ["<not supported>", "<not counted>"])
def test_an_event_that_is_not_counted_has_no_count(value: str) -> None:
    assert read_count(f"{value},,instructions,0,100.00,,\n") is None


def test_the_count_of_another_event_is_ignored() -> None:
    assert read_count("300.09,msec,task-clock,300086624,100.00,0.273,CPUs utilized\n") is None
