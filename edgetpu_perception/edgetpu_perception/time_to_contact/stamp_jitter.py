"""Jitter of image stamps, estimated from their intervals."""

from __future__ import annotations

import math
from collections import deque

_NEWEST_WEIGHT = 0.1
"""Weight of the newest interval. Rows: none, as the clips have exact stamps; TestStampJitter."""

_SHORTER_PERIOD_SHARE = 0.6
"""An interval below this share of the period shows that images were lost when the period was measured.

Derived: between 1/2 (one lost image) and 1.
"""

_BURST_PERIOD_SHARE = 0.4
"""A period below this share of the usual interval was measured between images that came in a burst.

Derived: below 1/2, the share if one image is lost between most others.
"""

_RECENT = 16
"""Number of intervals whose lower quartile is the usual one; a few odd ones do not move it. Uncritical."""


class StampJitter:
    """Jitter of the stamps of images taken at a constant rate, some of which may be lost."""

    def __init__(self) -> None:
        self._period = math.inf
        self._recent: deque[float] = deque(maxlen=_RECENT)
        self.variance = 0.0
        """Variance of a stamp, s^2."""

    def take(self, interval: float) -> None:
        """Add the interval between two successive stamps, s."""
        self._recent.append(interval)
        usual = sorted(self._recent)[len(self._recent) // 4]
        if usual < _SHORTER_PERIOD_SHARE * self._period or self._period < _BURST_PERIOD_SHARE * usual:
            self._period = usual
        taken = max(round(interval / self._period), 1)
        error = interval - taken * self._period
        self._period += _NEWEST_WEIGHT * error / taken
        # Both ends of an interval have an error.
        self.variance += _NEWEST_WEIGHT * (error**2 / 2 - self.variance)
