"""Follows the orientation of a camera from view to view, against keyframes.

Products that every view needs use `dot`, which takes half the time of `@` for arrays this small.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from edgetpu_perception.visual_compass import view_recognition_limits as limits
from edgetpu_perception.visual_compass.alignment_records import RotationAlignment, View
from edgetpu_perception.visual_compass.angular_velocity_filter import Motion
from edgetpu_perception.visual_compass.fixed_parts import FixedParts
from edgetpu_perception.visual_compass.keyframes import Keyframe, KeyframeRule, Keyframes
from edgetpu_perception.visual_compass.loop_closure import LoopClosure
from edgetpu_perception.visual_compass.moving_objects.dominant_object import SteadyCourse
from edgetpu_perception.visual_compass.moving_objects.expected_motion import ExpectedMotion
from edgetpu_perception.visual_compass.moving_objects.mixed_motions import separated
from edgetpu_perception.visual_compass.moving_objects.point_agreement import ALL_FOLLOW
from edgetpu_perception.visual_compass.orientation_estimator import OrientationEstimator
from edgetpu_perception.visual_compass.orientation_tracker_state import (
    Heading,
    LateViews,
    Loss,
    Pose,
    TrackedPose,
)
from edgetpu_perception.visual_compass.rolling_shutter import RollingShutter
from edgetpu_perception.visual_compass.rotation_alignment import RotationAligner
from edgetpu_perception.visual_compass.rotation_between_frames import (
    DirectComparison,
    MeasuredTurn,
    align_to_keyframe,
    by_keyframe,
    is_repeated,
)
from edgetpu_perception.visual_compass.rotations import (
    OPTICAL_AXIS,
    Vector,
    angle_between,
    horizontal_part,
    orthonormal,
    to_matrix,
    twist_angle,
)
from edgetpu_perception.visual_compass.sideways_motion import SidewaysMotion


class OrientationTracker:
    """Orientation of a camera relative to its first view with texture."""

    def __init__(self, aligner: RotationAligner, up: Vector, looks_ahead: bool = False) -> None:
        """`up`: vertical unit vector in the optical frame of the first view, which is the world frame.

        `looks_ahead`: the camera looks in the direction of motion, except for its tilt.
        """
        self._ahead = horizontal_part(OPTICAL_AXIS, up) if looks_ahead else None
        self._aligner = aligner
        self._up = up
        self._rule = KeyframeRule.of(aligner.field_of_view, aligner.cells_per_radian)
        self._forget()

    def _forget(self) -> None:
        """Forget all views, and what was learned from them."""
        aligner = self._aligner
        self._shutter = RollingShutter(aligner)
        self._direct = DirectComparison(aligner, self._shutter)
        self._course = SteadyCourse(aligner)
        self._fixed = FixedParts(aligner)
        self._estimator = OrientationEstimator(aligner, self._up)
        self._expected = ExpectedMotion(aligner, self._up, self._estimator.foreground)
        self._sideways = SidewaysMotion(aligner, self._ahead is not None)
        self._keyframes = Keyframes()
        self._closure = LoopClosure(aligner, self._estimator, self._keyframes, self._shutter, self._expected)
        self._next_try = -math.inf
        self._chain = 0
        self._loss: Loss | None = None
        self._mean_yaw_rate = 0.0
        self._last: TrackedPose | None = None
        self._last_seen: TrackedPose | None = None
        self._late = LateViews()
        self.reference_stamp = math.nan
        """When the first view was taken, s."""

    def update(self, view: View, stamp: float) -> Heading | None:
        """Add a view taken at `stamp` s; None for the first view and while the orientation is unknown.

        A view that is not later than the last one is ignored. A much earlier one, or a series of earlier
        ones, restarts the filter.
        """
        if view.texture < limits.MIN_TEXTURE:
            return None
        last = self._last
        if last is None or self._late.show_clock_set_back(stamp, last.pose.stamp):
            self._start(view, stamp)
            return None
        if stamp <= last.pose.stamp or is_repeated(view, last, stamp):
            return None
        moves = self._sideways.moves(stamp)
        last, alignment, confidence = self._align(view, last, stamp, moves)
        if confidence:
            return self._follow(view, last, stamp, alignment, confidence, moves)
        if math.isnan(self._keyframes.first.similarity):
            self._start(view, stamp)  # no view was ever like the first one, so replace it
            return None
        return self._search(view, last, stamp)

    def _align(
        self, view: View, last: TrackedPose, stamp: float, moves: bool
    ) -> tuple[TrackedPose, RotationAlignment, float]:
        """Align a view to the present keyframe, or to the last view if the picture has grown too much.

        `moves`: whether the camera may move ahead. Returns the last pose relative to the keyframe that was
        used, the alignment and its confidence.
        """
        keyframe = last.pose.keyframe
        followed = last.alignment.following if last.alignment else 1.0
        self._aligner.little_moves = keyframe.key.standing is None and followed > limits.LITTLE_MOVES
        self._aligner.ahead = self._ahead if moves else None
        alignment = self._track(view, last, stamp)
        confidence = self._estimator.confidence(alignment, keyframe)
        if confidence < limits.GROWN_CONFIDENCE and (nearer := self._with_its_own_keyframe(last)) is not None:
            again = self._track(view, nearer, stamp)
            if (improved := self._estimator.confidence(again, nearer.pose.keyframe)) > confidence:
                self._keyframes.add(nearer.pose.keyframe)
                return nearer, again, improved
        return last, alignment, confidence

    def _follow(
        self,
        view: View,
        last: TrackedPose,
        stamp: float,
        alignment: RotationAlignment,
        confidence: float,
        moves: bool,
    ) -> Heading | None:
        """Continue with a view that was aligned, and learn from it."""
        keyframe = last.pose.keyframe
        if math.isnan(keyframe.similarity):
            keyframe.similarity = alignment.similarity
        self._sideways.update(alignment, keyframe, stamp)
        self._fixed.learn(alignment, view, stamp)
        learns = self._course.is_quiet and not moves and alignment.following >= ALL_FOLLOW
        alignment = self._shutter.follow(keyframe, alignment, last, stamp, learns)
        found = self._estimator.measured(stamp, keyframe, alignment)
        turn = self._direct.improve(by_keyframe(last.pose, found), last, view, alignment)
        accepted = self._renew_keyframe(view, found, alignment)
        heading = self._accept(last, view, found, accepted, confidence, turn)
        self._keep_course(turn, found, alignment, stamp - last.pose.stamp, moves)
        return heading

    def _search(self, view: View, last: TrackedPose, stamp: float) -> Heading | None:
        """Search earlier keyframes for a view that the present keyframe does not show."""
        if self._loss is None:
            keyframe = last.pose.keyframe
            ahead = last.orientation_at(stamp).T @ keyframe.orientation
            out_of_view = (
                self._aligner.contrast_in_view(keyframe.key, ahead) < limits.OUT_OF_VIEW_CONTRAST_SHARE
            )
            self._loss = Loss(last.pose.stamp, self._chain, out_of_view)
        extrapolated = self._extrapolate(view, stamp)
        known = self._closure.recognise(view, extrapolated.pose, self._loss, limits.TRIES_WHEN_LOST)
        if known is None:
            self._last = extrapolated
            return None
        assert self._last_seen is not None
        turn = by_keyframe(self._last_seen.pose, known)
        return self._accept(self._last_seen, view, known, known, 1.0, turn)

    def _start(self, view: View, stamp: float) -> None:
        """Restart with this view as the reference."""
        self._forget()
        first = Keyframe(self._aligner.key(view), stamp, np.eye(3), np.zeros((3, 3)))
        self._keyframes.add(first)
        self._last = self._last_seen = TrackedPose(self._estimator.at(first), 0.0, np.zeros(3))
        self.reference_stamp = stamp

    def _track(self, view: View, last: TrackedPose, stamp: float) -> RotationAlignment:
        """Align a view to the present keyframe by the scene, where other parts move differently."""
        found = mixed = align_to_keyframe(self._aligner, view, last, stamp)
        keyframe = last.pose.keyframe
        foreground, axis = self._estimator.foreground, keyframe.orientation.T.dot(self._up)
        if found.converged and self._aligner.ahead is None and foreground.pull(found, axis):
            found = separated(self._aligner, found, keyframe.key, view, axis, foreground.noise)
        found = self._expected.or_rest(mixed, found, last.pose, view, self._course.rests)
        found = self._course.alternative(found, keyframe, view, stamp) or found
        turn = self._fixed.turn(found, keyframe.key, view, stamp)
        if turn is None:
            return found
        if not self._course.confirm(turn, keyframe, view, stamp):
            self._course = SteadyCourse(self._aligner)  # the motion followed was not the camera's
        return turn

    def _keep_course(
        self, turn: MeasuredTurn, found: Pose, alignment: RotationAlignment, interval: float, moves: bool
    ) -> None:
        """Correct the heading where the camera has kept its course, and learn the noise of a quiet view."""
        if moves:  # then near parts of the scene move differently, and are no objects
            self._course = SteadyCourse(self._aligner)
        else:
            astray = self._course.update(turn.by_keyframe / interval, found, alignment, interval)
            if astray is not None:
                self._correct(astray)
        quiet = self._course.is_quiet
        self._estimator.foreground.learn_noise(alignment.agreement.noise, interval, quiet)

    def _extrapolate(self, view: View, stamp: float) -> TrackedPose:
        """Start a new chain of keyframes with an unknown view, at the extrapolated orientation."""
        last, seen = self._last, self._last_seen
        assert last is not None
        assert seen is not None
        if last is not seen:
            self._keyframes.discard(last.pose.keyframe)  # no view was like it
        gap = stamp - seen.pose.stamp
        # About the vertical only: cameras keep turning, but do not tip over.
        turn = self._mean_yaw_rate * min(gap, limits.MAX_EXTRAPOLATION_S) * self._up
        orientation = orthonormal(to_matrix(turn) @ seen.pose.orientation)
        covariance = self._estimator.covariance(seen.pose) + np.eye(3) * (limits.LOST_RATE_SIGMA * gap) ** 2
        self._chain += 1
        root = Keyframe(self._aligner.key(view), stamp, orientation, covariance, chain=self._chain)
        root.root_variance, root.pull, root.parent = root.variance, seen.pose.all_pulls, seen.pose.keyframe
        root.sideways_variance = self._sideways.turn_variance
        self._keyframes.add(root)
        return TrackedPose(
            self._estimator.at(root), seen.yaw + float(turn @ self._up), seen.measured_velocity
        )

    def _accept(
        self,
        before: TrackedPose,
        view: View,
        found: Pose,
        accepted: Pose,
        confidence: float,
        turn: MeasuredTurn,
    ) -> Heading | None:
        """Continue from a measured view; None while its chain of keyframes is not accepted.

        `accepted`: the pose to continue from: `found`, or the same view measured against another keyframe.
        `turn`: from the last view to this one.
        """
        loss = self._loss
        if loss is not None and accepted.keyframe.chain <= loss.chain:
            self._keyframes.discard_chains(loss.chain)
            self._loss = loss = None
        elif loss is not None and found.stamp - loss.stamp > limits.LOST_AFTER_S:
            if not loss.out_of_view:
                variance = (limits.LOST_RATE_SIGMA * (found.stamp - loss.stamp)) ** 2
                self._keyframes.add_variance_to_chains(loss.chain, np.eye(3) * variance)
            self._loss = loss = None
        heading = self._heading(before, found, accepted, confidence, turn)
        weight = min((found.stamp - before.pose.stamp) / limits.YAW_RATE_MEMORY_S, 1.0)
        self._mean_yaw_rate += weight * (heading.yaw_rate - self._mean_yaw_rate)
        is_keyframe = accepted.alignment is None
        self._last = self._last_seen = TrackedPose(
            accepted, heading.yaw, heading.measured_velocity, heading, None if is_keyframe else view
        )
        return heading if loss is None else None

    def _correct(self, astray: Vector) -> None:
        """Turn back by the error of the heading, rad about the world's axes; half of it is one sigma."""
        last = self._last
        assert last is not None
        keyframe = last.pose.keyframe
        for each in self._keyframes.later_than(self._course.began):
            if each is not keyframe:
                self._keyframes.discard(each)
        back = to_matrix(-astray)
        half = astray / 2.0
        self._keyframes.turn(keyframe, back, half[:, np.newaxis] * half)
        pose = dataclasses.replace(last.pose, orientation=back.dot(last.pose.orientation))
        yaw = last.yaw - float(astray.dot(self._up))
        self._last = self._last_seen = dataclasses.replace(last, pose=pose, yaw=yaw)

    def _renew_keyframe(self, view: View, found: Pose, alignment: RotationAlignment) -> Pose:
        """Return to an earlier keyframe that shows this view, or make the view a keyframe if one is due.

        Returns the pose measured against the keyframe to use from now on.
        """
        keyframe = found.keyframe
        turned = math.sqrt(float(found.turn.dot(found.turn)))
        due = self._rule.is_due(keyframe, turned, alignment)
        if self._loss or keyframe.root_variance > limits.UNCERTAIN_SIGMA**2:
            pose = self._closure.recognise(view, found, self._loss, 1)
            if pose is not None:
                return pose
        if not due and found.stamp < self._next_try:
            return found
        for known in self._keyframes.most_certain(found.orientation, self._rule.span if due else turned):
            if known is keyframe:
                continue
            if not due and known.variance >= keyframe.variance:
                break
            pose = self._closure.return_to(known, view, found, self._loss)
            if pose is not None:
                return pose
            self._next_try = found.stamp + limits.RETRY_INTERVAL_S
            if due and angle_between(known.orientation, found.orientation) < self._rule.span / 2:
                self._keyframes.discard(known)  # the scene has changed there
        if not due:
            return found
        self._keyframes.add(new := self._keyframe_of(view, found, alignment))
        return self._estimator.at(new)

    def _keyframe_of(self, view: View, found: Pose, alignment: RotationAlignment) -> Keyframe:
        """A keyframe of a view that was measured."""
        orientation, covariance = orthonormal(found.orientation), self._estimator.covariance(found)
        new = Keyframe(self._aligner.key(view, alignment), found.stamp, orientation, covariance)
        new.parent = measured_by = found.keyframe
        new.chain, new.root_variance = measured_by.chain, measured_by.root_variance
        new.pull, new.sideways_variance = found.all_pulls, self._sideways.turn_variance
        return new

    def _with_its_own_keyframe(self, last: TrackedPose) -> TrackedPose | None:
        """The last view as a keyframe, if the picture has grown since the present one; else None."""
        pose, view, alignment = last.pose, last.view, last.alignment
        if view is None or alignment is None or not self._sideways.has_grown(alignment, pose.keyframe):
            return None
        pose = self._estimator.at(self._keyframe_of(view, pose, alignment))
        return dataclasses.replace(last, pose=pose, view=None)

    def _heading(
        self, last: TrackedPose, found: Pose, accepted: Pose, confidence: float, turn: MeasuredTurn
    ) -> Heading:
        """Heading and rates from the last pose to `found`; `accepted`: see `_accept`."""
        before = last.pose
        interval = found.stamp - before.stamp
        up = self._up
        axis = found.orientation.T.dot(up)
        noise = self._aligner.covariance(turn.influence)
        motion = last.heading.motion if last.heading else Motion.unknown(noise)
        motion = motion.after(turn.vector, noise, interval)
        velocity = motion.velocity
        systematic = limits.SYSTEMATIC_RATE_ERROR * found.keyframe.unevenness * velocity
        velocity_covariance = motion.covariance(noise) + turn.near_covariance / interval**2
        velocity_covariance += systematic * systematic[:, np.newaxis] + self._sideways.rate_covariance
        covariance, added = self._estimator.covariance(accepted), accepted.all_pulls.variance
        near = last.yaw + float(turn.vector.dot(axis))
        return Heading(
            confidence=confidence,
            previous_stamp=before.stamp,
            # The full turn nearest to the expected yaw.
            yaw=near + math.remainder(twist_angle(accepted.orientation, up) - near, 2.0 * math.pi),
            yaw_sigma=math.sqrt(float(up.dot(covariance).dot(up)) + added + self._sideways.turn_variance),
            yaw_rate=float(velocity.dot(axis)),
            yaw_rate_sigma=math.sqrt(float(axis.dot(velocity_covariance).dot(axis))),
            velocity=velocity,
            velocity_covariance=velocity_covariance,
            measured_velocity=turn.by_keyframe / interval,
            motion=motion,
        )
