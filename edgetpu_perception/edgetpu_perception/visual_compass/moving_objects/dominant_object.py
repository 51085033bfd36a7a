"""Keeps the camera's course when a moving object has more texture than the scene.

An alignment follows the motion that most of the visible texture shows. As long as nothing moves
independently, that is the camera's motion. If this motion changes while something moves independently, and
the rest of the picture continues the earlier motion of the camera, then the rest is the scene.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from edgetpu_perception.visual_compass.alignment_records import RotationAlignment, View
from edgetpu_perception.visual_compass.keyframes import Keyframe
from edgetpu_perception.visual_compass.moving_objects.other_motion import OtherMotion
from edgetpu_perception.visual_compass.moving_objects.point_agreement import ALL_FOLLOW
from edgetpu_perception.visual_compass.orientation_tracker_state import Pose
from edgetpu_perception.visual_compass.rotation_alignment import MAX_GUESS_ERROR_CELLS, RotationAligner
from edgetpu_perception.visual_compass.rotations import Matrix, Vector, angle_between, to_matrix
from edgetpu_perception.visual_compass.view_recognition_limits import (
    OUT_OF_VIEW_CONTRAST_SHARE,
    SIMILARITY_RANGE,
)

MIN_AREA_SHARE = 0.4
"""Least area that follows the scene's motion, as a share of the area that follows either motion.

When a robot begins to turn, its own parts in view continue as before; when it slows down past a person, a few
edges may. Neither is the scene: parts of the robot have 0.14 to 0.33. Rows: compass, an object crosses,
noise 8, ends within 1 deg; the robot itself fills the lowest quarter, the same.
"""

MIN_FOLLOWING = 0.5
"""Of the texture that does not follow the object, the least share that follows the scene. Derived: half."""

MEMORY_S = 1.0
"""Time in s for which an object may remain in view after it was last distinguished from the scene. Rows:
compass, an object crosses, noise 8, ends within 1 deg."""

UNNOTICED_S = 0.5
"""Time in s for which an object may be in view before it is distinguished from the scene. Rows: the same."""

RETRY_S = 0.047
"""Time in s after which the course is searched for again if the picture did not support it.

The error of the heading until then is corrected when the course is found; 0.07 s misses short chances.
Rows: compass, an object crosses, noise 8, ends within 1 deg; bench perception, compass.
"""


@dataclass(frozen=True)
class _Before:
    """A view in which nothing moved independently."""

    pose: Pose
    velocity: Vector
    """Angular velocity in the optical frame since the view before, rad/s."""


class SteadyCourse:
    """The camera's angular velocity before something moved independently."""

    def __init__(self, aligner: RotationAligner) -> None:
        self._aligner = aligner
        self._other = OtherMotion(aligner)
        self._before: deque[_Before] = deque()
        """Views of the last UNNOTICED_S in which nothing moved independently."""
        self._moved, self._is_quiet, self._is_kept = -math.inf, True, False
        self._astray: Vector = np.zeros(3)
        self._next_try = -math.inf

    @property
    def is_quiet(self) -> bool:
        """Whether nothing has moved independently for MEMORY_S."""
        return self._is_quiet

    @property
    def rests(self) -> bool:
        """Whether the camera stood still before something moved independently, as far as that shows."""
        if not self._before:
            return False
        velocity = self._before[0].velocity
        return math.sqrt(float(velocity.dot(velocity))) * MEMORY_S < self._other.least_difference

    @property
    def began(self) -> float:
        """Time in s since which something may have moved independently; infinite if nothing does."""
        return math.inf if self._is_quiet or not self._before else self._before[0].pose.stamp

    def update(
        self, velocity: Vector, pose: Pose, alignment: RotationAlignment, interval: float
    ) -> Vector | None:
        """Add a view; `velocity`: in the optical frame since the previous view, `interval` s ago, rad/s.

        Returns the error of the heading, rad about the world's axes, when the course is found again.
        """
        stamp = pose.stamp
        if alignment.following < ALL_FOLLOW or pose.keyframe.key.standing is not None:
            if self._is_quiet:
                self._notice(pose.orientation)
            self._moved, self._is_quiet = stamp, False
        elif not self._is_quiet and stamp - self._moved > MEMORY_S:
            self._before.clear()
            self._is_quiet, self._is_kept = True, False
        if self._is_quiet:
            self._before.append(_Before(pose, velocity))
            while len(self._before) > 1 and self._before[1].pose.stamp <= stamp - UNNOTICED_S:
                self._before.popleft()
            return None
        if not self._before:
            return None
        self._astray = self._astray + pose.orientation.dot(velocity - self._before[0].velocity) * interval
        if not self._is_kept:
            return None
        astray, self._astray, self._is_kept = self._astray, np.zeros(3), False
        return astray

    def _notice(self, orientation: Matrix) -> None:
        """Add up the error of the heading so far: a moving object may have been followed for some time."""
        self._astray = np.zeros(3)
        if self._before:
            first = self._before[0]
            for earlier, later in pairwise(self._before):
                interval = later.pose.stamp - earlier.pose.stamp
                self._astray += orientation.dot(later.velocity - first.velocity) * interval

    def alternative(
        self, found: RotationAlignment, keyframe: Keyframe, view: View, stamp: float
    ) -> RotationAlignment | None:
        """The alignment by which the camera continues as before; None if the picture does not support it."""
        if not self._before or stamp - self._moved > MEMORY_S or 0.0 < self._next_try - stamp <= RETRY_S:
            return None
        guess = self._expected(keyframe, stamp)
        if angle_between(guess, found.rotation) < self._other.least_difference:
            return None
        other = self._other.find(
            found, keyframe.key, view, guess, min_following=MIN_FOLLOWING, min_area_share=MIN_AREA_SHARE
        )
        if other is not None and not self._shows_scene(view, stamp):
            other = None
        self._is_kept |= other is not None
        self._next_try = -math.inf if other is not None else stamp + RETRY_S
        return other

    def confirm(self, found: RotationAlignment, keyframe: Keyframe, view: View, stamp: float) -> bool:
        """Whether an alignment shows that the camera continues as before; then the course is found again."""
        if not self._before:
            return False
        astray = angle_between(self._expected(keyframe, stamp), found.rotation)
        agrees = astray < self._other.least_difference and self._shows_scene(view, stamp)
        self._is_kept |= agrees
        return agrees

    def _expected(self, keyframe: Keyframe, stamp: float) -> Matrix:
        """Rotation since a keyframe if the camera has continued as before."""
        expected: Matrix = to_matrix(-self._before[0].velocity * (stamp - keyframe.stamp))
        return expected

    def _shows_scene(self, view: View, stamp: float) -> bool:
        """Whether a view shows the earlier scene at its place if the camera has continued as before.

        An object that moves along with a turning camera looks like a camera that stands still, but then the
        earlier scene is no longer there. Also true if too little of that scene would be in view.
        """
        first = self._before[0]
        keyframe, turned = first.pose.keyframe, first.velocity * (stamp - first.pose.stamp)
        expected = to_matrix(-turned).dot(first.pose.orientation.T).dot(keyframe.orientation)
        if self._aligner.contrast_in_view(keyframe.key, expected) < OUT_OF_VIEW_CONTRAST_SHARE:
            return True
        found = self._aligner.align(keyframe.key, view, expected)
        error = angle_between(found.rotation, expected) * self._aligner.cells_per_radian
        return found.converged and found.similarity >= SIMILARITY_RANGE[1] and error < MAX_GUESS_ERROR_CELLS
