"""Feeds one target with mutated inputs and watches exceptions, time and memory."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import HealthCheck, Phase, given, seed, settings

from edgetpu_driver.errors import ModelFormatError, ModelUnsupportedError
from fuzz.mutations import Mutant, mutants
from fuzz.targets import Target

SECONDS = 2.0
"""The longest an input may take, on a busy machine and with memory tracing; a millisecond is usual."""
MEMORY_FLOOR = 2 << 20
"""Bytes of memory that any input may take beside the multiple of its size."""


class FuzzError(AssertionError):
    """An input took too long or too much memory."""


@dataclass
class Tally:
    """What happened so far."""

    inputs: int = 0
    refused: int = 0
    slowest: float = 0.0
    """Seconds."""
    largest: float = 0.0
    """Peak memory over the size of the input, among inputs of 4 KiB and more."""


def fuzz(target: Target, inputs: int, number: int, tally: Tally, advance: Callable[[], None]) -> None:
    """Run a target on that many inputs drawn from a seed.

    Raises what the target raises and should not, for the smallest input found that makes it do so; Hypothesis
    adds the input to the exception's notes.
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
        check(target, mutant.data(), tally)
        advance()

    one()


def check(target: Target, data: bytes, tally: Tally) -> None:
    """One input."""
    tally.inputs += 1
    tracemalloc.start()
    begin = time.perf_counter()
    try:
        target.parse(data)
    except (ModelFormatError, ModelUnsupportedError):
        tally.refused += 1
    finally:
        seconds = time.perf_counter() - begin
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    tally.slowest = max(tally.slowest, seconds)
    if len(data) >= 4096:
        tally.largest = max(tally.largest, peak / len(data))
    if seconds > SECONDS:
        raise FuzzError(f"{target.name} took {seconds:.2f} s for {len(data)} bytes; expected {SECONDS} s")
    if peak > MEMORY_FLOOR + target.memory_ratio * len(data):
        raise FuzzError(
            f"{target.name} took {peak} bytes of memory for an input of {len(data)} bytes; expected "
            f"{target.memory_ratio} times its size at most"
        )
