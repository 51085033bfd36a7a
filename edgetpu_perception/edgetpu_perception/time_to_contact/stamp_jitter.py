"""How far the stamps of a camera's images are from the times they were taken, from their intervals."""

from __future__ import annotations

import math

_MEMORY = 0.1
"""Weight of the newest interval."""

_FASTER = 0.6
"""An interval below that share of the period shows that images had been lost when the period was taken."""


class StampJitter:
    """Takes the intervals of images that were taken at a constant rate, some of which may have been lost."""

    def __init__(self) -> None:
        self._period = math.inf
        self.variance = 0.0
        """Of a stamp, s^2."""

    def take(self, interval: float) -> None:
        """Take the stamp of an image less that of the one before, s."""
        if interval < _FASTER * self._period:
            self._period = interval
            return
        taken = max(round(interval / self._period), 1)
        error = interval - taken * self._period
        self._period += _MEMORY * error / taken
        # Both ends of an interval have an error.
        self.variance += _MEMORY * (error**2 / 2 - self.variance)
