"""The motion of what a camera sees in a hall, with which protocols of optical flow compare results."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from accuracy.scenes.panorama_turns import pinhole
from accuracy.scenes.textured_hall import Hall, Pose
from edgetpu_perception.visual_compass.rotations import to_matrix

CAMERA = pinhole(64, 48, 40.0)
HALL = Hall.drawn((2.0, 2.0, 3.0), np.random.default_rng(1))
BEFORE = Pose(np.zeros(3), np.eye(3))
"""Looks straight on at a wall 3 m away."""


def test_a_wall_moves_against_the_camera() -> None:
    after = Pose(np.array([0.3, -0.15, 0.0]), np.eye(3))
    assert HALL.motion(CAMERA, BEFORE, after) == pytest.approx((-0.1 * CAMERA.fx, 0.05 * CAMERA.fx))


def test_a_roll_moves_the_middle_nowhere() -> None:
    after = Pose(np.zeros(3), to_matrix(np.array([0.0, 0.0, 0.02])))
    assert HALL.motion(CAMERA, BEFORE, after) == pytest.approx((0.0, 0.0), abs=0.02)


def test_the_pictures_show_that_motion() -> None:
    after = Pose(np.array([0.05, 0.0, 0.0]), to_matrix(np.array([0.01, 0.0, 0.0])))
    first, second = (HALL.picture(CAMERA, pose) for pose in (BEFORE, after))
    found, _ = cv2.phaseCorrelate(first.astype(np.float64), second.astype(np.float64))
    assert found == pytest.approx(HALL.motion(CAMERA, BEFORE, after), abs=0.2)
