"""What a matrix node logs of messages that it skips: each reason once, whatever numbers are in it."""

from __future__ import annotations

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from edgetpu_matrix.nodes.matrix_node import without_numbers


@pytest.mark.parametrize(
    ("reason", "same"),
    [
        (
            "expected samples of at most 1e+37; got [nan]",
            "expected samples of at most 1e+37; got [1.e+38 -2.]",
        ),
        ("expected 3 values; got 4", "expected 3 values; got 12"),
        ("expected a period above 0; got -0.01 s", "expected a period above 0; got nan s"),
    ],
)
def test_reasons_that_differ_in_numbers_are_one(reason: str, same: str) -> None:
    assert without_numbers(reason) == without_numbers(same)


def test_other_reasons_are_told_apart() -> None:
    assert without_numbers("expected samples [n]; got shape [2, 3]") != without_numbers(
        "expected 3 values; got 2"
    )
