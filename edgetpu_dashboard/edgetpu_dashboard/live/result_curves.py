"""Results over the last minute, with the rate, latency and longest gap of a node."""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

WINDOW = 60.0
"""Length of a curve, s."""
MOST_POINTS = 300
"""Largest number of points of a curve on the page, about one per pixel of its width."""
RATE_WINDOW = 5.0
"""Time over which rate and latency are measured, s."""


@dataclass(frozen=True)
class Point:
    """One of the equal parts of a curve: the mean of its values and their largest standard deviation."""

    number: int
    """Number of the part, so that a point that has changed replaces the earlier one."""
    time: float
    """Time of its last value, s, rounded to 1 ms."""
    value: float | None
    """None where nothing was measured."""
    sigma: float


@dataclass(slots=True)
class _Part:
    """The values of one part of a curve."""

    number: int
    time: float = 0.0
    total: float = 0.0
    measured: int = 0
    sigma: float = 0.0
    changed: int = 0
    """`Curve.count` when the last value was added to this part."""

    def add(self, now: float, value: float, sigma: float) -> None:
        self.time = now
        if math.isfinite(value):
            self.total += value
            self.measured += 1
            self.sigma = max(self.sigma, sigma if math.isfinite(sigma) else 0.0)

    def point(self) -> Point:
        value = self.total / self.measured if self.measured else None
        return Point(self.number, round(self.time, 3), value, self.sigma)


class Curve:
    """One number of a result over the last minute, with its standard deviation."""

    def __init__(self, window: float = WINDOW, most: int = MOST_POINTS) -> None:
        """window: s. most: number of points that the window is divided into."""
        self._window, self._width = window, window / most
        self._parts: deque[_Part] = deque()
        self.count = 0
        """Number of values since the start."""

    def add(self, now: float, value: float, sigma: float = 0.0) -> None:
        """Add a value that was received at a time, s; NaN: nothing was measured."""
        number = math.floor(now / self._width)
        if not self._parts or self._parts[-1].number != number:
            self._parts.append(_Part(number))
        self.count += 1
        self._parts[-1].add(now, value, sigma)
        self._parts[-1].changed = self.count
        while self._parts[0].time < now - self._window:
            self._parts.popleft()

    def points(self, now: float, after: int = 0) -> list[Point]:
        """Return the points of the window before a time, s, the oldest first; a gap stays a gap.

        after: return only points that have changed since `count` had this value.
        """
        begin = now - self._window
        return [part.point() for part in self._parts if part.changed > after and part.time >= begin]


@dataclass(frozen=True)
class Pace:
    """Rate and latency of a node."""

    rate: float
    """Results per second."""
    latency: float
    """Median time from the stamp of an image to its result here, s; NaN without stamped results."""
    gap: float
    """Longest time between two results of the last seconds, s; NaN with less than two."""


class ResultCurves:
    """The last result of a node, the curves of its values, and its pace."""

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        """values: fields to keep, each with the field of its standard deviation or an empty name.

        None: all fields that are received.
        """
        self._values = dict(values or {})
        self._keeps_all = values is None
        self._arrivals: deque[tuple[float, float]] = deque()
        self.by_field: dict[str, Curve] = {field: Curve() for field in self._values}
        self.last: dict[str, float] = {}
        """The last row, by field."""
        self.count = 0
        """Number of results since the start."""

    def add(self, now: float, row: Mapping[str, float], latency: float) -> None:
        """Add a result that was received at a time, s. latency: time since the stamp of its image, s."""
        self.count += 1
        self.last = dict(row)
        self._arrivals.append((now, latency))
        self._forget(now)
        valid = bool(row.get("valid", True))
        if self._keeps_all:
            self._keep(row)
        for field, sigma in self._values.items():
            value = float(row.get(field, math.nan)) if valid else math.nan
            self.by_field[field].add(now, value, float(row.get(sigma, 0.0)) if sigma else 0.0)

    def _keep(self, fields: Iterable[str]) -> None:
        for field in fields:
            if field not in self.by_field:
                self._values[field], self.by_field[field] = "", Curve()

    def pace(self, now: float) -> Pace:
        """Return rate and latency over the last RATE_WINDOW seconds."""
        self._forget(now)
        begin = now - RATE_WINDOW
        times = [time for time, _ in self._arrivals]
        if not times or times[-1] < begin:
            return Pace(0.0, math.nan, math.nan)
        gaps = [later - sooner for sooner, later in pairwise(times)]
        latencies = [each for time, each in self._arrivals if time >= begin and math.isfinite(each)]
        return Pace(
            # For a node that has just started, over the time since then.
            (len(times) - 1) / (times[-1] - times[0]) if times[-1] > times[0] else 0.0,
            statistics.median(latencies) if latencies else math.nan,
            max(gaps, default=math.nan),
        )

    def _forget(self, now: float) -> None:
        """Keep the results of the window and the last one before it, so that a stall lowers the rate.

        If that last one is much older, the node has been started again, and it is dropped as well.
        """
        while len(self._arrivals) > 1 and self._arrivals[1][0] < now - RATE_WINDOW:
            self._arrivals.popleft()
        if self._arrivals and self._arrivals[0][0] < now - 2.0 * RATE_WINDOW:
            self._arrivals.popleft()
