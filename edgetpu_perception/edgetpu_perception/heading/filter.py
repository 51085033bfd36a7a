"""Follows the orientation of a camera from view to view, against keyframes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.confidence import ramp
from edgetpu_perception.heading.keyframes import Keyframe, Keyframes
from edgetpu_perception.heading.rotation import (
    Matrix,
    Vector,
    angle_between,
    orthonormal,
    to_matrix,
    to_vector,
    twist_angle,
)
from edgetpu_perception.heading.rotation_alignment import Alignment, RotationAligner, View

SPAN = 0.11
"""A keyframe serves while the camera is turned by less than this share of the field of view."""

LEAST_SPAN = 4.0
"""But at least for this image motion, cells: where cells are large, each new keyframe costs more."""

SIMILAR = (0.5, 0.8)
"""Similarity of two views: not the same scene below the first, no doubt above the second."""

USUAL = 0.95
"""Similarity of views a moment apart."""

WORN = 0.75
"""A keyframe is worn when views are less similar to it than this share of what they were when it was new."""

FAMILIAR = 0.85
"""Share of that from which on a view is recognised as one from before."""

RETRY_INTERVAL = 0.2
"""Least time between two attempts to recognise a view from before, s."""

RETRIES = 3
"""Keyframes to look at in one view when the camera does not know where it looks."""

TEXTURE = 0.5
"""Root mean square of the features, grey levels, below which there is nothing to be seen."""

OVERLAP = (0.2, 0.4)
"""Share of the keyframe in view: too little below the first, no doubt above the second."""

BLUNT = (0.05, 0.3)
"""Sigma of an alignment, cells: no doubt below the first, no use above the second."""

SYSTEMATIC = 0.004
"""Sigma of a turn between two views as a share of it, beside what residuals tell: no focal length is known
better, nor how much features are ahead of a turn (`compass_features.Grid.blur`)."""

GAP = 0.5
"""After so long without a view, s, the angular velocity from before tells nothing about what happened."""

LOST = 1.0
"""After so long without knowing a view, s, start anew from the last heading."""

UNKNOWN_RATE = 1.0
"""One sigma of the angular velocity while lost, rad/s: robots turn no faster."""

SURPRISE = 4.0
"""A known view is believed when it corrects the heading by up to so many sigmas, and 2 deg."""


@dataclass(frozen=True)
class Heading:
    """What one view tells."""

    confidence: float
    previous_stamp: float
    """When the view was taken since which the rates are means, s."""
    yaw: float
    """rad, unwrapped, counter-clockwise seen from above."""
    yaw_sigma: float
    yaw_rate: float
    """rad/s"""
    yaw_rate_sigma: float
    velocity: Vector
    """Angular velocity in the optical frame, rad/s."""
    velocity_covariance: Matrix


@dataclass(frozen=True)
class _Pose:
    """The camera's orientation at one view, as measured against one keyframe."""

    stamp: float
    orientation: Matrix
    """From the optical frame to the world."""
    keyframe: Keyframe
    influence: NDArray[np.float64]
    """By how much each block of residuals has turned it about the world's axes, rad: [3, blocks]."""


