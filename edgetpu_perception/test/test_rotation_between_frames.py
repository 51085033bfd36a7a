from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from edgetpu_perception.camera_intrinsics import Pinhole
from edgetpu_perception.visual_compass.alignment_records import RotationAlignment, View
from edgetpu_perception.visual_compass.compass_features import FeatureGrid
from edgetpu_perception.visual_compass.keyframes import Keyframe
from edgetpu_perception.visual_compass.orientation_tracker_state import Pose, TrackedPose
from edgetpu_perception.visual_compass.rolling_shutter import RollingShutter
from edgetpu_perception.visual_compass.rotation_alignment import RotationAligner
from edgetpu_perception.visual_compass.rotation_between_frames import (
    NEAR_VARIANCE_SHARE,
    SURPRISING,
    TRIAL_INTERVAL,
    DirectComparison,
    MeasuredTurn,
    by_keyframe,
    turns_on,
)
from edgetpu_perception.visual_compass.rotations import to_matrix

GRID = FeatureGrid(52, 52, 6.0, 1.0, blur=0.0, floor=0.002, quiet=0.3)
FOCAL = 40.0
YAWS = 0.0, 0.01, 0.03
"""Turns of the three views, rad: of the keyframe, the last view and this one."""


def view(yaw: float) -> View:
    """Waves with exact derivatives, seen by a camera that has turned to the left."""
    y, x = np.mgrid[:52, :52] - 25.5
    rays = np.stack([x.ravel() / FOCAL, y.ravel() / FOCAL, np.ones(x.size)])
    seen = to_matrix(np.array([0.0, -yaw, 0.0])) @ rays
    u, v = FOCAL * seen[0] / seen[2], FOCAL * seen[1] / seen[2]
    height = (8 * np.sin(0.4 * u + 0.1 * v) + 8 * np.sin(0.35 * v - 0.12 * u)).reshape(52, 52)
    slope_y, slope_x = np.gradient(height)
    return View(np.stack([height, slope_x, slope_y]).reshape(3, 1, -1).astype(np.float32))


@pytest.fixture(scope="module")
def measured() -> tuple[RotationAligner, TrackedPose, View, RotationAlignment, MeasuredTurn]:
    aligner = RotationAligner(Pinhole(64, 64, FOCAL, FOCAL, 31.5, 31.5), 64, 64, GRID)
    first, last, this = map(view, YAWS)
    keyframe = Keyframe(aligner.key(first), 0.0, np.eye(3), np.zeros((3, 3)))
    poses = []
    for number, seen in enumerate((last, this)):
        alignment = aligner.align(keyframe.key, seen, np.eye(3))
        influence = -alignment.influence
        pose = Pose(number + 1.0, alignment.rotation.T, keyframe, np.zeros(3), influence, 1.0)
        poses.append(replace(pose, alignment=alignment))
        if seen is last:
            tracked = TrackedPose(poses[0], 0.0, np.zeros(3), None, last)
    return aligner, tracked, this, alignment, by_keyframe(*poses)


def test_a_turn_is_the_difference_of_two_poses(
    measured: tuple[RotationAligner, TrackedPose, View, RotationAlignment, MeasuredTurn],
) -> None:
    *_, turn = measured
    assert turn.vector == pytest.approx([0.0, YAWS[1] - YAWS[2], 0.0], abs=math.radians(0.03))
    assert not turn.difference.any()


def test_views_of_things_far_away_are_not_compared_directly(
    measured: tuple[RotationAligner, TrackedPose, View, RotationAlignment, MeasuredTurn],
) -> None:
    aligner, last, this, alignment, turn = measured
    assert (
        DirectComparison(aligner, RollingShutter(aligner)).improve(
            turn, last, this, replace(alignment, tail=1.0)
        )
        is turn
    )


def test_where_parts_disagree_the_last_view_counts(
    measured: tuple[RotationAligner, TrackedPose, View, RotationAlignment, MeasuredTurn],
) -> None:
    aligner, last, this, alignment, turn = measured
    both = DirectComparison(aligner, RollingShutter(aligner)).improve(
        turn, last, this, replace(alignment, tail=2.0)
    )
    assert both.difference.any()
    assert both.by_keyframe == pytest.approx(turn.vector)
    assert both.vector == pytest.approx([0.0, YAWS[1] - YAWS[2], 0.0], abs=math.radians(0.03))


