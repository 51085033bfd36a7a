"""Records of the orientation tracker: its state between views, and its result."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.visual_compass.alignment_records import RotationAlignment, View
from edgetpu_perception.visual_compass.angular_velocity_filter import Motion
from edgetpu_perception.visual_compass.keyframes import Keyframe
from edgetpu_perception.visual_compass.moving_objects.undetected_object import AddedPull
from edgetpu_perception.visual_compass.rotations import Matrix, Vector, to_matrix
from edgetpu_perception.visual_compass.view_recognition_limits import (
    LOST_AFTER_S,
    MAX_EXTRAPOLATION_S,
    MAX_LATE_VIEWS,
)


@dataclass(frozen=True)
class Heading:
    """Result for one view."""

    confidence: float
    previous_stamp: float
    """Time of the previous view, s; the rates are means since then."""
    yaw: float
    """rad, unwrapped, counter-clockwise seen from above."""
    yaw_sigma: float
    """rad"""
    yaw_rate: float
    """rad/s"""
    yaw_rate_sigma: float
    """rad/s"""
    velocity: Vector
    """Angular velocity in the optical frame, rad/s."""
    velocity_covariance: Matrix
    """rad^2/s^2"""
    measured_velocity: Vector
    """The angular velocity between the poses of this view and the previous one, rad/s."""
    motion: Motion
    """The state of the filter that smooths the angular velocity."""


@dataclass(frozen=True)
class Pose:
    """Orientation of the camera at one view, measured against one keyframe."""

    stamp: float
    orientation: Matrix
    """From the optical frame to the world."""
    keyframe: Keyframe
    turn: Vector
    """Turn since the keyframe, about the world's axes, rad."""
    influence: NDArray[np.float64]
    """Contribution of each block of residuals to the turn, rad: [3, blocks]."""
    similarity: float
    """Similarity of view and keyframe, -1..1."""
    pull: float = 0.0
    """How far a foreground may have pulled the heading since the keyframe, one sigma, rad."""
    alignment: RotationAlignment | None = None
    """Of the view to the keyframe; None for the keyframe itself."""
    fixed_pull: float = 0.0
    """How far parts fixed to the camera may have pulled the heading since the keyframe, one sigma, rad."""

    @property
    def all_pulls(self) -> AddedPull:
        """The pulls on the keyframe and on the turn since."""
        return self.keyframe.pull.after(self.pull, self.stamp).after_fixed(self.fixed_pull)


@dataclass(frozen=True)
class TrackedPose:
    """A pose with its angular velocity and its result."""

    pose: Pose
    yaw: float
    """rad, unwrapped"""
    measured_velocity: Vector
    """Angular velocity in the optical frame from this view and the previous one alone, rad/s."""
    heading: Heading | None = None
    """None if there was no earlier view to compare with."""
    view: View | None = None
    """None for a view that is a keyframe itself."""

    @property
    def alignment(self) -> RotationAlignment | None:
        """How the view was aligned to its keyframe; None for a view that is a keyframe itself."""
        return self.pose.alignment

    def orientation_at(self, stamp: float) -> Matrix:
        """Orientation at a later time if the camera keeps turning."""
        seconds = min(stamp - self.pose.stamp, MAX_EXTRAPOLATION_S)
        ahead: Matrix = self.pose.orientation.dot(to_matrix(self.measured_velocity * seconds))
        return ahead


@dataclass(frozen=True)
class Loss:
    """The state when the camera was lost."""

    stamp: float
    """Time of the last known view, s."""
    chain: int
    """The last chain of keyframes before the loss; later chains are not accepted yet."""
    out_of_view: bool
    """Whether the keyframe went out of view, so that new views are the adjacent part of the scene."""


class LateViews:
    """Views earlier than the last one: a few have come late, a series shows that the clock was set back."""

    def __init__(self) -> None:
        self._stamps: list[float] = []

    def show_clock_set_back(self, stamp: float, last: float) -> bool:
        """Whether the clock was set back, as when a bag is played again; times in s."""
        if stamp > last:
            self._stamps.clear()
            return False
        if self._stamps and stamp <= self._stamps[-1]:
            self._stamps.clear()
        self._stamps.append(stamp)
        return stamp < last - LOST_AFTER_S or len(self._stamps) == MAX_LATE_VIEWS
