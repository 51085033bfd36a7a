"""Follows the orientation of a camera from view to view, against keyframes.

What every view needs is multiplied by `dot`, which takes half the time of `@` for arrays this small.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.confidence import ramp
from edgetpu_perception.visual_compass.angular_velocity_filter import combined
from edgetpu_perception.visual_compass.heading_filter_state import Fix, Heading, Loss, Pose, Sighting
from edgetpu_perception.visual_compass.keyframes import Keyframe, Keyframes
from edgetpu_perception.visual_compass.rotation_alignment import REACH, Alignment, RotationAligner, View
from edgetpu_perception.visual_compass.rotations import (
    Matrix,
    Vector,
    angle_between,
    orthonormal,
    to_matrix,
    to_vector,
    trace,
    twist_angle,
)

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

SUDDEN = 0.85
"""The scene is not less similar to the keyframe than this share of what it was a view before: more is lost
where the camera turned in another way than expected."""

FAMILIAR = 0.85
"""Share of that from which on a view is recognised as one from before, where the camera should see it."""

UNMISTAKABLE = 0.97
"""The same where the heading does not tell what the camera should see: other places look alike."""

RETRY_INTERVAL = 0.2
"""Least time between two attempts to recognise a view from before, s."""

RETRIES = 3
"""Keyframes to look at in one view when the camera is lost."""

TEXTURE = 0.5
"""Root mean square of the features, grey levels, below which there is nothing to be seen."""

OVERLAP = (0.2, 0.4)
"""Share of the keyframe in view: too little below the first, no doubt above the second."""

BLUNT = (0.05, 0.3)
"""Sigma of an alignment, cells: no doubt below the first, no use above the second."""

SYSTEMATIC = 0.0037
"""Sigma of a turn between two views as a share of it, beside what residuals tell: no focal length is known
better, nor how much features are ahead of a turn (`compass_features.Grid.blur`)."""

EVEN = 0.5
"""Spread of contrast over the picture below which such errors no longer cancel out; they grow, squared."""

LOST = 1.0
"""So long after the last known view, s, what is seen meanwhile is taken for the scene that stands still."""

COAST = 2.0
"""A camera that sees nothing is taken to go on turning for so long, s."""

PACE_TIME = 0.2
"""The mean yaw rate over so long, s, is what it goes on with: the last one before a loss is often wrong."""

UNKNOWN_RATE = 1.0
"""One sigma of the angular velocity while lost, rad/s: robots turn no faster."""

LEAST_CONTRAST = 0.35
"""Share of the keyframe's contrast in view below which the next keyframe is due."""

LEFT_BEHIND = 0.6
"""Share of the keyframe's contrast in view below which one that is lost went out of view. Otherwise something
has changed, and nobody knows what turned by how much."""

UNSURE = math.radians(10.0)
"""Sigma of the way to views from before from which on one alone does not prove that it is known."""

SPREAD = 0.4
"""Spread of contrast over the picture below which that is so: a corner alone may be anywhere."""

WITNESSES = 5
"""Views that have to agree then."""

CERTAIN = math.radians(2.0)
"""Two orientations closer than that are the same one."""

SURPRISE = 4.0
"""A known view is believed when it corrects the heading by up to so many sigmas, and CERTAIN."""

STRAGGLERS = 5
"""So many late views in a row, in order among themselves, are none: the clock was set back."""


