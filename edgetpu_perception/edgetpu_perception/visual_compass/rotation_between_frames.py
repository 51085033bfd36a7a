"""The turn from one view to the next: by a common keyframe, and directly where the scene is not far away.

Of several alignments, chooses the one that shows how the camera turned.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.algorithm import MAX_REPEATED_S
from edgetpu_perception.visual_compass.alignment_records import RotationAlignment, View
from edgetpu_perception.visual_compass.angular_velocity_filter import ACCELERATION_SIGMAS
from edgetpu_perception.visual_compass.keyframes import MIN_SIMILARITY_SHARE, Keyframe
from edgetpu_perception.visual_compass.orientation_tracker_state import Pose, TrackedPose
from edgetpu_perception.visual_compass.robust_residuals import TAIL_RANGE
from edgetpu_perception.visual_compass.rolling_shutter import RollingShutter
from edgetpu_perception.visual_compass.rotation_alignment import MAX_GUESS_ERROR_CELLS, RotationAligner
from edgetpu_perception.visual_compass.rotations import (
    Matrix,
    Vector,
    angle_between,
    largest,
    to_matrix,
    to_vector,
    trace,
)
from edgetpu_perception.visual_compass.view_recognition_limits import (
    JUMP_SIMILARITY_SHARE,
    SIMILARITY_RANGE,
    SUDDEN_SIMILARITY_SHARE,
    TURNING_SIGMAS,
    TYPICAL_SIMILARITY,
)

MAX_DIFFERENCE_CELLS = 0.5
"""Largest difference of the two measurements in cells: beyond it one of them follows a moving object.

Rows: compass, drone, yaw rate RMSE. Uncritical.
"""

SURPRISING = 0.4
"""Mean square of the differences over the one that noise explains, above which near objects are in view.

It is up to 0.4 if the camera only turns, 0.5 to 1 if it drifts: both measurements share the noise of a view.
Rows: compass, drone, yaw rate RMSE.
"""

LEAST_SHARE = 1 / 5
"""Share of direct turns in the variance that noise explains, below which they are far better than the others.

It is a half where the camera only turns, and the smaller the more the scene differs from the keyframe, as in
front of clouds, waves or near objects: noise then explains the differences, but it is the keyframe's. Rows:
compass, full turns, yaw rates within one sigma: with a quarter there are 4 points more.
"""

TRIAL_INTERVAL = 4
"""Turns from one direct comparison to the next while the keyframe is as good; limits the time."""

MEMORY = 0.05
"""Smallest weight of a difference in their mean square. Uncritical."""

NEAR_VARIANCE_SHARE = 1.5
"""Variance of a turn over the variance of the differences that noise does not explain.

Above 1, as errors that near objects cause in both measurements do not show in their difference. Rows:
compass, drone, yaw rates within one sigma.
"""


_NO_COVARIANCE = np.zeros((3, 3))
"""Of a turn in a scene without near objects."""


@dataclass(frozen=True)
class MeasuredTurn:
    """A turn about the optical axes of the later view, rad."""

    vector: Vector
    influence: NDArray[np.float64]
    """Contribution of each block of residuals: [3, blocks]."""
    difference: Vector
    """Difference of this turn from the one by the keyframe, rad; 0 if it is that one."""
    near_covariance: Matrix
    """Covariance in rad^2 that near objects add to that of the residuals."""

    @property
    def by_keyframe(self) -> Vector:
        """The turn by the keyframe alone, which stays steady while one of two motions is followed."""
        return self.vector - self.difference


def by_keyframe(before: Pose, found: Pose) -> MeasuredTurn:
    """The turn between two poses that were measured against keyframes."""
    # Errors of a common keyframe cancel, block by block.
    common = before.influence if before.keyframe is found.keyframe else 0.0
    return MeasuredTurn(
        to_vector(before.orientation.T.dot(found.orientation)),
        found.orientation.T.dot(found.influence - common),
        np.zeros(3),
        _NO_COVARIANCE,
    )


class DirectComparison:
    """Measures turns directly against the last view where objects move relative to the keyframe.

    Near objects do so when the camera is carried along. Each alignment to the keyframe then follows other
    parts of the picture, and turns by it jump, while objects hardly move from one view to the next. As long
    as both measurements agree and are equally good, only every TRIAL_INTERVAL-th turn is compared.
    """

    def __init__(self, aligner: RotationAligner, shutter: RollingShutter) -> None:
        self._aligner = aligner
        self._shutter = shutter
        self._products = np.zeros((3, 3))
        self._expected = self._expected_of_direct = 0.0
        self._left_out = self._compared = 0

    def improve(
        self, turn: MeasuredTurn, last: TrackedPose, view: View, alignment: RotationAlignment
    ) -> MeasuredTurn:
        """The better measurement of a turn.

        `turn`: the one by the keyframe; `view`, `alignment`: the later view and its alignment to the
        keyframe.
        """
        better = self._direct(turn, last, view, alignment) or turn
        square, explained = trace(self._products), SURPRISING * self._expected
        if square <= explained:
            return better
        near = NEAR_VARIANCE_SHARE * (1.0 - explained / square) * self._products
        return dataclasses.replace(better, near_covariance=near)

    def _direct(
        self, turn: MeasuredTurn, last: TrackedPose, view: View, alignment: RotationAlignment
    ) -> MeasuredTurn | None:
        """The turn against the last view; None if it is not needed or follows a moving object."""
        if alignment.tail <= TAIL_RANGE[0] or last.view is None or last.alignment is None:
            return None
        self._left_out += 1
        if self._keyframe_is_as_good() and self._left_out < TRIAL_INTERVAL:
            return None
        self._left_out = 0
        aligner = self._aligner
        key = aligner.key(last.view, last.alignment)
        direct = aligner.align(key, view, to_matrix(-turn.vector))
        rotation = self._shutter.rotation(key, direct, alignment.velocity)
        vector = -to_vector(rotation)  # of the camera since the last view; the same in both frames
        difference = vector - turn.vector
        if not direct.converged or largest(difference) * aligner.cells_per_radian > MAX_DIFFERENCE_CELLS:
            return None
        influence = -rotation.dot(direct.influence)
        of_direct = float(np.vdot(influence, influence))
        both = of_direct + float(np.vdot(turn.influence, turn.influence))
        self._compared += 1
        weight = max(MEMORY, 1.0 / self._compared)
        self._products += weight * (difference[:, np.newaxis] * difference - self._products)
        self._expected += weight * (both - self._expected)
        self._expected_of_direct += weight * (of_direct - self._expected_of_direct)
        return MeasuredTurn(vector, influence, difference, _NO_COVARIANCE)

    def _keyframe_is_as_good(self) -> bool:
        """Whether turns by the keyframe agree with direct ones, and are not far noisier."""
        agree = trace(self._products) < SURPRISING * self._expected
        return agree and self._expected_of_direct > LEAST_SHARE * self._expected


NOISE_RISE = 2.0
"""Noise of a view over that of the last one above which another motion is searched for.

