"""How fast something comes closer: a Kalman filter over its depth relative to a keyframe."""

from __future__ import annotations

import math

USUAL_CHANGE = 0.03
"""Expected change of the speed, relative to it, in one second**0.5, while the measurements fit."""

SLOWEST = 0.5
"""Rate, 1/s, from which on the change counts relative to the rate itself."""

SURPRISE = 6.0
"""Squared innovation, in its variance, from which on a change of speed is assumed ..."""

LARGEST_BOOST = 400.0
"""... and how much that may raise the variance of the change."""

SLOPE_DOUBT = 0.1
"""Relative standard deviation of a rate that was taken for constant."""

_MEMORY = 0.25


class RelativeDepth:
    """State: logarithm of depth over depth at the keyframe, and the rate = speed / depth, 1/s.

    At constant speed depth falls linearly, so that the rate grows by its own square.
    """

    def __init__(self, rate: float = 0.0, log_depth: float = 0.0, log_depth_sigma: float = 0.0) -> None:
        """Start somewhere, with a standard deviation of 1/s for the rate."""
        self.rate = rate
        self._log_depth = log_depth
        self._variance = (log_depth_sigma**2, 0.0, 1.0)
        self._keyframe_variance = math.nan
        self._surprise = 1.0

    @property
    def rate_sigma(self) -> float:
        """One standard deviation of the rate, 1/s."""
        return math.sqrt(self._variance[2])

    def predict(self, seconds: float) -> None:
        """Let time go by."""
        left = max(1.0 - self.rate * seconds, 0.2)
        self._log_depth += math.log(left)
        self.rate /= left
        depth, cross, rate = self._variance
        a, b = -seconds / left, 1.0 / left**2
        boost = min(self._surprise**2, LARGEST_BOOST) if self.surprised else 1.0
        change = boost * (USUAL_CHANGE**2) * (SLOWEST**2 + self.rate**2) * seconds
        self._variance = (
            depth + 2 * a * cross + a * a * rate + change * seconds**2 / 3,
            b * (cross + a * rate) - change * seconds / 2,
            b * b * rate + change,
        )

    def update(self, log_depth: float, variance: float) -> None:
        """Take a measurement between the present image and the keyframe; each has half of the variance."""
        noise = variance / 2
        depth, cross, rate = self._variance
        if math.isnan(self._keyframe_variance):
            depth += noise
        self._keyframe_variance = noise
        innovation, total = log_depth - self._log_depth, depth + noise
        self._surprise += _MEMORY * (innovation**2 / total - self._surprise)
        self._log_depth += depth / total * innovation
        self.rate += cross / total * innovation
        self._variance = (depth * noise / total, cross * noise / total, rate - cross * cross / total)

    @property
    def surprised(self) -> bool:
        """Whether the measurements do not fit a constant speed."""
        return self._surprise > SURPRISE

    def start_over(self, log_depth: float, variance: float, seconds: float) -> None:
        """Believe only the present measurement and that the speed has been constant since the keyframe."""
        grown = math.exp(-log_depth)
        self._log_depth, self.rate = log_depth, (grown - 1) / seconds
        depth, slope = variance / 2, -grown / seconds
        self._variance = (depth, slope * depth, 2 * slope**2 * depth + (SLOPE_DOUBT * self.rate) ** 2)
        self._surprise = 1.0

    def start_keyframe(self) -> None:
        """Count depth from the present image on."""
        self._log_depth = 0.0
        if not math.isnan(self._keyframe_variance):
            self._variance = (self._keyframe_variance, 0.0, self._variance[2])
