"""What an unknown focal length does to the distance that a camera measures while it turns."""

from __future__ import annotations

import math

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_perception.time_to_contact.homography_alignment import HomographyAlignment
from edgetpu_perception.time_to_contact.plane_distance import PlaneDistance, UnknownFocalLength
from edgetpu_perception.time_to_contact.surface import Surface

EXACT = np.eye(8) * 1e-12

LOG_DISTANCE = math.log(0.8)
"""Logarithm of the distance of the wall over that at the keyframe."""


def view_of_a_wall(turn: float) -> NDArray[np.float64]:
    """Warp to the keyframe of a camera that comes nearer, moves to the right and tilts by an angle, rad."""
    moved = np.eye(3) + np.outer([0.1, 0.0, 0.2], [0.0, 0.0, 1.0]) / 0.8
    warp = moved @ cv2.Rodrigues(np.array([turn, 0.0, 0.0]))[0]
    view: NDArray[np.float64] = warp / warp[2, 2]
    return view


def error_in_view(turn: float) -> float:
    """Standard deviation of the logarithm of the distance."""
    warp = view_of_a_wall(turn)
    return UnknownFocalLength().error_of(PlaneDistance().measure(warp, EXACT), warp, EXACT)


def test_does_not_matter_without_a_turn() -> None:
    assert error_in_view(0.0) < 1e-3 * abs(LOG_DISTANCE)


def test_matters_in_a_turn_and_more_in_a_larger_one() -> None:
    assert error_in_view(0.08) > 0.01 * abs(LOG_DISTANCE)
    assert error_in_view(0.16) > 2 * error_in_view(0.08)


def test_does_not_matter_to_a_calibrated_camera() -> None:
    warp, empty = view_of_a_wall(0.16), np.zeros((4, 4), np.float32)
    seen = HomographyAlignment(warp, warp, EXACT, empty, empty > 0, np.zeros(2, np.float32))
    known, unknown = Surface(empty), Surface(empty)
    known.measure_distance(seen, 0.5, calibrated=True)
    unknown.measure_distance(seen, 0.5, calibrated=False)
    assert known.focal_error == 0.0
    assert unknown.focal_error == pytest.approx(error_in_view(0.16) / 0.5)
