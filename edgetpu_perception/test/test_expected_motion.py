"""A camera that stands still in front of objects that move, and fill half of the picture."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from edgetpu_perception.visual_compass.alignment_records import View
from edgetpu_perception.visual_compass.keyframes import Keyframe
from edgetpu_perception.visual_compass.moving_objects.expected_motion import (
    areas_of_one_motion,
    chance_of_other,
)
from edgetpu_perception.visual_compass.orientation_tracker import OrientationTracker
from edgetpu_perception.visual_compass.rotations import Matrix, to_matrix, to_vector
from edgetpu_perception.visual_compass.visual_compass import HeadingResult, VisualCompass
from testdata.pictures.turning_camera import CAMERA, FRAME, IMAGE, World, degrees, play

pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

PARTS = 16
BEGIN_S = 0.5
"""Time at which the objects begin to move, s."""


def two_boards(seed: int) -> Iterator[IMAGE]:
    """Pictures with a scene of little contrast on the left, and two boards that move apart on the right."""
    scene, upper, lower = (World(seed=seed + number) for number in range(3))
    still = 128 + 0.3 * (scene.image(0, noise=0) - 128.0)
    for number in range(60):
        swing = 4.0 * math.sin(math.pi * max(number * FRAME - BEGIN_S, 0.0))
        picture = still.copy()
        picture[:40, 32:] = upper.image(swing, noise=0)[:40, 32:]
        picture[40:, 32:] = lower.image(-swing / 2, swing / 2, noise=0)[40:, 32:]
        yield np.rint(picture).astype(np.uint8)


def watched(seed: int) -> list[HeadingResult]:
    """Results for the pictures of the two boards, without the first one."""
    compass = VisualCompass(camera=CAMERA)
    return [compass.update(image, number * FRAME) for number, image in enumerate(two_boards(seed))][1:]


@pytest.mark.parametrize("seed", [7, 17, 27])
def test_a_still_half_of_the_picture_holds_the_heading(seed: int) -> None:
    results = watched(seed)
    assert all(result.valid for result in results)
    assert np.abs(degrees(results, "yaw")).max() < 0.3


@pytest.mark.parametrize("seed", [7, 17, 27])
def test_sigma_covers_what_the_boards_may_do_to_the_heading(seed: int) -> None:
    results = watched(seed)
    over_sigma = np.abs(degrees(results, "yaw")) / degrees(results, "yaw_sigma")
    assert np.percentile(over_sigma, 95) < 2.0
    largest = [degrees(part, "yaw_sigma").max() for part in (results[:10], results[20:])]
    assert largest[0] < 0.01
    assert largest[1] > 0.1


def test_a_scene_that_turns_as_a_whole_is_not_doubted() -> None:
    results = play([0.1 * number for number in range(30)])[1:]
    assert degrees(results, "yaw_sigma").max() < 0.05


def pair(before: IMAGE, after: IMAGE) -> tuple[OrientationTracker, Keyframe, View]:
    """A tracker that has seen two pictures: with the first one as keyframe, and the second one as view."""
    compass = VisualCompass(camera=CAMERA)
    for number, image in enumerate((before, after)):
        compass.update(image, number * FRAME)
    tracker = compass._tracker
    assert isinstance(tracker, OrientationTracker)
    assert tracker._last is not None
    view = tracker._last.view
    assert view is not None
    return tracker, tracker._keyframes.first, view


def about_y(yaw: float) -> Matrix:
    """Rotation from a keyframe to the view of a camera that has turned left by `yaw` deg."""
    return to_matrix(np.array([0.0, math.radians(yaw), 0.0]))


def test_each_motion_fits_its_own_part_of_the_picture() -> None:
    before, after = (World(seed=7).image(yaw, noise=0) for yaw in (0, 1))
    after[:, 24:] = before[:, 24:]
    tracker, keyframe, view = pair(before, after)
    aligner = tracker._aligner
    turned, still = (aligner.align(keyframe.key, view, about_y(yaw), most_noise=0.1) for yaw in (1, 0))
    fits_turned, fits_still = areas_of_one_motion(aligner, turned, still)
    assert fits_turned == pytest.approx(24 / 64, abs=0.15)
    assert fits_still == pytest.approx(40 / 64, abs=0.15)


def test_half_of_a_small_difference_to_the_expected_motion_is_doubted() -> None:
    tracker, keyframe, view = pair(*(World(seed=7).image(yaw, noise=0) for yaw in (0, 0.1)))
    found = tracker._aligner.align(keyframe.key, view, np.eye(3))
    some_moves = replace(found, following=0.5)
    result = tracker._expected.weighed(some_moves, some_moves, np.eye(3), keyframe, view)
    assert result.rotation is found.rotation
    assert math.degrees(math.sqrt(result.doubt)) == pytest.approx(0.1 / math.sqrt(2), rel=0.05)
    assert tracker._expected.weighed(found, found, np.eye(3), keyframe, view) is found


def test_of_two_alignments_at_the_same_place_the_certain_one_is_taken() -> None:
    tracker, keyframe, view = pair(*(World(seed=7).image(yaw, noise=0) for yaw in (0, 0.1)))
    found = tracker._aligner.align(keyframe.key, view, np.eye(3))
    uncertain = replace(found, following=0.5, influence=100.0 * found.influence)
    result = tracker._expected.weighed(uncertain, uncertain, np.eye(3), keyframe, view)
    assert np.linalg.norm(result.influence) < 0.1 * np.linalg.norm(uncertain.influence)
    assert math.degrees(to_vector(result.rotation)[1]) == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize(
    ("one", "other", "chance"),
    [
        (0.5, 0.5, 0.5),  # as much of one as of the other
        (0.0, 0.0, 0.5),  # nothing shows which it is
        (1.0, 0.0, 0.5 * math.erfc(4.0 / math.sqrt(2.0))),  # four sigmas with sixteen parts
        (0.0, 1.0, 1.0 - 0.5 * math.erfc(4.0 / math.sqrt(2.0))),
        (0.5, 0.0, 0.5 * math.erfc(math.sqrt(48 / 19 / 2))),  # a lead of 1/2, variance 1/64 + 1/12
    ],
)
def test_the_chance_of_the_other_motion(one: float, other: float, chance: float) -> None:
    assert chance_of_other(one, other, PARTS) == pytest.approx(chance)
