"""The course that the camera had before something moved independently."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from edgetpu_perception.visual_compass.alignment_records import RotationAlignment
from edgetpu_perception.visual_compass.moving_objects.dominant_object import SteadyCourse
from edgetpu_perception.visual_compass.orientation_tracker import OrientationTracker
from edgetpu_perception.visual_compass.rotation_alignment import RotationAligner
from edgetpu_perception.visual_compass.rotations import Vector, to_matrix
from edgetpu_perception.visual_compass.visual_compass import VisualCompass
from testdata.pictures.passer_by import PasserBy
from testdata.pictures.turning_camera import CAMERA, FRAME, World

pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

STILL = np.zeros(3)
TURNING = np.array([0.0, 0.5, 0.0])
"""Angular velocities in the optical frame, rad/s."""


def moved_by_itself(course: SteadyCourse, velocities: list[Vector], kept: bool) -> list[Vector | None]:
    """What is found after a still camera, for velocities while half of the picture does not follow."""
    compass, image = VisualCompass(camera=CAMERA), World().image(0)
    for index in range(2):
        compass.update(image, index * FRAME)
    heading = compass._tracker
    assert isinstance(heading, OrientationTracker)
    last = heading._last
    assert last is not None
    alignment = last.alignment
    assert isinstance(alignment, RotationAlignment)
    for index in range(5):
        course.update(STILL, dataclasses.replace(last.pose, stamp=index * FRAME), alignment, FRAME)
    found = []
    for index, velocity in enumerate(velocities, 5):
        course._is_kept = kept and index == 4 + len(velocities)
        pose = dataclasses.replace(last.pose, stamp=index * FRAME)
        found.append(course.update(velocity, pose, dataclasses.replace(alignment, following=0.5), FRAME))
    return found


@pytest.fixture
def aligner() -> RotationAligner:
    compass = VisualCompass(camera=CAMERA)
    compass.update(World().image(0), 0.0)
    assert compass._aligner is not None
    return compass._aligner


@pytest.fixture
def course(aligner: RotationAligner) -> SteadyCourse:
    return SteadyCourse(aligner)


def test_the_heading_went_astray_by_the_difference_of_the_velocities(course: SteadyCourse) -> None:
    *before, astray = moved_by_itself(course, [TURNING] * 6, kept=True)
    assert before == [None] * 5
    assert astray == pytest.approx(TURNING * 6 * FRAME)


def test_while_the_picture_does_not_show_the_course_nothing_is_corrected(course: SteadyCourse) -> None:
    assert moved_by_itself(course, [TURNING] * 6, kept=False) == [None] * 6


def test_it_began_with_the_oldest_view_in_which_it_may_have_been_overlooked(course: SteadyCourse) -> None:
    moved_by_itself(course, [STILL], kept=False)
    assert course.began == 0.0


def test_points_are_in_view_until_the_camera_has_turned_away(aligner: RotationAligner) -> None:
    across = aligner.points.rays[0]
    left, right = ((sign * across > 0.0).astype(np.float32) for sign in (-1.0, 1.0))
    away = to_matrix(np.array([0.0, 1.0, 0.0]))
    assert aligner.any_in_view(right, np.eye(3))
    assert not aligner.any_in_view(right, away)
    assert aligner.any_in_view(left, away)
    assert not aligner.any_in_view(np.zeros_like(right), np.eye(3))


def test_the_area_that_an_alignment_explains_is_that_of_its_motion() -> None:
    compass, scene = VisualCompass(camera=CAMERA), World(seed=7)
    compass.update(scene.image(0), 0.0)
    turned = scene.image(3)
    turned[48:] = scene.image(0)[48:]
    compass.update(turned, FRAME)
    heading = compass._tracker
    assert isinstance(heading, OrientationTracker)
    assert heading._last is not None
    key, view = heading._keyframes.first.key, heading._last.view
    aligner = heading._aligner
    assert view is not None
    below = (aligner.points.rays[1] > (48 - CAMERA.cy) / CAMERA.fy).astype(np.float32)
    turn = aligner.align(key, view, to_matrix(np.radians([0.0, 3.0, 0.0])))
    still = aligner.align(dataclasses.replace(key, standing=below), view, np.eye(3))
    # The features are those of rows 6 to 57.
    assert aligner.area_share(turn, still) == pytest.approx(42 / 52, abs=0.03)
    assert aligner.area_share(still, turn) == pytest.approx(10 / 52, abs=0.03)


def test_somebody_who_starts_to_walk_before_a_still_camera_does_not_turn_it() -> None:
    compass, scene = VisualCompass(camera=CAMERA), PasserBy(seed=1, stretch=16.0)
    for index in range(40):
        left = 40.0 - 0.01 * max(index - 3, 0) ** 2
        result = compass.update(scene.image(0.0, left), index * FRAME)
    assert np.degrees(result.yaw) == pytest.approx(0.0, abs=0.3)


def test_somebody_who_goes_along_with_a_turn_does_not_hold_the_heading() -> None:
    # To a camera that turns, who goes along with it looks as if it still stood still.
    compass, scene = VisualCompass(camera=CAMERA), PasserBy(seed=0, stretch=10.0)
    for index in range(10):
        compass.update(scene.image(0.0), index * FRAME)
    for index in range(1, 25):
        left = min(6.0 * index - 14.0, 26.0)
        result = compass.update(scene.image(3.0 * index, left), (9 + index) * FRAME)
    assert np.degrees(result.yaw) == pytest.approx(-72.0, abs=0.3)
