"""Results over the last minute, with the rate, latency and longest gap of a node."""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

WINDOW = 60.0
"""Seconds of a curve."""
MOST_POINTS = 300
"""Points of a curve on the page, about one for each of its pixels."""
RATE_WINDOW = 5.0
"""Seconds over which rate and latency are taken."""

Point = tuple[float, float | None, float]
"""Time before now, s; value, None where nothing was measured; standard deviation."""


class Curve:
    """One number of a result over the last minute, with its standard deviation."""

    def __init__(self, window: float = WINDOW) -> None:
        self._window = window
        self._points: deque[tuple[float, float, float]] = deque()

    def add(self, now: float, value: float, sigma: float = 0.0) -> None:
        """Add a value that was received at a time, s; NaN: nothing was measured."""
        self._points.append((now, value, sigma if math.isfinite(sigma) else 0.0))
        while self._points and self._points[0][0] < now - self._window:
            self._points.popleft()

    def points(self, now: float, most: int = MOST_POINTS) -> list[Point]:
        """Return at most so many points, the oldest first; each covers an equal part of the window.

        A gap stays a gap; otherwise a point has the mean of its values and their largest standard deviation.
        """
        width = self._window / most
        found: dict[int, list[tuple[float, float, float]]] = {}
        for point in self._points:
            index = math.floor(point[0] / width)
            if point[0] >= now - self._window:
                found.setdefault(index, []).append(point)
        return [_joined(points, now) for points in found.values()]


def _joined(points: list[tuple[float, float, float]], now: float) -> Point:
    measured = [point for point in points if math.isfinite(point[1])]
    time = points[-1][0] - now
    if not measured:
        return round(time, 3), None, 0.0
    mean = sum(point[1] for point in measured) / len(measured)
    return round(time, 3), mean, max(point[2] for point in measured)


@dataclass(frozen=True)
class Pace:
    """Rate and latency of a node."""

    rate: float
    """Results per second."""
    latency: float
    """Median time from the stamp of an image to its result here, s; NaN without stamped results."""
    gap: float
    """Longest time between two results of the last seconds, s; NaN with less than two."""


class ResultLog:
    """The last result of a node, the curves of its values, and its pace."""

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        """values: fields to keep, each with the field of its standard deviation or an empty name.

        None: all that come.
        """
        self._values = dict(values or {})
        self._keeps_all = values is None
        self._arrivals: deque[tuple[float, float]] = deque()
        self.curves: dict[str, Curve] = {field: Curve() for field in self._values}
        self.last: dict[str, float] = {}
        """The last row, by field."""
        self.count = 0
        """Results since the start."""

    def add(self, now: float, row: Mapping[str, float], latency: float) -> None:
        """Add a result that was received at a time, s, so long after the stamp of its image."""
        self.count += 1
        self.last = dict(row)
        self._arrivals.append((now, latency))
        self._forget(now)
        valid = bool(row.get("valid", True))
        if self._keeps_all:
            self._keep(row)
        for field, sigma in self._values.items():
            value = float(row.get(field, math.nan)) if valid else math.nan
            self.curves[field].add(now, value, float(row.get(sigma, 0.0)) if sigma else 0.0)

    def _keep(self, fields: Iterable[str]) -> None:
        for field in fields:
            if field not in self.curves:
                self._values[field], self.curves[field] = "", Curve()

    def pace(self, now: float) -> Pace:
        """Return rate and latency over the last RATE_WINDOW seconds."""
        self._forget(now)
        times = [time for time, _ in self._arrivals]
        gaps = [later - sooner for sooner, later in pairwise(times)]
        latencies = [latency for _, latency in self._arrivals if math.isfinite(latency)]
        return Pace(
            # For a node that has just started, over the time since then.
            (len(times) - 1) / (times[-1] - times[0]) if len(times) > 1 and times[-1] > times[0] else 0.0,
            statistics.median(latencies) if latencies else math.nan,
            max(gaps, default=math.nan),
        )

    def _forget(self, now: float) -> None:
        while self._arrivals and self._arrivals[0][0] < now - RATE_WINDOW:
            self._arrivals.popleft()