class HeadingFilter:
    """Orientation since the first view that has texture."""

    def __init__(self, aligner: RotationAligner, up: Vector) -> None:
        """`up`: the vertical in the optical frame of the first view, which is the world's frame."""
        self._aligner = aligner
        self._up = up
        self._span = max(SPAN * aligner.field_of_view, LEAST_SPAN / aligner.cells_per_radian)
        self._keyframes = Keyframes()
        self._next_try = -math.inf
        self._chain = 0
        self._loss: Loss | None = None
        self._sighting: Sighting | None = None
        self._tries = 0
        self._pace = 0.0
        self._last: Fix | None = None
        self._last_seen: Fix | None = None
        self._late: list[float] = []
        self.reference_stamp = math.nan
        """When the first view was taken, s."""

    def update(self, view: View, stamp: float) -> Heading | None:
        """Take in a view; None where its orientation is not known, or nothing was before it to compare with.

        A view that is not later than the one before is left out; one from long before starts everything anew,
        and so does a series of them.
        """
        if view.texture < TEXTURE:
            return None
        last = self._last
        if last is None or self._is_set_back(stamp, last.pose.stamp):
            self._start(view, stamp)
            return None
        if stamp <= last.pose.stamp:
            return None
        keyframe = last.pose.keyframe
        alignment = self._track(view, last, stamp)
        confidence = self._confidence(alignment)
        if confidence:
            if math.isnan(keyframe.similarity):
                keyframe.similarity = alignment.similarity
            found = self._pose_of(stamp, keyframe, alignment)
            return self._settle(last, found, self._renew_keyframe(view, found, alignment), confidence)
        if math.isnan(self._keyframes.first.similarity):
            self._start(view, stamp)  # nothing was ever recognised: the first view was none to compare with
            return None
        if self._loss is None:
            ahead = _ahead(last, stamp).T @ keyframe.orientation
            left_behind = self._aligner.contrast_in_view(keyframe.key, ahead) < LEFT_BEHIND
            self._loss = Loss(last.pose.stamp, self._chain, left_behind)
        blind = self._go_on_blind(view, stamp)
        known = self._recognise(view, blind.pose, RETRIES)
        if known is None:
            self._last = blind
            return None
        assert self._last_seen is not None
        return self._settle(self._last_seen, known, known, 1.0)

    def _is_set_back(self, stamp: float, last: float) -> bool:
        """Whether time begins anew with this stamp, as when a bag is played again."""
        if stamp > last:
            self._late.clear()
            return False
        if self._late and stamp <= self._late[-1]:
            self._late.clear()
        self._late.append(stamp)
        return stamp < last - LOST or len(self._late) == STRAGGLERS

    def _start(self, view: View, stamp: float) -> None:
        """Make a view the reference of all others."""
        first = Keyframe(self._aligner.key(view), stamp, np.eye(3), np.zeros((3, 3)))
        self._keyframes = Keyframes()
        self._keyframes.add(first)
        self._last = self._last_seen = Fix(self._pose_at(first), 0.0, np.zeros(3))
        self._chain, self._loss, self._sighting, self._pace = 0, None, None, 0.0
        self._late.clear()
        self.reference_stamp = stamp

    def _track(self, view: View, last: Fix, stamp: float) -> Alignment:
        """Align a view to the present keyframe."""
        align, key, orientation = self._aligner.align, last.pose.keyframe.key, last.pose.keyframe.orientation
        best = align(key, view, _ahead(last, stamp).T.dot(orientation))
        if not _good(best, last.pose):
            still = align(key, view, last.pose.orientation.T @ orientation)
            best = max(best, still, key=lambda each: each.similarity)
        if not _good(best, last.pose):
            found = align(key, view, self._aligner.search(key, view))
            best = max(best, found, key=lambda each: each.similarity)
        return best

    def _go_on_blind(self, view: View, stamp: float) -> Fix:
        """Start a chain of keyframes with a view that shows nothing known, turned as it would be by now."""
        last, seen = self._last, self._last_seen
        assert last is not None
        assert seen is not None
        if last is not seen:
            self._keyframes.discard(last.pose.keyframe)  # nothing was like it
        gap = stamp - seen.pose.stamp
        # About the vertical only: cameras turn on, but do not topple.
        turn = self._pace * min(gap, COAST) * self._up
        orientation = orthonormal(to_matrix(turn) @ seen.pose.orientation)
        covariance = self._covariance_of(seen.pose) + np.eye(3) * (UNKNOWN_RATE * gap) ** 2
        self._chain += 1
        root = Keyframe(self._aligner.key(view), stamp, orientation, covariance, chain=self._chain)
        root.root_variance = root.variance
        self._keyframes.add(root)
        return Fix(self._pose_at(root), seen.yaw + float(turn @ self._up), seen.turning)

    def _settle(self, before: Fix, found: Pose, settled: Pose, confidence: float) -> Heading | None:
        """Go on from a view that was measured; None while what it was measured against is not believed."""
        loss = self._loss
        if loss is not None and settled.keyframe.chain <= loss.chain:
            self._keyframes.discard_chains(loss.chain)
            self._loss = loss = None
        elif loss is not None and found.stamp - loss.stamp > LOST:
            if not loss.left_behind:
                variance = (UNKNOWN_RATE * (found.stamp - loss.stamp)) ** 2
                self._keyframes.doubt_chains(loss.chain, np.eye(3) * variance)
            self._loss = loss = None
        heading = self._heading(before, found, settled, confidence)
        weight = min((found.stamp - before.pose.stamp) / PACE_TIME, 1.0)
        self._pace += weight * (heading.yaw_rate - self._pace)
        self._last = self._last_seen = Fix(settled, heading.yaw, heading.turning, heading)
        return heading if loss is None else None

    def _recognise(self, view: View, found: Pose, tries: int) -> Pose | None:
        """Look for a view from before the camera was lost, where it may be looking; None if there is none."""
        chain = self._loss.chain + 1 if self._loss else found.keyframe.chain
        reach = SURPRISE * math.sqrt(trace(self._covariance_of(found))) + self._aligner.field_of_view
        if self._sighting and self._sighting.known not in self._keyframes:
            self._sighting = None  # it was discarded meanwhile
        others = self._keyframes.older(chain, found.orientation, reach)
        for _ in range(min(tries, len(others))):
            self._tries += 1
            known = self._sighting.known if self._sighting else others[self._tries % len(others)]
            pose = self._return_to(known, view, found)
            if pose is not None:
                return pose
            if self._sighting:
                break
        return None

    def _renew_keyframe(self, view: View, found: Pose, alignment: Alignment) -> Pose:
        """Go on with a keyframe from before that shows this view, or with this view where need be.

        Returns the pose as measured against that keyframe.
        """
        keyframe = found.keyframe
        turned = math.sqrt(float(found.turn.dot(found.turn)))
        worn = alignment.similarity < WORN * keyframe.similarity
        due = worn or turned > self._span or alignment.contrast < LEAST_CONTRAST
        if self._loss or keyframe.root_variance > UNSURE**2:
            pose = self._recognise(view, found, 1)
            if pose is not None:
                return pose
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
        orientation, covariance = orthonormal(found.orientation), self._covariance_of(found)
        new = Keyframe(self._aligner.key(view), found.stamp, orientation, covariance)
        new.chain, new.root_variance = keyframe.chain, keyframe.root_variance
        self._keyframes.add(new)
        return self._pose_at(new)

    def _return_to(self, known: Keyframe, view: View, found: Pose) -> Pose | None:
        """Measure a view against a keyframe from before; None if that is not what it shows."""
        sighting, self._sighting = self._sighting, None
        expected = sighting.correction @ found.orientation if sighting else found.orientation
        doubt = self._variance_between(found, known)
        least = (UNMISTAKABLE if doubt > UNSURE**2 else FAMILIAR) * _when_new(known)
        alignment = self._aligner.align(known.key, view, expected.T @ known.orientation)
        believed = SURPRISE * math.sqrt(doubt) + CERTAIN
        if alignment.similarity < least and believed * self._aligner.cells_per_radian > REACH:
            alignment = self._aligner.align(known.key, view, self._aligner.search(known.key, view))
        if alignment.similarity < least or not self._confidence(alignment):
            return None
        pose = self._pose_of(found.stamp, known, alignment)
        correction = pose.orientation @ found.orientation.T
        covariance = self._covariance_of(found)
        variance = trace(covariance)
        if angle_between(correction, np.eye(3)) > believed:
            return None
        if doubt > UNSURE**2 and known.key.spread < SPREAD:
            agrees = sighting and angle_between(correction, sighting.correction) < CERTAIN
            witnesses = sighting.witnesses + 1 if sighting and agrees else 1
            if witnesses < WITNESSES:
                self._sighting = Sighting(known, correction, witnesses)
                return None
        if known.variance < variance:
            self._keyframes.close_loop(correction, covariance, known)
        return pose

    def _variance_between(self, found: Pose, known: Keyframe) -> float:
        """Of the rotation from a keyframe from before to a view, rad^2."""
        own = trace(self._covariance_of(found)) - found.keyframe.variance
        loss = self._loss
        if loss and not loss.left_behind:
            own += 3.0 * (UNKNOWN_RATE * (found.stamp - loss.stamp)) ** 2
        return own + found.keyframe.variance_to(known)

    def _heading(self, last: Fix, found: Pose, settled: Pose, confidence: float) -> Heading:
        """What the step from one pose to the next says; `settled` is what is held for true of the latter."""
        before = last.pose
        interval = found.stamp - before.stamp
        back, up = found.orientation.T, self._up
        axis = back.dot(up)
        turn = to_vector(before.orientation.T.dot(found.orientation))  # about the optical axes, as all rates
        # Errors of the keyframe are common to both, block by block, and not part of the turn between them.
        common = before.influence if before.keyframe is found.keyframe else 0.0
        influence = back.dot(found.influence - common)
        rate_covariance = self._covariance(influence, turn, found.keyframe) / interval**2
        measured = turn / interval
        velocity, velocity_covariance, unrest = combined(last, measured, rate_covariance, interval)
        covariance = self._covariance_of(settled)
        near = last.yaw + float(turn.dot(axis))
        return Heading(
            confidence=confidence,
            previous_stamp=before.stamp,
            # Of all its full turns the one nearest to what is expected.
            yaw=near + math.remainder(twist_angle(settled.orientation, up) - near, 2.0 * math.pi),
            yaw_sigma=math.sqrt(float(up.dot(covariance).dot(up))),
            yaw_rate=float(velocity.dot(axis)),
            yaw_rate_sigma=math.sqrt(float(axis.dot(velocity_covariance).dot(axis))),
            velocity=velocity,
            velocity_covariance=velocity_covariance,
            turning=measured,
            unrest=unrest,
        )

    def _pose_of(self, stamp: float, keyframe: Keyframe, alignment: Alignment) -> Pose:
        to_world = -keyframe.orientation  # the rotation leads from the keyframe to the view
        turn, influence = to_world.dot(to_vector(alignment.rotation)), to_world.dot(alignment.influence)
        orientation = to_matrix(turn).dot(keyframe.orientation)
        return Pose(stamp, orientation, keyframe, turn, influence, alignment.similarity)

    def _pose_at(self, keyframe: Keyframe) -> Pose:
        influence = np.zeros((3, self._aligner.blocks))
        return Pose(keyframe.stamp, keyframe.orientation, keyframe, np.zeros(3), influence, USUAL)

    def _covariance(self, influence: NDArray[np.float64], turn: Vector, keyframe: Keyframe) -> Matrix:
        """Of a measured turn, from what residuals had to do with it and from its size, rad^2."""
        systematic = SYSTEMATIC * max(EVEN / keyframe.key.spread, 1.0) ** 2 * turn
        covariance: Matrix = self._aligner.covariance(influence) + systematic * systematic[:, np.newaxis]
        return covariance

    def _covariance_of(self, pose: Pose) -> Matrix:
        """Of a pose's orientation, about the world's axes, rad^2."""
        keyframe = pose.keyframe
        covariance: Matrix = keyframe.covariance + self._covariance(pose.influence, pose.turn, keyframe)
        return covariance

    def _confidence(self, alignment: Alignment) -> float:
        about_y = alignment.influence[1]
        sigma = self._aligner.cells_per_radian * math.sqrt(float(about_y.dot(about_y)) + self._aligner.floor)
        sharp = 1.0 - ramp(sigma, *BLUNT)
        return ramp(alignment.similarity, *SIMILAR) * ramp(alignment.overlap, *OVERLAP) * sharp


def _ahead(last: Fix, stamp: float) -> Matrix:
    """Orientation at a later time, when the camera goes on turning."""
    turn = to_matrix(last.turning * min(stamp - last.pose.stamp, COAST))
    ahead: Matrix = last.pose.orientation.dot(turn)
    return ahead


def _when_new(keyframe: Keyframe) -> float:
    """What views were like a keyframe when it was new, or what they mostly are."""
    return USUAL if math.isnan(keyframe.similarity) else keyframe.similarity


def _good(alignment: Alignment, before: Pose) -> bool:
    """Whether nothing better is to be expected of the keyframe, after what it was like at the pose before."""
    lately = max(SUDDEN * before.similarity, SIMILAR[0])
    return alignment.converged and alignment.similarity >= min(lately, WORN * _when_new(before.keyframe))
