"""A camera that stands still in front of objects that move, and fill half of the picture."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

from edgetpu_perception.visual_compass.moving_objects.expected_motion import (
    areas_of_one_motion,
    chance_of_other,
)
from edgetpu_perception.visual_compass.orientation_tracker import OrientationTracker
from edgetpu_perception.visual_compass.rotations import to_matrix
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


def test_each_motion_fits_its_own_part_of_the_picture() -> None:
    before, after = World(seed=7).image(0, noise=0), World(seed=7).image(1, noise=0)
    after[:, 24:] = before[:, 24:]
    compass = VisualCompass(camera=CAMERA)
    for number, image in enumerate((before, after)):
        compass.update(image, number * FRAME)
    tracker = compass._tracker
    assert isinstance(tracker, OrientationTracker)
    assert tracker._last is not None
    view = tracker._last.view
    assert view is not None
    aligner, key = tracker._aligner, tracker._keyframes.first.key
    turned, still = (
        aligner.align(key, view, to_matrix(np.array([0.0, math.radians(yaw), 0.0])), most_noise=0.1)
        for yaw in (1.0, 0.0)
    )
    fits_turned, fits_still = areas_of_one_motion(aligner, turned, still)
    assert fits_turned == pytest.approx(24 / 64, abs=0.15)
    assert fits_still == pytest.approx(40 / 64, abs=0.15)


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
