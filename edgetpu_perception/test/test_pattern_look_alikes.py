"""What looks like a pattern in the px of the model, but not in those of the camera, is not taken for it."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_perception.pattern_tracker.pattern_tracker import PatternTracker
from testdata.pictures.patterns import Image, pixels, texture

pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

GROUND = texture(6, side=640, blur=30.0)[:480].astype(np.float32)
LEFT, TOP, SIDE = 240, 180, 120
"""Where the signs are, px."""
LETTERS = ("VN", "BH", "HM", "KR", "AX")
"""Of other signs, which the px of the model tell little from MK."""


def sign(letters: str) -> NDArray[np.float32]:
    """White letters on a dark disc on white, float32 [120, 120]."""
    made = np.full((SIDE, SIDE), 230.0, np.float32)
    cv2.circle(made, (SIDE // 2, SIDE // 2), 55, 40.0, -1)
    (width, height), _ = cv2.getTextSize(letters, cv2.FONT_HERSHEY_SIMPLEX, 1.4, 6)
    at = (SIDE - width) // 2, (SIDE + height) // 2
    cv2.putText(made, letters, at, cv2.FONT_HERSHEY_SIMPLEX, 1.4, 230.0, 6, cv2.LINE_AA)
    return made


def picture(shown: NDArray[np.float32], x: int = 0, y: int = 0, seed: int = 0) -> Image:
    """The sign on even ground, moved by (x, y) px, with a noise of 4 grey levels."""
    scene = GROUND.copy()
    scene[TOP + y : TOP + y + SIDE, LEFT + x : LEFT + x + SIDE] = shown
    return pixels(scene + np.random.default_rng(seed).normal(0.0, 4.0, scene.shape))


@pytest.fixture
def tracker() -> PatternTracker:
    made, view = PatternTracker(), picture(sign("MK"))
    assert made.set_template(view[TOP : TOP + SIDE, LEFT : LEFT + SIDE], view=view).accepted
    return made


@pytest.mark.parametrize("letters", LETTERS)
def test_a_sign_with_the_same_frame_and_other_letters_is_not_the_pattern(
    tracker: PatternTracker, letters: str
) -> None:
    for n in range(3):
        result = tracker.update(picture(sign(letters), 13, -7, n))
        assert (result.valid, result.confidence) == (False, 0.0)


def test_the_sign_itself_is_found_beside_others(tracker: PatternTracker) -> None:
    for n in range(3):
        shown = picture(sign("MK"), 13, -7, n)
        shown[20 : 20 + SIDE, 30 : 30 + SIDE] = pixels(sign("VN"))
        result = tracker.update(shown)
        assert result.valid
        assert (result.x, result.y) == pytest.approx((LEFT + 59.5 + 13, TOP + 59.5 - 7), abs=0.2)


def test_the_sign_is_found_again_after_another_one_was_in_its_place(tracker: PatternTracker) -> None:
    valid = [tracker.update(picture(sign(shown), 5, 5)).valid for shown in ("MK", "KR", "KR", "MK")]
    assert valid == [True, False, False, True]


@pytest.mark.parametrize(("gain", "offset"), [(0.5, 20.0), (1.0, 40.0), (1.4, 20.0)])
def test_the_sign_is_found_in_another_light(tracker: PatternTracker, gain: float, offset: float) -> None:
    shown = picture(sign("MK"), 4, 9)
    assert tracker.update(pixels(gain * shown.astype(np.float32) + offset)).valid
