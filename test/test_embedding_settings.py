"""The text by which the learner tells whether embeddings can be compared."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from edgetpu_vision.nodes.vision_parameters import embedding_settings


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({}, '{"fit": "stretch", "channel_order": "rgb"}'),
        ({"fit": "letterbox", "output": "a"}, '{"fit": "letterbox", "channel_order": "rgb", "output": "a"}'),
        (
            {"input_range": [-1, 1]},
            '{"fit": "stretch", "channel_order": "rgb", "mean": [127.5], "std": [127.5]}',
        ),
        (
            {"mean": [127.5, 127.5, 127.5], "std": [127.5]},
            '{"fit": "stretch", "channel_order": "rgb", "mean": [127.5], "std": [127.5]}',
        ),
        (
            {"mean": [1, 2, 3]},
            '{"fit": "stretch", "channel_order": "rgb", "mean": [1.0, 2.0, 3.0], "std": [1.0]}',
        ),
    ],
)
def test_parameters_of_the_same_effect_are_the_same_text(values: dict[str, Any], text: str) -> None:
    unset = {"fit": "", "channel_order": "rgb", "mean": [], "std": [], "input_range": []}
    assert embedding_settings({**unset, "output": "", "feedback": [], **values}, "stretch") == text
