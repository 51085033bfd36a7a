"""Parts of the picture that are fixed to the camera: the robot's own hull, a dashboard, bars, dirt.

They stand still in the picture while the camera turns, and may have more texture than the scene. Two things
distinguish them from a static scene with moving objects: the rest of the picture turns with one motion, and
it covers the larger area. Features that stand still in several turns are left out of alignments.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from edgetpu_perception.visual_compass.alignment_records import Key, RotationAlignment, View
from edgetpu_perception.visual_compass.moving_objects.other_motion import MIN_DIFFERENCE_CELLS, OtherMotion
from edgetpu_perception.visual_compass.moving_objects.point_agreement import ALL_FOLLOW, MIN_STANDING_SHARE
from edgetpu_perception.visual_compass.rotation_alignment import MIN_GAIN, RotationAligner, share_of_gains
from edgetpu_perception.visual_compass.rotations import Matrix, angle_between

MIN_FOLLOWING = ALL_FOLLOW
"""Of the texture that does not stand still, the least share that has to turn with one motion. Scenes
have 0.94 to 0.99, people before a static camera up to 0.79. Rows: compass, middle of the static camera's
picture, people fill much of it, 5 Hz, frames within 0.3 deg."""

MIN_AREA_SHARE = 0.5
"""Least area that turns, as a share of the area that either turns or stands still. Derived: half."""

RETRY_S = (0.05, 0.8)
"""First and longest pause in s between two searches for a turn while something moves; the pause doubles each
time. Limits the time that scenes with people take."""

LEARNING_TURN_CELLS = 2.0 * MIN_DIFFERENCE_CELLS
"""Least turn since the keyframe, as image motion in cells, that shows what is fixed to the camera.

Derived: twice the difference at which two motions are distinguished.
"""

LEARNING_INTERVAL_S = 0.2
"""Time in s between two views from which fixed parts are learned. Limits the time."""

LEARNING = 0.3
"""Weight of one view. Derived: two views that agree decide, as 0.7^2 is less than half."""

_STILL = np.eye(3)


class FixedParts:
    """Distinguishes parts fixed to the camera from a static scene, and leaves them out of alignments."""

    def __init__(self, aligner: RotationAligner) -> None:
        self._aligner = aligner
        self._other = OtherMotion(aligner)
        self._least_turn = LEARNING_TURN_CELLS / aligner.cells_per_radian
        self._next_try = self._next_look = -math.inf
        self._wait = RETRY_S[0]
        self._certainty = np.zeros(aligner.features, np.float32)
        """Certainty that each feature of the picture is fixed to the camera, 0..1: [rows * columns]."""
        aligner.leave_out(self._certainty > 0.5)

    def turn(self, found: RotationAlignment, key: Key, view: View, stamp: float) -> RotationAlignment | None:
        """Align by the parts that turn, if `found` follows others that stand still.

        None if it does not, or if the parts that turn have no common motion.
        """
        if found.following >= ALL_FOLLOW:
            self._wait, self._next_try = RETRY_S[0], -math.inf
            return None
        if 0.0 < self._next_try - stamp <= RETRY_S[1] or not self._stands(found.rotation):
            return None
        for guess in self._aligner.guesses(key, view, self._aligner.not_following(found)):
            if self._stands(guess):
                continue
            turn = self._other.find(
                found, key, view, guess, min_following=MIN_FOLLOWING, min_area_share=MIN_AREA_SHARE
            )
            if turn is not None:
                return turn
        self._next_try = stamp + self._wait
        self._wait = min(2.0 * self._wait, RETRY_S[1])
        return None

    def _stands(self, rotation: Matrix) -> bool:
        """Whether this rotation since the key is too small to be distinguished from none."""
        return angle_between(rotation, _STILL) < self._other.least_difference

    def learn(self, found: RotationAlignment, view: View, stamp: float) -> None:
        """Learn which features are fixed to the camera: they stood still while it turned by `found`."""
        if (
            0.0 < self._next_look - stamp <= LEARNING_INTERVAL_S
            or angle_between(found.rotation, _STILL) < self._least_turn
        ):
            return
        self._next_look = stamp + LEARNING_INTERVAL_S
        aligner = self._aligner
        turned = dataclasses.replace(found, inside=aligner.in_view(found.rotation))
        still = aligner.unturned(found, view)
        gain = aligner.gain(still, turned)
        if share_of_gains(gain) > MIN_AREA_SHARE:
            return
        # Moving objects fit neither motion, so the misfit of fixed features must be less than half as large
        # without the turn as with it.
        stands = aligner.gain(still, turned, 2.0) > MIN_GAIN
        known = np.abs(gain) > MIN_GAIN
        learned = self._certainty + np.float32(LEARNING) * (stands - self._certainty) * known
        fixed = learned > 0.5
        if np.count_nonzero(fixed) <= (1.0 - MIN_STANDING_SHARE) * fixed.size:
            self._certainty = learned
            aligner.leave_out(fixed)
