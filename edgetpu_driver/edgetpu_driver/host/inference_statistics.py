"""Statistics of a model host: results, dropped requests, latencies, and the time spent in engines."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass

import numpy as np

LATENCIES_KEPT = 4096
"""Number of latencies kept within one period."""


@dataclass(frozen=True)
class Period:
    """Figures of the time between two calls of `InferenceStatistics.end_period`."""

    utilisation: float = 0.0
    """Share of the time spent in engines, 0..1."""
    latency_p50: float = float("nan")
    latency_p99: float = float("nan")
    """Seconds; NaN if nothing ran."""


class InferenceStatistics:
    """Counts inferences. All methods may be called from any thread."""

    def __init__(self) -> None:
        self.inferences = 0
        self.dropped = 0
        """Requests that got no result."""
        self.period = Period()
        """The last period that ended."""
        self._lock = threading.Lock()
        self._latencies: deque[float] = deque(maxlen=LATENCIES_KEPT)
        self._busy = 0.0
        self._since = time.monotonic()

    def add(self, seconds: float) -> None:
        """Count a result and its latency in seconds."""
        with self._lock:
            self.inferences += 1
            self._busy += seconds
            self._latencies.append(seconds)

    def drop(self) -> None:
        """Count a request without a result."""
        with self._lock:
            self.dropped += 1

    def end_period(self) -> None:
        """End the period of latencies and utilisation, and begin the next one."""
        now = time.monotonic()
        with self._lock:
            latencies, busy, elapsed = list(self._latencies), self._busy, now - self._since
            self._latencies.clear()
            self._busy, self._since = 0.0, now
        p50, p99 = np.percentile(latencies, (50, 99)) if latencies else (np.nan, np.nan)
        self.period = Period(min(busy / elapsed, 1.0) if elapsed > 0 else 0.0, float(p50), float(p99))
