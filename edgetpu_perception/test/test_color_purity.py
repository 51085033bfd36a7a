"""Which tints count as a colour that is asked for by name."""

from __future__ import annotations

import math

import cv2
import numpy as np
import pytest

from edgetpu_perception import SpotResult, SpotTracker

pytest.importorskip("ai_edge_litert", reason="needs LiteRT")


def found(color: str, target: tuple[int, int, int]) -> SpotResult:
    """What a tracker finds in a grey room with a disc at (150, 100)."""
    room = np.full((240, 320, 3), 90, np.uint8)
    cv2.circle(room, (150, 100), 30, target, cv2.FILLED)
    return SpotTracker(color=color).update(room)


@pytest.mark.parametrize(
    ("color", "pale"),
    [("green", (120, 200, 110)), ("blue", (100, 130, 215)), ("green", (150, 240, 150))],
)
def test_a_pale_ball_of_a_colour_that_light_and_wood_do_not_have_is_found(
    color: str, pale: tuple[int, int, int]
) -> None:
    result = found(color, pale)
    assert result.valid
    assert math.dist((result.u, result.v), (150.0, 100.0)) < 0.5


@pytest.mark.parametrize(
    ("color", "tint"),
    [
        ("green", (170, 205, 170)),
        ("blue", (150, 165, 195)),
        ("red", (165, 110, 85)),
        ("yellow", (190, 165, 115)),
    ],
)
def test_a_wall_with_a_tint_of_the_colour_is_not_found(color: str, tint: tuple[int, int, int]) -> None:
    assert not found(color, tint).valid
