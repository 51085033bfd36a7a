"""Feeds mutated inputs to a target and monitors exceptions, time and memory."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import HealthCheck, Phase, given, seed, settings

from fuzz.mutations import Mutant, mutants
from fuzz.targets import Target

MEMORY_FLOOR = 2 << 20
"""Memory allowed per input in addition to the multiple of its size, bytes."""


class FuzzError(AssertionError):
    """An input exceeded the time or memory limit."""


@dataclass
class Totals:
    """Running totals of the inputs of a target."""

    inputs: int = 0
    refused: int = 0
    slowest: float = 0.0
    """Longest time of an input, s."""
    largest: float = 0.0
    """Largest ratio of peak memory to the size of the input, among inputs of 4 KiB and more."""


def fuzz(target: Target, inputs: int, number: int, totals: Totals, advance: Callable[[], None]) -> None:
    """Run a target on a number of inputs generated from a seed.

    Raises the target's unexpected exception for the smallest input found that causes it; Hypothesis adds the
    input to the exception's notes.
    """

    @seed(number)
    @settings(
        max_examples=inputs,
        deadline=None,
        report_multiple_bugs=False,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(mutants(target.samples))
    def one(mutant: Mutant) -> None:
        check(target, mutant.data(), totals)
        advance()

    one()


def check(target: Target, data: bytes, totals: Totals) -> None:
    """Run a target on one input; raises FuzzError beyond a limit, and the target's unexpected exceptions."""
    totals.inputs += 1
    tracemalloc.start()
    begin = time.process_time()
    try:
        target.parse(data)
    except target.refusals:
        totals.refused += 1
    finally:
        seconds = time.process_time() - begin
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    totals.slowest = max(totals.slowest, seconds)
    if len(data) >= 4096:
        totals.largest = max(totals.largest, peak / len(data))
    if seconds > target.seconds:
        raise FuzzError(
            f"{target.name} took {seconds:.2f} s for {len(data)} bytes; expected at most {target.seconds} s"
        )
    if peak > MEMORY_FLOOR + target.memory_ratio * len(data):
        raise FuzzError(
            f"{target.name} took {peak} bytes of memory for an input of {len(data)} bytes; expected "
            f"at most {target.memory_ratio} times its size"
        )