class HeadingFilter:
    """Orientation since the first view that has texture."""

    def __init__(self, aligner: RotationAligner, up: Vector) -> None:
        """`up`: the vertical in the optical frame of the first view, which is the world's frame."""
        self._aligner = aligner
        self._up = up
        self._span = max(SPAN * aligner.field_of_view, LEAST_SPAN / aligner.cells_per_radian)
        self._keyframes = Keyframes()
        self._next_try = -math.inf
        self._lost_since = math.nan
        self._tries = 0
        self._pose: _Pose | None = None
        self._yaw = 0.0
        self._velocity = np.zeros(3)
        self.reference_stamp = math.nan
        """When the first view was taken, s."""

    def update(self, view: View, stamp: float) -> Heading | None:
        """Take in a view; None where its orientation is not known, or nothing was before it to compare with.

        A view that is not later than the one before is left out; one from long before starts everything anew.
        """
        if view.texture < TEXTURE:
            return None
        pose = self._pose
        if pose is None or stamp < pose.stamp - LOST:
            self._start(view, stamp)
            return None
        if stamp <= pose.stamp:
            return None
        located = self._locate(view, pose, stamp)
        if located is None:
            self._lost_since = stamp if math.isnan(self._lost_since) else self._lost_since
            if stamp - self._lost_since > LOST:
                self._start_from(pose, view, stamp)
            return None
        keyframe, alignment = located
        self._lost_since = math.nan
        if math.isnan(keyframe.similarity):
            keyframe.similarity = alignment.similarity
        found = self._pose_of(stamp, keyframe, alignment)
        self._pose = self._renew_keyframe(view, found, alignment)
        heading = self._heading(pose, found, self._pose, self._confidence(alignment))
        self._yaw, self._velocity = heading.yaw, heading.velocity
        return heading

    def _start(self, view: View, stamp: float) -> None:
        """Make a view the reference of all others."""
        first = Keyframe(self._aligner.key(view), stamp, np.eye(3), np.zeros((3, 3)))
        self._keyframes = Keyframes()
        self._keyframes.add(first)
        self._pose = self._pose_at(first)
        self._yaw, self._velocity, self._lost_since = 0.0, np.zeros(3), math.nan
        self.reference_stamp = stamp

    def _start_from(self, pose: _Pose, view: View, stamp: float) -> None:
        """Go on from the last orientation, not knowing what happened since."""
        if math.isnan(self._keyframes.first.similarity):
            self._start(view, stamp)  # nothing was ever recognised: the first view was none to compare with
            return
        covariance = pose.keyframe.covariance + np.eye(3) * (UNKNOWN_RATE * (stamp - pose.stamp)) ** 2
        keyframe = Keyframe(self._aligner.key(view), stamp, pose.orientation, covariance)
        self._keyframes.add(keyframe)
        self._pose, self._velocity, self._lost_since = self._pose_at(keyframe), np.zeros(3), math.nan

    def _locate(self, view: View, pose: _Pose, stamp: float) -> tuple[Keyframe, Alignment] | None:
        """Align a view to the present keyframe, or to another where that fails."""
        gap = stamp - pose.stamp
        held = pose.orientation
        ahead = held @ to_matrix(self._velocity * gap) if gap < GAP else held
        keyframe = pose.keyframe
        alignment = self._aligner.align(keyframe.key, view, ahead.T @ keyframe.orientation)
        if not _good(alignment, keyframe):
            guesses = held.T @ keyframe.orientation, self._aligner.search(keyframe.key, view)
            tries = [self._aligner.align(keyframe.key, view, guess) for guess in guesses]
            alignment = max(alignment, *tries, key=lambda each: each.similarity)
        if self._confidence(alignment):
            return keyframe, alignment
        others = self._keyframes.nearest(held)
        for _ in range(min(RETRIES, len(others))):
            self._tries += 1
            other = others[self._tries % len(others)]
            alignment = self._aligner.align(other.key, view, self._aligner.search(other.key, view))
            if _good(alignment, other) and self._confidence(alignment):
                return other, alignment
        return None

    def _renew_keyframe(self, view: View, found: _Pose, alignment: Alignment) -> _Pose:
        """Go on with a keyframe from before that shows this view, or with this view where need be.

        Returns the pose as measured against that keyframe.
        """
        keyframe = found.keyframe
        turned = angle_between(found.orientation, keyframe.orientation)
        worn = alignment.similarity < WORN * keyframe.similarity
        due = worn or turned > self._span
        if not due and found.stamp < self._next_try:
            return found
        for known in self._keyframes.surest(found.orientation, self._span if due else turned):
            if known is keyframe:
                continue
            if not due and known.variance >= keyframe.variance:
                break
            pose = self._return_to(known, view, found)
            if pose is not None:
                return pose
            self._next_try = found.stamp + RETRY_INTERVAL
            if due and angle_between(known.orientation, found.orientation) < self._span / 2:
                self._keyframes.discard(known)  # what is to be seen there has changed
        if not due:
            return found
        new = Keyframe(self._aligner.key(view), found.stamp, found.orientation, self._covariance_of(found))
        self._keyframes.add(new)
        return self._pose_at(new)

    def _return_to(self, known: Keyframe, view: View, found: _Pose) -> _Pose | None:
        """Measure a view against a keyframe from before; None if that is not what it shows."""
        alignment = self._aligner.align(known.key, view, found.orientation.T @ known.orientation)
        if alignment.similarity < FAMILIAR * _when_new(known):
            alignment = self._aligner.align(known.key, view, self._aligner.search(known.key, view))
        if alignment.similarity < FAMILIAR * _when_new(known) or not self._confidence(alignment):
            return None
        pose = self._pose_of(found.stamp, known, alignment)
        correction = pose.orientation @ found.orientation.T
        covariance = self._covariance_of(found)
        variance = float(np.trace(covariance))
        expected = SURPRISE * math.sqrt(variance + known.variance) + math.radians(2.0)
        if angle_between(correction, np.eye(3)) > expected:
            return None
        if known.variance < variance:
            self._keyframes.close_loop(correction, covariance, known)
        return pose

    def _heading(self, before: _Pose, found: _Pose, settled: _Pose, confidence: float) -> Heading:
        """What the step from one pose to the next says; `settled` is what is held for true of the latter."""
        interval = found.stamp - before.stamp
        turn = to_vector(found.orientation @ before.orientation.T)
        # Errors of the keyframe are common to both, block by block, and not part of the turn between them.
        common = before.influence if before.keyframe is found.keyframe else 0.0
        turn_covariance = self._covariance(found.influence - common, turn) / interval**2
        covariance = self._covariance_of(settled)
        back = found.orientation.T
        up = self._up
        near = self._yaw + float(turn @ up)
        return Heading(
            confidence=confidence,
            previous_stamp=before.stamp,
            # Of all its full turns the one nearest to what is expected.
            yaw=near + math.remainder(twist_angle(settled.orientation, up) - near, 2.0 * math.pi),
            yaw_sigma=math.sqrt(float(up @ covariance @ up)),
            yaw_rate=float(turn @ up) / interval,
            yaw_rate_sigma=math.sqrt(float(up @ turn_covariance @ up)),
            velocity=back @ turn / interval,
            velocity_covariance=back @ turn_covariance @ back.T,
        )

    def _pose_of(self, stamp: float, keyframe: Keyframe, alignment: Alignment) -> _Pose:
        orientation = orthonormal(keyframe.orientation @ alignment.rotation.T)
        return _Pose(stamp, orientation, keyframe, -keyframe.orientation @ alignment.influence)

    def _pose_at(self, keyframe: Keyframe) -> _Pose:
        return _Pose(keyframe.stamp, keyframe.orientation, keyframe, np.zeros((3, self._aligner.blocks)))

    def _covariance(self, influence: NDArray[np.float64], turn: Vector) -> Matrix:
        """Of a measured turn, from what residuals had to do with it and from its size, rad^2."""
        covariance: Matrix = self._aligner.covariance(influence) + SYSTEMATIC**2 * np.outer(turn, turn)
        return covariance

    def _covariance_of(self, pose: _Pose) -> Matrix:
        """Of a pose's orientation, about the world's axes, rad^2."""
        turn = to_vector(pose.orientation @ pose.keyframe.orientation.T)
        covariance: Matrix = pose.keyframe.covariance + self._covariance(pose.influence, turn)
        return covariance

    def _confidence(self, alignment: Alignment) -> float:
        sigma = self._aligner.cells_per_radian * math.sqrt(
            float(self._aligner.covariance(alignment.influence)[1, 1])
        )
        sharp = 1.0 - ramp(sigma, *BLUNT)
        return ramp(alignment.similarity, *SIMILAR) * ramp(alignment.overlap, *OVERLAP) * sharp


def _when_new(keyframe: Keyframe) -> float:
    """What views were like a keyframe when it was new, or what they mostly are."""
    return USUAL if math.isnan(keyframe.similarity) else keyframe.similarity


def _good(alignment: Alignment, keyframe: Keyframe) -> bool:
    return alignment.converged and alignment.similarity >= WORN * _when_new(keyframe)
