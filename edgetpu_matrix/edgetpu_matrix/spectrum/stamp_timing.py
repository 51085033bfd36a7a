"""The spacing of the stamps of a block of samples: even, with jitter, in bursts, or with gaps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MISSING = 0.5
"""Lateness in sample intervals above which samples are missing, unless later stamps make up for it."""

CATCH_UP = 4
"""Number of stamps, or bursts, within which lateness has to be made up for."""

SHORT = 0.25
"""Share of the usual interval: samples that follow each other faster were delivered together."""

LEAST_SHORT = 0.1
"""Least share of short intervals among all where stamps come in bursts."""

LEAST_BURSTS = 3
"""Number of complete bursts from which the size of a burst is known."""

INTERPOLATION_POINTS = 6
"""Number of samples from which a value between them is interpolated."""

LEAST_DISTANCE = 0.05
"""Least distance in intervals from the sample before, to be used for interpolation; less would add noise."""


@dataclass(frozen=True)
class StampTiming:
    """The spacing of consecutive stamps."""

    interval: float
    """Sample interval, s."""
    bursts: bool
    """Whether samples are delivered several at a time, so that stamps do not say when each was taken."""
    jitter: float
    """RMS deviation of the stamps from even spacing, in intervals."""
    grid: Floats
    """Evenly spaced times in s fitted to the stamps: [samples]."""
    first_after_gap: int
    """Index of the first sample after missing ones; 0 if none is missing."""


def stamp_timing(stamps: Floats, most_late: float = 0.0) -> StampTiming:
    """Analyse the stamps of a block, [samples] in s: at least two, not decreasing and not all equal.

    most_late: lateness in intervals that is tolerated, in addition to MISSING, before samples are missing.
    """
    intervals = np.diff(stamps)
    tails = _burst_tails(stamps, intervals)
    bursts = tails is not None
    if tails is None:
        tails = np.arange(len(stamps))
    periods = np.diff(stamps[tails]) / np.diff(tails)
    usual = float(np.median(np.repeat(periods, np.diff(tails))))
    gap = _first_after_gap(stamps, tails, usual, most_late)
    interval, start = _line(tails, stamps[tails], usual, robust=bursts)
    grid = start + interval * np.arange(len(stamps), dtype=np.float64)
    jitter = float(np.sqrt(np.mean(np.square(stamps - grid)))) / interval
    return StampTiming(interval, bursts, jitter, grid, gap)


def interpolate(samples: Floats, stamps: Floats, times: Floats) -> Floats:
    """Values at evenly spaced `times` in s of a signal sampled at `stamps` in s: [samples] each.

    Interpolates by polynomials through the neighbours: exact for a degree below INTERPOLATION_POINTS. Takes
    at least two samples, with stamps that do not decrease.
    """
    apart = np.diff(stamps) > LEAST_DISTANCE * (times[1] - times[0])
    distinct = np.concatenate(([True], apart))
    samples, stamps = samples[distinct], stamps[distinct]
    points = min(INTERPOLATION_POINTS, len(samples))
    first = np.clip(np.searchsorted(stamps, times) - points // 2, 0, len(samples) - points)
    chosen = first[:, None] + np.arange(points)
    nodes, values = stamps[chosen] - times[:, None], samples[chosen]
    result = np.zeros(len(times))
    for i in range(points):
        others = np.delete(nodes, i, axis=1)
        result += values[:, i] * np.prod(others / (others - nodes[:, i : i + 1]), axis=1)
    return result


def _burst_tails(stamps: Floats, intervals: Floats) -> NDArray[np.int64] | None:
    """Indices of the last sample of each burst but the unfinished one; None where there are no bursts."""
    short = intervals < SHORT * _usual_wait(intervals)
    tails = np.flatnonzero(~short)
    if short.mean() < LEAST_SHORT or len(tails) <= LEAST_BURSTS:
        return None
    sizes = np.diff(tails)
    periods = np.diff(stamps[tails]) / sizes
    usual = np.median(np.repeat(periods, sizes))
    spread = np.median(np.abs(periods - usual))
    regular = np.median(intervals[short]) < SHORT * usual and spread < SHORT * usual
    return tails if regular else None


def _usual_wait(intervals: Floats) -> float:
    """Median of the intervals, weighted by length, without one that is longer than all others together."""
    ordered = np.sort(intervals)
    if len(ordered) > 2 and ordered[-1] > ordered[:-1].sum():
        ordered = ordered[:-1]
    sums = np.cumsum(ordered)
    return float(ordered[np.searchsorted(sums, sums[-1] / 2)])


def _first_after_gap(stamps: Floats, tails: NDArray[np.int64], usual: float, most_late: float) -> int:
    lateness = stamps[tails] - usual * tails
    steps = np.diff(lateness)
    scatter = 1.4826 * float(np.median(np.abs(steps - np.median(steps))))
    limit = (MISSING + most_late) * usual + 3 * scatter
    for late in np.flatnonzero(steps > limit):
        before = lateness[max(late - CATCH_UP + 1, 0) : late + 1].min()
        after = lateness[late + 1 : late + 1 + CATCH_UP].min()
        if after - before > limit:
            return int(tails[late]) + 1
    first = int(tails[-1]) + 1  # of the burst that may continue in the next block
    if first < len(stamps) and stamps[first] - stamps[first - 1] > usual * np.diff(tails).max() + limit:
        return first
    return 0


def _line(numbers: NDArray[np.int64], times: Floats, usual: float, robust: bool) -> tuple[float, float]:
    """Slope and value at 0 of the line through times: least squares, or if robust the median of slopes."""
    centre = numbers.mean()
    if robust:
        first, second = np.triu_indices(len(numbers), max(len(numbers) // 2, 1))
        slope = float(np.median((times[second] - times[first]) / (numbers[second] - numbers[first])))
        return slope, float(np.median(times - slope * numbers))
    # Relative to the usual spacing, so that large times cost no precision.
    offsets = times - times[0] - usual * numbers
    deviations = numbers - centre
    slope = usual + float(deviations @ offsets / (deviations @ deviations))
    return slope, float(times[0] + (offsets - (slope - usual) * numbers).mean())
