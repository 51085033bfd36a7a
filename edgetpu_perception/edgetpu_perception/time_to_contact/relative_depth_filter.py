"""Rate of approach: a Kalman filter over the depth relative to a keyframe."""

from __future__ import annotations

import math

SPEED_CHANGE_SIGMA = 0.03
"""Expected relative change of the speed within 1 s, one standard deviation, while measurements fit.

Rows: looming, plane, 95th percentile and inside one sigma.
"""

MIN_RATE_SCALE = 0.5
"""Rate, 1/s, below which changes of speed count as if relative to this rate.

Rows: looming, static and receding.
"""

SURPRISE_THRESHOLD = 6.0
"""Mean squared innovation, in its variance, from which on a change of speed is assumed.

Rows: looming, object before a background, 95th percentile.
"""

MAX_VARIANCE_BOOST = 400.0
"""Largest factor by which a surprise raises the variance of the change of speed. Rows: the same."""

CONSTANT_RATE_SIGMA = 0.1
"""Relative standard deviation of a rate computed as if it had been constant. Rows: the same."""

_SURPRISE_WEIGHT = 0.25
"""Weight of the newest squared innovation. Rows: the same."""


class RelativeDepth:
    """Filter with the state: log(depth / depth at the keyframe), and rate = speed / depth, 1/s.

    At constant speed depth falls linearly, so the rate grows by its own square.
    """

    def __init__(self, rate: float = 0.0, log_depth: float = 0.0, log_depth_sigma: float = 0.0) -> None:
        """Start with this state; the standard deviation of the rate is 1/s."""
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
        """Predict the state after this time."""
        left = max(1.0 - self.rate * seconds, 0.2)
        self._log_depth += math.log(left)
        self.rate /= left
        depth, cross, rate = self._variance
        a, b = -seconds / left, 1.0 / left**2
        boost = min(self._surprise**2, MAX_VARIANCE_BOOST) if self.surprised else 1.0
        change = boost * (SPEED_CHANGE_SIGMA**2) * (MIN_RATE_SCALE**2 + self.rate**2) * seconds
        self._variance = (
            depth + 2 * a * cross + a * a * rate + change * seconds**2 / 3,
            b * (cross + a * rate) - change * seconds / 2,
            b * b * rate + change,
        )

    def update(self, log_depth: float, variance: float) -> None:
        """Add a measurement; the present image and the keyframe contribute half of its variance each."""
        noise = variance / 2
        depth, cross, rate = self._variance
        if math.isnan(self._keyframe_variance):
            depth += noise
        self._keyframe_variance = noise
        innovation, total = log_depth - self._log_depth, depth + noise
        self._surprise += _SURPRISE_WEIGHT * (innovation**2 / total - self._surprise)
        self._log_depth += depth / total * innovation
        self.rate += cross / total * innovation
        self._variance = (depth * noise / total, cross * noise / total, rate - cross * cross / total)

    @property
    def surprised(self) -> bool:
        """Whether recent measurements contradict a constant speed."""
        return self._surprise > SURPRISE_THRESHOLD

    def start_over(self, log_depth: float, variance: float, seconds: float) -> None:
        """Restart from one measurement, as if the speed had been constant since the keyframe."""
        grown = math.exp(-log_depth)
        self._log_depth, self.rate = log_depth, (grown - 1) / seconds
        depth, slope = variance / 2, -grown / seconds
        self._variance = (depth, slope * depth, 2 * slope**2 * depth + (CONSTANT_RATE_SIGMA * self.rate) ** 2)
        self._surprise = 1.0

    def start_keyframe(self) -> None:
        """Make the present image the keyframe."""
        self._log_depth = 0.0
        if not math.isnan(self._keyframe_variance):
            self._variance = (self._keyframe_variance, 0.0, self._variance[2])
