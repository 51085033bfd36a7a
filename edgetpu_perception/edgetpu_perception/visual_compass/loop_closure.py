"""Recognises earlier keyframes in a view, and corrects the headings since then."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from edgetpu_perception.visual_compass import view_recognition_limits as limits
from edgetpu_perception.visual_compass.alignment_records import RotationAlignment, View
from edgetpu_perception.visual_compass.keyframes import Keyframe, Keyframes, has_moved_on
from edgetpu_perception.visual_compass.moving_objects.expected_motion import ExpectedMotion
from edgetpu_perception.visual_compass.orientation_estimator import OrientationEstimator
from edgetpu_perception.visual_compass.orientation_tracker_state import Loss, Pose
from edgetpu_perception.visual_compass.rolling_shutter import RollingShutter
from edgetpu_perception.visual_compass.rotation_alignment import MAX_GUESS_ERROR_CELLS, RotationAligner
from edgetpu_perception.visual_compass.rotation_between_frames import better, initial_similarity
from edgetpu_perception.visual_compass.rotations import Matrix, angle_between, trace


@dataclass(frozen=True)
class PossibleReturn:
    """A keyframe that seems to be in view again."""

    known: Keyframe
    correction: Matrix
    """Rotation in the world from the present orientation to the one measured against that keyframe."""
    agreeing_views: int
    """Number of successive views with the same correction."""

    @classmethod
    def after(cls, before: PossibleReturn | None, known: Keyframe, correction: Matrix) -> PossibleReturn:
        """The possible return after one more view. `before`: that of the view before, None if it had none."""
        agrees = before and angle_between(correction, before.correction) < limits.SAME_ORIENTATION
        return cls(known, correction, before.agreeing_views + 1 if before and agrees else 1)


class LoopClosure:
    """Measures views against keyframes that were made before the camera turned away or was lost."""

    def __init__(
        self,
        aligner: RotationAligner,
        estimator: OrientationEstimator,
        keyframes: Keyframes,
        shutter: RollingShutter,
        expected: ExpectedMotion,
    ) -> None:
        self._aligner = aligner
        self._shutter = shutter
        self._estimator = estimator
        self._keyframes = keyframes
        self._expected = expected
        self._tries = 0
        self._possible_return: PossibleReturn | None = None

    def recognise(self, view: View, found: Pose, loss: Loss | None, tries: int) -> Pose | None:
        """Compare a view with keyframes from before the camera was lost; None if none is recognised.

        `found`: pose of the view if none is recognised; `tries`: number of keyframes to compare.
        """
        chain = loss.chain + 1 if loss else found.keyframe.chain
        sigma = math.sqrt(self._variance(found))
        reach = limits.MAX_CORRECTION_SIGMAS * sigma + self._aligner.field_of_view
        if self._possible_return and self._possible_return.known not in self._keyframes:
            self._possible_return = None  # its keyframe was discarded
        others = self._keyframes.older(chain, found.orientation, reach)
        for _ in range(min(tries, len(others))):
            self._tries += 1
            possible_return = self._possible_return
            known = possible_return.known if possible_return else others[self._tries % len(others)]
            pose = self.return_to(known, view, found, loss)
            if pose is not None:
                return pose
            if self._possible_return:
                break
        return None

    def return_to(self, known: Keyframe, view: View, found: Pose, loss: Loss | None) -> Pose | None:
        """Measure a view against an earlier keyframe; None if the view does not show it."""
        possible_return, self._possible_return = self._possible_return, None
        expected = possible_return.correction @ found.orientation if possible_return else found.orientation
        variance = self._variance(found)
        variance_between = _variance_between(found, variance, known, loss)
        least = (
            limits.CERTAIN_SIMILARITY_SHARE
            if variance_between > limits.UNCERTAIN_SIGMA**2
            else limits.KNOWN_SIMILARITY_SHARE
        ) * initial_similarity(known)
        # A pull on the heading shifts where a keyframe is expected, but leaves the similarity as it is.
        off_by = math.sqrt(variance_between + _pulls_between(found, known))
        max_correction = limits.MAX_CORRECTION_SIGMAS * off_by + limits.SAME_ORIENTATION
        alignment = self._aligned(known, view, expected, least, max_correction)
        if alignment.similarity < least or has_moved_on(alignment):
            return None
        if not self._estimator.confidence(alignment, known):
            return None
        if loss is None:
            toward = expected.T @ known.orientation
            alignment = self._expected.weighed(alignment, alignment, toward, known, view)
            if alignment.doubt > variance + found.all_pulls.variance:
                return None  # the present keyframe shows more
        if found.alignment is not None:
            alignment = self._shutter.corrected(known.key, alignment, found.alignment.velocity)
        pose = self._estimator.measured(found.stamp, known, alignment)
        correction = pose.orientation @ found.orientation.T
        if angle_between(correction, np.eye(3)) > max_correction:
            return None
        if variance_between > limits.UNCERTAIN_SIGMA**2 and known.key.spread < limits.MIN_UNAMBIGUOUS_SPREAD:
            seen = PossibleReturn.after(possible_return, known, correction)
            if seen.agreeing_views < limits.MIN_AGREEING_VIEWS:
                self._possible_return = seen
                return None
        if known.variance >= variance:
            return pose
        since, since_known = _variance_since(found, variance), _variance_since(pose, self._variance(pose))
        self._keyframes.close_loop(correction, found.keyframe, since, known, since_known)
        return self._estimator.measured(found.stamp, known, alignment)

    def _aligned(
        self, known: Keyframe, view: View, expected: Matrix, least: float, max_correction: float
    ) -> RotationAlignment:
        """Align a view to an earlier keyframe, starting from the expected orientation of the view.

        If the similarity is below `least` and the orientation may be off by more than an alignment corrects,
        the whole view is searched as well. `max_correction`: rad.
        """
        alignment = self._aligner.align(known.key, view, expected.T @ known.orientation)
        if (
            alignment.similarity < least
            and max_correction * self._aligner.cells_per_radian > MAX_GUESS_ERROR_CELLS
        ):
            # A few people who look alike elsewhere do not outweigh a scene at its expected position.
            found_again = self._aligner.align(known.key, view, self._aligner.search(known.key, view))
            alignment = better(alignment, found_again)
        return alignment

    def _variance(self, pose: Pose) -> float:
        """Sum of the variances of an orientation about all axes, rad^2."""
        return trace(self._estimator.covariance(pose))


def _variance_since(pose: Pose, variance: float) -> float:
    """Variance of the errors of a turn since the keyframe, rad^2; `variance`: that of the orientation."""
    return variance + pose.all_pulls.variance - pose.keyframe.error_variance


def _variance_between(found: Pose, variance: float, known: Keyframe, loss: Loss | None) -> float:
    """Variance of the rotation from an earlier keyframe to a view, rad^2; `variance`: that of the view."""
    own = variance - found.keyframe.variance
    if loss and not loss.out_of_view:
        own += 3.0 * (limits.LOST_RATE_SIGMA * (found.stamp - loss.stamp)) ** 2
    return own + found.keyframe.variance_to(known)


def _pulls_between(found: Pose, known: Keyframe) -> float:
    """Variance that a foreground has added to the heading since a keyframe, rad^2."""
    return max(found.all_pulls.variance - known.pull.variance, 0.0)
