"""When the launch file stops restarting a process."""

from __future__ import annotations

import pytest

from edgetpu_driver.node_kit.process.respawn_limit import RespawnLimit

LONG = 3600.0
"""Seconds a process ran that has worked."""


@pytest.mark.parametrize("status", [-9, -11, 0])
def test_a_process_that_crashes_or_is_stopped_is_always_restarted(status: int) -> None:
    limit = RespawnLimit()
    assert [limit.refusal(status, 1.0) for _ in range(50)] == [""] * 50


def test_a_process_that_fails_after_it_has_worked_is_always_restarted() -> None:
    limit = RespawnLimit()
    assert [limit.refusal(1, LONG) for _ in range(50)] == [""] * 50


def test_a_process_that_fails_quickly_five_times_in_a_row_is_not_restarted() -> None:
    limit = RespawnLimit()
    assert [limit.refusal(1, 1.0) for _ in range(4)] == [""] * 4
    assert limit.refusal(1, 1.0) == "it failed 5 times in a row within 30 s of its start"


@pytest.mark.parametrize(("status", "duration"), [(1, LONG), (-9, 1.0), (0, 1.0)])
def test_any_other_end_forgives_the_failures_before(status: int, duration: float) -> None:
    limit = RespawnLimit()
    for _ in range(4):
        limit.refusal(1, 1.0)
    assert limit.refusal(status, duration) == ""
    assert limit.refusal(1, 1.0) == ""


def test_wrong_arguments_are_not_tried_again() -> None:
    assert RespawnLimit().refusal(2, 1.0) == "its arguments are wrong"
