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
"""Letters of other signs, which look much like MK in the px of the model."""


def sign(letters: str) -> NDArray[np.float32]:
    """White letters on a dark disc on white, float32 [120, 120]."""
    made = np.full((SIDE, SIDE), 230, np.uint8)
    cv2.circle(made, (SIDE // 2, SIDE // 2), 55, 40, -1)
    (width, height), _ = cv2.getTextSize(letters, cv2.FONT_HERSHEY_SIMPLEX, 1.4, 6)
    at = (SIDE - width) // 2, (SIDE + height) // 2
    cv2.putText(made, letters, at, cv2.FONT_HERSHEY_SIMPLEX, 1.4, 230, 6, cv2.LINE_8)
    return made.astype(np.float32)


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


def chessboard(seed: int) -> NDArray[np.float32]:
    """A board of 8x6 squares of 20 px, tags of 5x5 fields of 2 px in the white ones, float32 [120, 160]."""
    random, board = np.random.default_rng(seed), np.full((6, 20, 8, 20), 230.0, np.float32)
    for row, column in np.ndindex(6, 8):
        if (row + column) % 2:
            board[row, :, column] = 25.0
        else:
            tag = np.pad(np.where(random.random((5, 5)) < 0.5, 25.0, 230.0), 1, constant_values=25.0)
            board[row, 3:17, column, 3:17] = np.kron(tag, np.ones((2, 2)))
    return board.reshape(120, 160)


def chessboard_in_view(seed: int, x: float, y: float, size: float = 1.0, blur: float = 0.0) -> Image:
    """The board on even ground, moved by (x, y) px, so many times as large, with a noise of 4 grey levels."""
    place = np.array([[size, 0.0, LEFT + x], [0.0, size, TOP + y]])
    shown, covered = (
        cv2.warpAffine(cv2.copyMakeBorder(each, 9, 9, 9, 9, cv2.BORDER_REPLICATE), place, (640, 480))
        for each in (chessboard(seed), np.ones((120, 160), np.float32))
    )
    scene = cv2.GaussianBlur(shown + (1.0 - covered) * GROUND, (0, 0), max(blur, 0.3))
    return pixels(scene + np.random.default_rng(1).normal(0.0, 4.0, scene.shape))


@pytest.fixture
def board_tracker() -> PatternTracker:
    made, view = PatternTracker(), chessboard_in_view(0, -9, -9)
    patch = view[TOP : TOP + 120, LEFT : LEFT + 160]
    assert made.set_template(patch, accept_ambiguous=True, view=view).accepted
    return made


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_a_chessboard_with_other_small_tags_is_not_the_pattern(
    board_tracker: PatternTracker, seed: int
) -> None:
    result = board_tracker.update(chessboard_in_view(seed, 1.3, -4.6))
    assert (result.valid, result.confidence) == (False, 0.0)


@pytest.mark.parametrize(("size", "blur"), [(1.0, 0.0), (1.0, 1.5), (1.04, 0.0), (0.97, 1.0)])
def test_a_chessboard_with_small_tags_is_found_and_may_be_blurred(
    board_tracker: PatternTracker, size: float, blur: float
) -> None:
    result = board_tracker.update(chessboard_in_view(0, 1.3, -4.6, size, blur))
    assert result.valid
    place = LEFT + 1.3 + size * (9 + 79.5), TOP - 4.6 + size * (9 + 59.5)
    assert (result.x, result.y) == pytest.approx(place, abs=0.2)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_soft_pattern_is_found_beneath_a_reflection_as_soft(seed: int) -> None:
    scene, reflected = (texture(each, side=640, blur=4.0)[:480] for each in (seed, 100 + seed))
    view, made = pixels(scene), PatternTracker()
    assert made.set_template(view[TOP : TOP + 120, LEFT : LEFT + 160], view=view).accepted
    result = made.update(pixels(scene + 0.3 * (reflected - reflected.mean())))
    assert result.valid
    assert (result.x, result.y) == pytest.approx((LEFT + 79.5, TOP + 59.5), abs=1.0)


def test_an_exact_copy_elsewhere_scores_one() -> None:
    tiles = np.tile(texture(10, side=16), (4, 4))
    made = PatternTracker()
    assert made.set_template(tiles[:16, :16], view=tiles, accept_ambiguous=True).accepted
    assert made.update(tiles).runner_up_score == 1.0
