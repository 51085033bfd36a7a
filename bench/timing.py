"""Ratios of the time of some work to the time of its baseline, measured in turns on a busy machine."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from bench.instructions import instructions_of_call
from measured_figures.row import Row

Work = Callable[[], object]
Clock = Callable[[], float]

PAIRS = 21
_SECONDS_PER_TURN = 0.02


@dataclass(frozen=True)
class Comparison:
    """Times of some work and its baseline, measured in turns."""

    ratio: float
    """The median of the ratios of all pairs."""
    baseline_us: float
    """The median processor time of the baseline, us."""
    instructions: float | None
    """Millions of instructions per call of the work; None where perf cannot count them."""

    def row(self, area: str, case: str, baseline: str, reach: float | None) -> Row:
        """A row with the ratio. `baseline`: what the baseline is; `reach`: the largest ratio wanted."""
        return Row(
            area,
            case,
            f"time / {baseline}",
            self.ratio,
            "x",
            reach,
            "lower",
            baseline=self.baseline_us,
            baseline_unit="us",
            instructions=self.instructions,
        )


def compare(work: Work, baseline: Work, clock: Clock = time.process_time) -> Comparison:
    """Measure both in pairs of turns in alternating order; a turn has as many calls as take 20 ms.

    The default clock counts processor time, so that other processes do not count; their effects on caches and
    clock rates are the same for both.
    """
    works = work, baseline
    calls = [_calls(each, clock) for each in works]
    pairs = []
    for pair in range(PAIRS):
        times = [0.0, 0.0]
        for index in (0, 1) if pair % 2 else (1, 0):
            times[index] = _seconds_per_call(works[index], calls[index], clock)
        pairs.append(times)
    return Comparison(
        statistics.median(mine / its for mine, its in pairs),
        1e6 * statistics.median(its for _, its in pairs),
        instructions_of_call(work, calls[0]),
    )


def processor_seconds(work: Work) -> float:
    """Processor time of a call, s: the median over several turns."""
    calls = _calls(work, time.process_time)
    return statistics.median(_seconds_per_call(work, calls, time.process_time) for _ in range(PAIRS))


def _calls(work: Work, clock: Clock) -> int:
    work()  # fills caches
    once = max(_seconds_per_call(work, 1, clock), 1e-7)
    return max(1, int(_SECONDS_PER_TURN / once))


def _seconds_per_call(work: Work, calls: int, clock: Clock) -> float:
    begin = clock()
    for _ in range(calls):
        work()
    return (clock() - begin) / calls
