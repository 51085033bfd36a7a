"""How earlier keyframes are recognised, and how they correct the headings of others."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_perception.camera_intrinsics import Pinhole
from edgetpu_perception.visual_compass.alignment_records import Growth, View
from edgetpu_perception.visual_compass.compass_features import FeatureGrid
from edgetpu_perception.visual_compass.keyframes import Keyframe, Keyframes
from edgetpu_perception.visual_compass.loop_closure import LoopClosure
from edgetpu_perception.visual_compass.moving_objects.expected_motion import ExpectedMotion
from edgetpu_perception.visual_compass.moving_objects.undetected_object import NO_PULL, AddedPull
from edgetpu_perception.visual_compass.orientation_estimator import OrientationEstimator
from edgetpu_perception.visual_compass.orientation_tracker_state import Pose
from edgetpu_perception.visual_compass.rolling_shutter import RollingShutter
from edgetpu_perception.visual_compass.rotation_alignment import RotationAligner
from edgetpu_perception.visual_compass.rotations import to_matrix, to_vector
from edgetpu_perception.visual_compass.visual_compass import VisualCompass
from testdata.pictures.turning_camera import CAMERA, FRAME, World, degrees

UP = np.array([0.0, -1.0, 0.0])
KEY: Any = None


def about_y(angle: float) -> NDArray[np.float64]:
    return to_matrix(np.array([0.0, angle, 0.0]))


def angles(*of: Keyframe) -> list[float]:
    return [float(to_vector(each.orientation)[1]) for each in of]


def with_variance(variance: float, parent: Keyframe | None = None, **more: Any) -> Keyframe:
    """A keyframe that looks ahead, whose variances about the three axes add up to this one, rad^2."""
    return Keyframe(KEY, 0.0, np.eye(3), np.eye(3) * variance / 3.0, parent=parent, **more)


@pytest.fixture
def chain() -> tuple[Keyframes, Keyframe, Keyframe, Keyframe, Keyframe]:
    """Four keyframes, each measured against the one before, with the variances 0, 1, 2 and 3 rad^2."""
    keyframes, first = Keyframes(), with_variance(0.0)
    a = with_variance(1.0, first)
    b = with_variance(2.0, a)
    c = with_variance(3.0, b)
    for each in (first, a, b, c):
        keyframes.add(each)
    return keyframes, first, a, b, c


Chain = tuple[Keyframes, Keyframe, Keyframe, Keyframe, Keyframe]


def test_each_keyframe_takes_a_share_of_a_correction(chain: Chain) -> None:
    keyframes, first, a, b, c = chain
    keyframes.close_loop(about_y(0.4), c, 1.0, first, 0.0)
    assert angles(first, a, b, c) == pytest.approx([0.0, 0.1, 0.2, 0.3])


def test_the_middle_of_a_closed_loop_stays_the_least_certain(chain: Chain) -> None:
    keyframes, first, a, b, c = chain
    keyframes.close_loop(np.eye(3), c, 1.0, first, 0.0)
    # A Brownian bridge: t (1 - t / 4).
    assert [each.variance for each in (first, a, b, c)] == pytest.approx([0.0, 0.75, 1.0, 0.75])


def test_two_measurements_of_a_view_share_their_difference(chain: Chain) -> None:
    keyframes, first, a, b, _ = chain
    keyframes.add(other := with_variance(1.0, first))
    keyframes.close_loop(about_y(0.5), other, 1.0, b, 1.0)
    assert angles(first, a, b, other) == pytest.approx([0.0, -0.1, -0.2, 0.1])
    assert [each.variance for each in (a, b, other)] == pytest.approx([0.8, 1.2, 0.8])


def test_a_keyframe_measured_against_a_corrected_one_follows_it(chain: Chain) -> None:
    keyframes, first, _, b, c = chain
    keyframes.add(beside := with_variance(2.5, b))
    keyframes.close_loop(about_y(0.4), c, 1.0, first, 0.0)
    assert angles(beside) == pytest.approx(angles(b))
    assert beside.variance == pytest.approx(b.variance + 0.5)


def test_keyframes_that_were_measured_otherwise_are_left_alone(chain: Chain) -> None:
    keyframes, first, a, b, c = chain
    keyframes.add(near := with_variance(0.1, first))
    keyframes.close_loop(about_y(0.2), near, 0.1, first, 0.0)
    assert angles(a, b, c, near) == pytest.approx([0.0, 0.0, 0.0, 0.1])
    assert [each.variance for each in (a, b, c)] == pytest.approx([1.0, 2.0, 3.0])


def test_after_a_closed_loop_its_second_half_is_known_by_its_end(chain: Chain) -> None:
    keyframes, first, a, b, c = chain
    keyframes.close_loop(np.eye(3), c, 1.0, first, 0.0)
    assert [each.parent for each in (a, b, c)] == [first, a, first]
    keyframes.close_loop(about_y(0.2), c, 0.75, first, 0.0)
    assert angles(a, b, c) == pytest.approx([0.0, 0.0, 0.1])


def test_the_part_of_a_chain_that_a_foreground_pulled_takes_the_correction(chain: Chain) -> None:
    keyframes, first, a, b, c = chain
    c.pull = AddedPull(6.0, 0.0, 0.0)
    keyframes.close_loop(about_y(1.0), c, 1.0, first, 0.0)
    assert angles(a, b, c) == pytest.approx([0.1, 0.2, 0.9])
    assert c.pull.variance == pytest.approx(0.6)


def test_what_was_measured_against_a_discarded_keyframe_keeps_its_place_in_the_chain(chain: Chain) -> None:
    keyframes, first, a, b, c = chain
    keyframes.discard(b)
    assert c.parent is a
    keyframes.close_loop(about_y(0.4), c, 1.0, first, 0.0)
    assert angles(first, a, c) == pytest.approx([0.0, 0.1, 0.3])


@pytest.mark.parametrize(("pull", "returns"), [(math.radians(1.6), True), (0.0, False)])
def test_a_pulled_heading_may_be_corrected_as_far_as_it_was_pulled(pull: float, returns: bool) -> None:
    grid = FeatureGrid(52, 52, 6.0, 1.0, blur=0.0, floor=0.002, quiet=0.3)
    aligner = RotationAligner(Pinhole(64, 64, 60.0, 60.0, 31.5, 31.5), 64, 64, grid)
    keyframes, estimator = Keyframes(), OrientationEstimator(aligner, UP)
    view = waves()
    first = Keyframe(aligner.key(view), 0.0, np.eye(3), np.zeros((3, 3)))
    sure = math.radians(0.3) ** 2 / 3.0 * np.eye(3)
    astray = Keyframe(aligner.key(view), 1.0, about_y(math.radians(4.0)), sure, parent=first)
    astray.pull = AddedPull(pull * pull, pull, 1.0) if pull else NO_PULL
    for each in (first, astray):
        keyframes.add(each)
    found = Pose(2.0, astray.orientation, astray, np.zeros(3), np.zeros((3, aligner.blocks)), 1.0)
    pose = loop_closure(aligner, estimator, keyframes).return_to(first, view, found, None)
    assert (pose is not None) == returns
    if pose is not None:
        assert to_vector(pose.orientation) == pytest.approx(np.zeros(3), abs=1e-3)


@pytest.mark.parametrize(("growth", "returns"), [(0.09, True), (-0.11, False)])
def test_a_place_that_the_camera_has_left_is_not_returned_to(
    monkeypatch: pytest.MonkeyPatch, growth: float, returns: bool
) -> None:
    grid = FeatureGrid(52, 52, 6.0, 1.0, blur=0.0, floor=0.002, quiet=0.3)
    aligner = RotationAligner(Pinhole(64, 64, 60.0, 60.0, 31.5, 31.5), 64, 64, grid)
    keyframes, estimator, view = Keyframes(), OrientationEstimator(aligner, UP), waves()
    known = Keyframe(aligner.key(view), 0.0, np.eye(3), np.zeros((3, 3)))
    present = Keyframe(aligner.key(view), 1.0, np.eye(3), np.zeros((3, 3)), parent=known)
    found = Pose(2.0, np.eye(3), present, np.zeros(3), np.zeros((3, aligner.blocks)), 1.0)
    alignment = dataclasses.replace(
        aligner.align(known.key, view, np.eye(3)), growth=Growth(np.zeros(aligner.blocks), growth, 0.0, 0.0)
    )
    monkeypatch.setattr(aligner, "align", lambda *_: alignment)
    pose = loop_closure(aligner, estimator, keyframes).return_to(known, view, found, None)
    assert (pose is not None) == returns


def loop_closure(
    aligner: RotationAligner, estimator: OrientationEstimator, keyframes: Keyframes
) -> LoopClosure:
    expected = ExpectedMotion(aligner, UP, estimator.foreground)
    return LoopClosure(aligner, estimator, keyframes, RollingShutter(aligner), expected)


def waves() -> View:
    y, x = np.mgrid[:52, :52] - 25.5
    height = 8 * np.sin(0.4 * x + 0.1 * y) + 8 * np.sin(0.35 * y - 0.12 * x)
    slope_y, slope_x = np.gradient(height)
    return View(np.stack([height, slope_x, slope_y]).reshape(3, 1, -1).astype(np.float32))


def test_sigmas_stay_honest_after_several_turns() -> None:
    pytest.importorskip("ai_edge_litert", reason="needs LiteRT")
    world, compass = World(), VisualCompass(camera=CAMERA)
    yaws = np.arange(0.0, 4 * 360.0, 4.0)
    results = [compass.update(world.image(yaw), index * FRAME) for index, yaw in enumerate(yaws)]
    errors, sigmas = np.abs(degrees(results, "yaw") - yaws), degrees(results, "yaw_sigma")
    assert float(np.max(errors[1:] / sigmas[1:])) < 5.0