Rows: none; test_bars_beside_the_picture_do_not_hold_the_heading. A lower one costs time at changes of the
exposure.
"""


def initial_similarity(keyframe: Keyframe) -> float:
    """Similarity of the first view aligned to a keyframe, or the typical one."""
    return TYPICAL_SIMILARITY if math.isnan(keyframe.similarity) else keyframe.similarity


def is_good(alignment: RotationAlignment, before: Pose) -> bool:
    """Whether an alignment is as similar to the keyframe as expected from the last pose."""
    recent = max(SUDDEN_SIMILARITY_SHARE * before.similarity, SIMILARITY_RANGE[0])
    return alignment.converged and alignment.similarity >= min(
        recent, MIN_SIMILARITY_SHARE * initial_similarity(before.keyframe)
    )


def is_noisy(alignment: RotationAlignment, last: TrackedPose) -> bool:
    """Whether a view differs more from the keyframe than the last one did, or is the first to be compared.

    The alignment may then follow what the camera adds to its pictures: bars, letters or dirt do not move, and
    the differences of the whole scene are taken for noise.
    """
    if last.alignment is not None:
        before = max(last.alignment.agreement.noise, last.alignment.whole_noise)
        return alignment.agreement.noise > NOISE_RISE * before
    return last.heading is None


def is_repeated(view: View, last: TrackedPose, stamp: float) -> bool:
    """Whether a turning camera has sent the last image again, which says nothing about the turn."""
    if last.heading is None or stamp - last.pose.stamp > MAX_REPEATED_S:
        return False
    before = last.view or last.pose.keyframe.key.view
    turns = abs(last.heading.yaw_rate) > TURNING_SIGMAS * last.heading.yaw_rate_sigma
    return turns and np.array_equal(view.planes[0], before.planes[0])


def turns_on(first: RotationAlignment, other: RotationAlignment, jump: float, interval: float) -> bool:
    """Whether the camera has turned on as extrapolated, and a jump, rad, is the motion of an object.

    It has if the picture supports that more than the jump, weighted with the likelihood that a jolt turns the
    camera that far off its course in `interval` s.
    """
    noise = min(first.agreement.noise, other.agreement.noise)
    supports, contradicts = (each.agreement.measure(noise)[2] for each in (first, other))
    jolts = jump / (ACCELERATION_SIGMAS[-1] * interval**2)
    return supports > contradicts * math.exp(-0.5 * jolts * jolts)


def better(one: RotationAlignment, other: RotationAlignment) -> RotationAlignment:
    """The alignment that more of the picture supports, at the smaller noise of both.

    Points out of view support neither: a few people who happen to look like others do not outvote a scene.
    """
    noise = min(one.agreement.noise, other.agreement.noise)
    return max(one, other, key=lambda each: each.agreement.measure(noise)[2])


def align_to_keyframe(
    aligner: RotationAligner, view: View, last: TrackedPose, stamp: float
) -> RotationAlignment:
    """Align a view to the present keyframe, from up to five guesses."""
    align, key, orientation = aligner.align, last.pose.keyframe.key, last.pose.keyframe.orientation
    growth = None if last.alignment is None else last.alignment.growth
    best = first = align(key, view, last.orientation_at(stamp).T.dot(orientation), growth)
    if not is_good(best, last.pose):
        best = better(best, align(key, view, last.pose.orientation.T @ orientation, growth))
    if not is_good(best, last.pose) or is_noisy(best, last):
        for guess in aligner.guesses(key, view):
            best = better(best, align(key, view, guess))
    if best is first or last.heading is None:  # without a course nothing is known of how the camera turns
        return best
    jump = angle_between(best.rotation, first.rotation)
    is_far = jump * aligner.cells_per_radian > MAX_GUESS_ERROR_CELLS
    similar = first.similarity > JUMP_SIMILARITY_SHARE * best.similarity
    if key.standing is not None and is_far and similar:
        return first  # something moves independently, and a jump is more often its motion
    return first if turns_on(first, best, jump, stamp - last.pose.stamp) else best
