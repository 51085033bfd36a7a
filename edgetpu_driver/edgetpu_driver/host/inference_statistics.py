"""Statistics of one stick: requests, their latencies, and the time spent in engines."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LATENCIES_KEPT = 4096
"""Latencies kept within one period: more than a stick has inferences in a second, the default period."""


@dataclass(frozen=True)
class Period:
    """Figures of the time between two calls of `InferenceStatistics.end_period`."""

    utilisation: float = 0.0
    """Share of the time spent in engines, 0..1."""
    throughput: float = 0.0
    """Requests completed per second."""
    latencies: tuple[float, ...] = ()
    """Seconds from the arrival of each request to its answer."""

    @property
    def latency_p50(self) -> float:
        """Seconds; NaN if nothing ran."""
        return _percentile(self.latencies, 50)

    @property
    def latency_p99(self) -> float:
        """Seconds; NaN if nothing ran."""
        return _percentile(self.latencies, 99)


class InferenceStatistics:
    """Counts requests of one stick. Not thread-safe."""

    def __init__(self) -> None:
        self.completed = 0
        """Number of requests with a result."""
        self.uploads_avoided = 0
        """Number of inferences that needed no upload because the parameters were resident."""
        self.period = Period()
        """The last period that ended."""
        self._latencies: deque[float] = deque(maxlen=LATENCIES_KEPT)
        self._busy = 0.0
        self._done = 0
        self._since = time.monotonic()

    def add(self, latency: float | None, avoided_upload: bool) -> None:
        """Count a result and its latency, s; None for a step of a whole model, which has none of its own."""
        self.completed += 1
        self.uploads_avoided += avoided_upload
        self._done += 1
        if latency is not None:
            self._latencies.append(latency)

    def add_busy(self, seconds: float) -> None:
        """Count time spent in an engine."""
        self._busy += seconds

    def end_period(self) -> None:
        """End the period of latencies, utilisation and throughput, and begin the next one."""
        now = time.monotonic()
        elapsed = max(now - self._since, 1e-9)
        self.period = Period(min(self._busy / elapsed, 1.0), self._done / elapsed, tuple(self._latencies))
        self._latencies.clear()
        self._busy, self._done, self._since = 0.0, 0, now


def joined(periods: Sequence[Period]) -> Period:
    """The figures of several sticks as those of one: mean utilisation, total throughput, all latencies."""
    if len(periods) == 1:
        return periods[0]
    return Period(
        sum(period.utilisation for period in periods) / max(len(periods), 1),
        sum(period.throughput for period in periods),
        tuple(latency for period in periods for latency in period.latencies),
    )


def _percentile(latencies: Sequence[float], percent: float) -> float:
    return float(np.percentile(latencies, percent)) if latencies else float("nan")
