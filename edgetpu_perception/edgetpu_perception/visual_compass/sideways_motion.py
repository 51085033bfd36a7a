"""The apparent turn of a camera that moves sideways, estimated from the growth of the picture.

In front of a distant scene, a sideways motion looks like a turn. Keyframes separate the two only to several
times their noise, so that an estimate makes most headings worse. A forward motion makes the picture grow,
which no turn does. A camera is assumed to move sideways as fast as forward, and the apparent turn is added to
sigmas.
"""

from __future__ import annotations

import math

import cv2
import numpy as np

from edgetpu_perception.visual_compass.alignment_records import RotationAlignment
from edgetpu_perception.visual_compass.keyframes import Keyframe
from edgetpu_perception.visual_compass.robust_residuals import OUTLIER_DEVIATIONS
from edgetpu_perception.visual_compass.rotation_alignment import RotationAligner
from edgetpu_perception.visual_compass.rotations import Matrix

VELOCITY_MEMORY_S = 1.0
"""Time in s over which a velocity persists: a drone turns back after about a second.

Rows: compass, drone, yaws within one sigma.
"""

MEMORY_S = 5.0
"""Time in s over which the squared velocity is averaged: forward motion shows it only now and then.

Uncritical from 2 to 5.
"""

MEASURING_INTERVAL_S = 0.1
"""Shortest time in s between two measurements; limits the time."""

EXPLAINED_SIGMAS = 2.5
"""Growth, in the standard deviations that residuals explain, that a camera at rest sees as well: errors of
features are alike in neighbouring cells. Rows: compass, full turns, yaws within one sigma, at most."""

CERTAIN_SIGMAS = 5.0
"""Growth, in the same standard deviations, that is certain. Derived: twice what a camera at rest sees."""

LASTING_S = 0.5
"""Time in s over which growth is averaged. Uncritical."""

LASTING_SHARE = 0.9
"""Share of that time in which the picture must certainly have grown, or shrunk, to show motion: with
LASTING_S that takes 1.15 s. With noise, an object that crosses has reached 0.8. Rows: compass, an object
crosses, noise 8, ends within 1 deg."""

EXPECTED_SHARE = 0.5
"""The same for a camera that is known to look in the direction of motion, which takes 0.35 s. Rows: compass,
drives through rooms, yaw RMSE."""

RIDGE_SHARE = 1e-6
"""Share of the information added to all unknowns, so that they can be solved for. Derived: rounding."""

REST = 0.2
"""Prior evidence that the camera only turns, s^3: `_square_of_path` times a time.

Keyframes of a fast turn are too brief to show a velocity. Rows: compass, full turns, yaws within one sigma,
at most. Uncritical from 0.1 to 0.5.
"""


