"""Simulated time: sleeping returns at once and advances the clock."""

from __future__ import annotations


class SimulatedClock:
    """A clock that advances only by sleeps and transfers."""

    def __init__(self) -> None:
        self._now = 0.0

    def monotonic(self) -> float:
        """Simulated seconds since the clock was made."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Advance the clock."""
        self._now += seconds
