"""How far a foreground biases the measured turn where it cannot be distinguished from the scene.

An object whose motion differs from the scene's by no more than noise is aligned together with the scene: the
turn is then a mean of both motions. Noise has another direction in each view, but an object pulls in one
direction as long as it is in view. So its pulls from keyframe to keyframe are added up, not their variances.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from edgetpu_perception.visual_compass.alignment_records import RotationAlignment
from edgetpu_perception.visual_compass.rotations import Vector

EXPLAINED_SIGMAS = 2.0
"""Disagreement of the blocks of a picture, in the explained standard deviations, up to which all blocks show
one motion. Rows: compass, an object crosses, noise 8, yaws within one sigma; full turns, the same."""

DISAGREEMENT_CELLS = 0.02
"""Standard deviation of a turn in cells by which blocks disagree even without noise and independent motion:
features are not followed more exactly. Rows: compass, full turns, yaws within one sigma, at
most."""

PULL_OVER_DISAGREEMENT = 3.0
"""Error of a mean of two motions over the standard deviation of its blocks, which count as independent.

Derived: 1 / ((1 - w) sqrt(1 / k + 1 / (16 - k))) if the object has a share w of the information, in k of 16
blocks. That is 2.3 if it has a quarter of both, and 4 if half.
"""

FIXED_PULL_SHARE = 0.004
"""Pull of parts that are fixed to the camera, one sigma, as a share of the turn.

At their border, features also show the scene; some fixed features go unnoticed. The mean error of the turns
from keyframe to keyframe is 0.3 to 0.5 % in the scenes in which it is largest. Rows: compass, the robot
itself fills the lowest 30 %, yaw error over its sigma; 0.003 is enough.
"""

MEMORY_S = 1.0
"""Time in s for which a foreground may be in view after it last pulled. Uncritical from 0.3 to 2."""

NOISE_MEMORY_S = 0.3
"""Time in s over which the noise is averaged. Uncritical from 0.1 to 1."""


@dataclass(frozen=True)
class AddedPull:
    """The pulls on a heading so far."""

    variance: float
    """Variance of all pulls, rad^2."""
    present: float
    """Sum of the pulls of the present foreground, one sigma, rad; included in the variance."""
    stamp: float
    """Time at which the foreground last pulled, s."""
    fixed: float = 0.0
    """Sum of the pulls of parts fixed to the camera, one sigma, rad; included in the variance."""

    def after(self, pull: float, stamp: float) -> AddedPull:
        """Add a pull in rad at a later time in s; pulls of one foreground have the same direction."""
        if pull == 0.0:
            return self
        before = self.present if stamp - self.stamp <= MEMORY_S else 0.0
        variance = self.variance + pull * (2.0 * before + pull)
        return AddedPull(variance, before + pull, stamp, self.fixed)

    def after_fixed(self, pull: float) -> AddedPull:
        """Add a pull in rad of parts fixed to the camera; all such pulls have the same direction."""
        if pull == 0.0:
            return self
        variance = self.variance + pull * (2.0 * self.fixed + pull)
        return AddedPull(variance, self.present, self.stamp, self.fixed + pull)

    def less(self, variance: float) -> AddedPull:
        """Subtract a variance, rad^2."""
        if variance == 0.0 or self.variance == 0.0:
            return self
        left = max(self.variance - variance, 0.0)
        share = math.sqrt(left / self.variance)
        return AddedPull(left, share * self.present, self.stamp, share * self.fixed)


NO_PULL = AddedPull(0.0, 0.0, -math.inf)


class ForegroundPull:
    """Estimates how far a foreground may pull the heading, from the disagreement of a picture's blocks."""

    def __init__(self, floor: float) -> None:
        """`floor`: variance of a turn by which blocks always disagree, rad^2."""
        self._floor = floor
        self.noise = math.inf
        """Noise of views in which nothing moves independently, grey levels; infinite before the first
        view."""

    def learn_noise(self, noise: float, interval: float, is_quiet: bool) -> None:
        """Learn from the noise of a view, `interval` s after the last one.

        `is_quiet`: whether nothing moves independently in it. Otherwise its noise is an upper limit only.
        """
        if not is_quiet or math.isinf(self.noise):
            self.noise = min(self.noise, noise)
        else:
            self.noise += min(interval / NOISE_MEMORY_S, 1.0) * (noise - self.noise)

    def pull(self, alignment: RotationAlignment, axis: Vector) -> float:
        """One sigma of the pull on a turn about an axis of the key's frame, rad.

        It is 0 if noise explains the disagreement of the blocks.

        A foreground looks like noise, so its disagreement is compared with the noise of earlier views.
        """
        influence = axis.dot(alignment.influence)
        square, floor = float(influence.dot(influence)), EXPLAINED_SIGMAS**2 * self._floor
        if square <= floor:
            return 0.0
        noise = min(alignment.agreement.noise, self.noise)
        explained = EXPLAINED_SIGMAS**2 * alignment.explained(noise, axis)
        return PULL_OVER_DISAGREEMENT * math.sqrt(max(square - floor - explained, 0.0))