class SidewaysMotion:
    """Velocity of the camera over the distance of the scene, and the apparent turn since the reference."""

    def __init__(self, aligner: RotationAligner, looks_ahead: bool = False) -> None:
        """`looks_ahead`: the camera looks in the direction of motion."""
        self._least_share = EXPECTED_SHARE if looks_ahead else LASTING_SHARE
        self._ahead = aligner.points.moves[2]
        self._squares = self._paths = 0.0
        self._keyframe: Keyframe | None = None
        self._first = self._stamp = self._measured = math.nan
        self.rate_variance = 0.0
        """Variance of the apparent angular velocity about the horizontal and vertical axis, rad^2/s^2."""
        self.turn_variance = 0.0
        """Variance of the apparent turn since the first view, rad^2."""
        self._growing = 0.0
        self._moved = -math.inf

    @property
    def rate_covariance(self) -> Matrix:
        """Covariance of the apparent angular velocity about the optical axes, rad^2/s^2.

        No move looks like a roll.
        """
        return np.diag((self.rate_variance, self.rate_variance, 0.0))

    def moves(self, stamp: float) -> bool:
        """Whether the camera moved a moment ago: for some time the picture certainly grew, or shrank."""
        return stamp - self._moved <= VELOCITY_MEMORY_S

    def has_grown(self, alignment: RotationAlignment, keyframe: Keyframe) -> bool:
        """Whether the picture has certainly grown or shrunk since a keyframe."""
        growth, variance = self._growth(alignment, keyframe)
        return _is_certain(growth, variance)

    def update(self, alignment: RotationAlignment, keyframe: Keyframe, stamp: float) -> None:
        """Add a view taken at `stamp` s that is aligned to a keyframe."""
        if self._keyframe is None:
            self._keyframe = keyframe
            self._first = self._stamp = self._measured = keyframe.stamp
        returned = keyframe.stamp < self._keyframe.stamp
        self._keyframe = keyframe
        if returned or stamp - self._measured >= MEASURING_INTERVAL_S:
            growth, variance = self._growth(alignment, keyframe)
            self._watch(growth if _is_certain(growth, variance) else 0.0, stamp)
            if alignment.growth is not None:  # only a sideways motion still looks like a turn
                growth, variance = alignment.growth.apparent_turn, 0.0
            self._add(growth, variance, stamp, stamp - keyframe.stamp)
            if returned:  # the camera is back, except for a sideways move as long as the forward one
                way = growth * growth + EXPLAINED_SIGMAS**2 * variance
                way = min(way, self.rate_variance * _square_of_path(stamp - keyframe.stamp))
                self.turn_variance = keyframe.sideways_variance + way
        before, now = (_square_of_path(each - self._first) for each in (self._stamp, stamp))
        self.turn_variance += self.rate_variance * (now - before)
        self._stamp = stamp

    def _watch(self, certain: float, stamp: float) -> None:
        """Detect lasting growth: an object that crosses the picture resembles it for a few views only."""
        kept = math.exp(-min(stamp - self._measured, 2.0 * MEASURING_INTERVAL_S) / LASTING_S)
        self._growing = kept * self._growing + (1.0 - kept) * float(np.sign(certain))
        if abs(self._growing) > self._least_share:
            self._moved = stamp

    def _add(self, growth: float, variance: float, stamp: float, age: float) -> None:
        """Compare the growth since a keyframe with that from a velocity of 1/s at the keyframe's age, s."""
        interval = min(stamp - self._measured, MEMORY_S)
        self._measured = stamp
        kept = math.exp(-interval / MEMORY_S)
        self._squares *= kept
        self._squares += interval * (growth * growth - EXPLAINED_SIGMAS**2 * variance)
        self._paths = kept * self._paths + interval * _square_of_path(age)
        self.rate_variance = max(self._squares, 0.0) / (self._paths + REST)

    def _growth(self, alignment: RotationAlignment, keyframe: Keyframe) -> tuple[float, float]:
        """Forward motion since a keyframe over the scene's distance, and its variance from the residuals."""
        if alignment.growth is not None:
            return alignment.growth.mean, alignment.growth.variance
        key, agreement = keyframe.key, alignment.agreement
        residual = agreement.key - agreement.view
        weight = residual * residual
        weight /= np.float32((OUTLIER_DEVIATIONS[0] * agreement.noise) ** 2 + 1e-2)
        weight += np.float32(1.0)
        weight = agreement.used / (weight * weight)
        slope = self._ahead[0] * key.points[1] + self._ahead[1] * key.points[2]
        slopes = np.vstack((key.jacobian, slope.reshape(1, -1)))
        weighted = slopes * weight.ravel()
        information = weighted.dot(slopes.T).astype(np.float64)
        information.ravel()[::6] += RIDGE_SHARE * float(np.trace(information)) + 1e-9
        covariance = np.asarray(cv2.invert(information)[1])[4]
        growth = float(covariance.dot(weighted.dot(residual.ravel())))
        return growth, float(covariance[4]) * agreement.noise**2


def _is_certain(growth: float, variance: float) -> bool:
    return growth * growth > CERTAIN_SIGMAS**2 * variance


def _square_of_path(seconds: float) -> float:
    """Mean square of the distance moved in `seconds` over the mean square of the velocity, s^2.

    The velocity persists for VELOCITY_MEMORY_S.
    """
    memories = seconds / VELOCITY_MEMORY_S
    return 2.0 * VELOCITY_MEMORY_S**2 * (memories - 1.0 + math.exp(-memories))
