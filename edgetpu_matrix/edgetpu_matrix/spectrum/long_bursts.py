"""Recognises samples that are delivered in bursts as long as a block, by the pauses between the bursts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LEAST_PAUSE = 0.5
"""Least share of the pause in the time from one burst to the next. Chosen: most of the time of a signal that
is delivered in bursts passes between them, and little of one that was interrupted now and then."""

LEAST_INTERVALS = 25
"""Least length of a pause in intervals of the samples around it. Chosen: about MOST_LATE_ARRIVAL."""

ALIKE = 0.25
"""Largest difference of the rates of two bursts, samples over the time to the next one, relative to the
larger. Chosen: bursts differ by some samples; interruptions of a signal are as long as they happen to be."""

LONGER = 2
"""Factor by which a burst exceeds the last one when samples do not come in bursts any more. Uncritical."""


@dataclass(frozen=True)
class _Burst:
    size: int
    rate: float
    """Samples over the time from its first one to that of the next burst, Hz."""


class LongBursts:
    """The bursts of a stream whose stamps are times of arrival.

    `size` is that of the last burst if two in a row have most of their time in the pause behind them and the
    same rate, otherwise 0. Within such bursts the times of arrival say nothing about the sample rate.
    """

    def __init__(self) -> None:
        self.size = 0
        self._start: float | None = None
        """Time of the first sample of the burst under way, s; None for the first one, which may be a part."""
        self._previous = math.inf
        """Time of the last sample that was used, s."""
        self._count = 0
        self._last: _Burst | None = None

    def begin_block(self, stamps: NDArray[np.float64]) -> None:
        """Note whether the samples of a block, of which these are the stamps, s, follow after a pause."""
        if stamps[0] - self._previous > LEAST_INTERVALS * np.median(np.diff(stamps)):
            self._pause(self._previous, float(stamps[0]))

    def advance(self, stamps: NDArray[np.float64]) -> None:
        """Note that samples with these stamps, s, have been used."""
        self._count += stamps.size
        self._previous = float(stamps[-1])
        if self.size and self._count > LONGER * self.size:
            self.size, self._last = 0, None

    def _pause(self, last: float, first: float) -> None:
        burst: _Burst | None = None
        if self._start is not None and first - last >= LEAST_PAUSE * (first - self._start):
            burst = _Burst(self._count, self._count / (first - self._start))
        before, self._last = self._last, burst
        alike = burst is not None and before is not None and _alike(before.rate, burst.rate)
        self.size = burst.size if burst is not None and alike else 0
        self._start, self._count = first, 0


def _alike(first: float, second: float) -> bool:
    return abs(first - second) <= ALIKE * max(first, second)
