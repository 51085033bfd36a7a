"""Verdicts of the benchmark of the five nodes."""

from __future__ import annotations

import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from bench.areas.five_nodes import rate_row


@pytest.mark.parametrize(
    ("suite", "plain", "reached"), [(120, 100, True), (110, 100, False), (30, 0, True), (0, 30, False)]
)
def test_a_rate_is_to_be_higher_than_the_plain_graph_s(suite: float, plain: float, reached: bool) -> None:
    assert rate_row("a case", suite, plain).reached is reached


def test_a_suite_that_holds_no_rate_is_no_better_than_a_graph_that_holds_none() -> None:
    assert not rate_row("a case", 0, 0).reached
