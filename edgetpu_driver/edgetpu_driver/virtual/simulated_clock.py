"""Simulated time: waiting is free and only counted."""

from __future__ import annotations


class SimulatedClock:
    """A clock that stands still until somebody sleeps on it or a transfer times out."""

    def __init__(self) -> None:
        self._now = 0.0

    def monotonic(self) -> float:
        """Simulated seconds since the clock was made."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Put the clock forward, at once."""
        self._now += seconds
