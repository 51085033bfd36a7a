"""The synthetic pictures move as their constants say."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from edgetpu_dashboard.camera.patterns import (
    CHECKER_SPEED,
    PANNING_SPEED,
    PATTERNS,
    ROTATION,
    PatternSource,
    checkerboard,
    dot_position,
    noise,
    panning,
    rotating,
    wandering_dot,
)


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_has_the_size_asked_for(name: str) -> None:
    picture = PatternSource(name, 161, 90).read(1.5)
    assert (picture.shape, picture.dtype) == ((90, 161, 3), np.uint8)


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_is_the_same_at_the_same_time_only(name: str) -> None:
    assert np.array_equal(PATTERNS[name](64, 48, 2.0), PATTERNS[name](64, 48, 2.0))
    assert not np.array_equal(PATTERNS[name](64, 48, 2.0), PATTERNS[name](64, 48, 2.3))


def test_noise_has_every_level_as_often() -> None:
    counts = np.bincount(noise(640, 480, 0.0).ravel(), minlength=256)
    assert counts.min() > 3300  # of 3600
    assert counts.max() < 3900


def test_stripes_move_to_the_left_at_their_speed() -> None:
    shift = round(PANNING_SPEED * 0.1)
    assert np.array_equal(panning(640, 4, 1.1)[:, :-shift], panning(640, 4, 1.0)[:, shift:])


def test_the_board_drifts_to_the_right_and_down() -> None:
    right, down = (round(speed * 0.5) for speed in CHECKER_SPEED)
    now, later = checkerboard(640, 480, 1.0), checkerboard(640, 480, 1.5)
    assert np.array_equal(later[down:, right:], now[:-down, :-right])


def test_the_lines_are_as_exact_after_a_day() -> None:
    turn = 2 * np.pi / ROTATION
    first, later = (rotating(64, 48, seconds).astype(int) for seconds in (1.1, 1.1 + 10_800 * turn))
    assert np.abs(later - first).max() <= 1


def test_the_lines_rotate_about_the_centre() -> None:
    side, seconds = 101, 0.4
    turn = cv2.getRotationMatrix2D((50, 50), -np.degrees(ROTATION * seconds), 1.0)
    expected = cv2.warpAffine(rotating(side, side, 0.0), turn, (side, side))
    y, x = np.mgrid[:side, :side] - 50
    ring = (np.hypot(x, y) > 30) & (np.hypot(x, y) < 45)  # where lines are wide enough to be interpolated
    difference = rotating(side, side, seconds).astype(int) - expected
    assert np.abs(difference[ring]).mean() < 3.0


@pytest.mark.parametrize("seconds", [0.0, 1.3, 4.9])
def test_the_dot_is_where_its_position_says(seconds: float) -> None:
    grey = wandering_dot(320, 240, seconds)[..., 0].astype(float) - 20.0
    y, x = np.mgrid[:240, :320]
    centre = (grey * x).sum() / grey.sum(), (grey * y).sum() / grey.sum()
    assert centre == pytest.approx(dot_position(320, 240, seconds), abs=0.05)