def test_differences_beyond_noise_add_to_the_covariance_of_turns_that_follow(
    measured: tuple[RotationAligner, TrackedPose, View, RotationAlignment, MeasuredTurn],
) -> None:
    aligner, last, this, alignment, turn = measured
    comparison = DirectComparison(aligner, RollingShutter(aligner))
    quiet = replace(turn, vector=turn.vector + 0.004, influence=np.zeros_like(turn.influence))
    first = comparison.improve(quiet, last, this, replace(alignment, tail=2.0))
    explained = SURPRISING * float(np.vdot(first.influence, first.influence))
    square = float(first.difference @ first.difference)
    beyond = NEAR_VARIANCE_SHARE * (1.0 - explained / square)
    expected = beyond * np.outer(first.difference, first.difference)
    assert first.near_covariance == pytest.approx(expected)
    later = comparison.improve(quiet, last, this, replace(alignment, tail=1.0))
    assert later.near_covariance == pytest.approx(expected)


def test_differences_that_noise_explains_add_nothing(
    measured: tuple[RotationAligner, TrackedPose, View, RotationAlignment, MeasuredTurn],
) -> None:
    aligner, last, this, alignment, turn = measured
    noisy = replace(turn, influence=np.full_like(turn.influence, 0.01))
    compared = DirectComparison(aligner, RollingShutter(aligner)).improve(
        noisy, last, this, replace(alignment, tail=2.0)
    )
    assert compared.difference.any()
    assert not compared.near_covariance.any()


def test_a_direct_comparison_that_contradicts_is_not_used(
    measured: tuple[RotationAligner, TrackedPose, View, RotationAlignment, MeasuredTurn],
) -> None:
    aligner, last, this, alignment, turn = measured
    wrong = replace(turn, vector=turn.vector + np.array([0.0, 0.03, 0.0]))
    assert (
        DirectComparison(aligner, RollingShutter(aligner)).improve(
            wrong, last, this, replace(alignment, tail=2.0)
        )
        is wrong
    )


def test_while_both_measurements_agree_few_turns_are_compared(
    measured: tuple[RotationAligner, TrackedPose, View, RotationAlignment, MeasuredTurn],
) -> None:
    aligner, last, this, alignment, turn = measured
    disagreeing = replace(alignment, tail=2.0)
    direct = DirectComparison(aligner, RollingShutter(aligner)).improve(turn, last, this, disagreeing)
    alike = replace(turn, vector=direct.vector, influence=direct.influence)
    comparison = DirectComparison(aligner, RollingShutter(aligner))
    compared = [
        comparison.improve(alike, last, this, disagreeing) is not alike for _ in range(2 * TRIAL_INTERVAL + 1)
    ]
    assert [number for number, each in enumerate(compared) if each] == [0, TRIAL_INTERVAL, 2 * TRIAL_INTERVAL]


def test_while_the_keyframe_is_far_noisier_every_turn_is_compared(
    measured: tuple[RotationAligner, TrackedPose, View, RotationAlignment, MeasuredTurn],
) -> None:
    aligner, last, this, alignment, turn = measured
    comparison, disagreeing = DirectComparison(aligner, RollingShutter(aligner)), replace(alignment, tail=2.0)
    noisy = replace(turn, influence=np.full_like(turn.influence, 0.01))
    assert all(comparison.improve(noisy, last, this, disagreeing) is not noisy for _ in range(5))


def test_while_they_disagree_every_turn_is_compared(
    measured: tuple[RotationAligner, TrackedPose, View, RotationAlignment, MeasuredTurn],
) -> None:
    aligner, last, this, alignment, turn = measured
    comparison, disagreeing = DirectComparison(aligner, RollingShutter(aligner)), replace(alignment, tail=2.0)
    wrong = replace(turn, vector=turn.vector + 0.004, influence=np.zeros_like(turn.influence))
    assert all(comparison.improve(wrong, last, this, disagreeing) is not wrong for _ in range(5))


@pytest.mark.parametrize(("jump_deg", "interval", "goes_on"), [(10, 1 / 30, True), (10, 0.5, False)])
def test_a_jump_that_no_jolt_explains_needs_far_more_support(
    measured: tuple[RotationAligner, TrackedPose, View, RotationAlignment, MeasuredTurn],
    jump_deg: float,
    interval: float,
    goes_on: bool,
) -> None:
    *_, alignment, _ = measured
    # The jump is supported by all of the picture, going on by two thirds.
    used = alignment.agreement.used.copy()
    used[::3] = 0.0
    course = replace(alignment, agreement=replace(alignment.agreement, used=used))
    assert turns_on(course, alignment, math.radians(jump_deg), interval) == goes_on
