"""How long a function takes, so that two of them can be compared on a machine that does other things too."""

from __future__ import annotations

import time
from collections.abc import Callable

_SECONDS = 0.6
_ROUNDS = 30


def milliseconds(*functions: Callable[[], object]) -> list[float]:
    """The best time of one call of each function, measured in turns.

    Each turn calls a function as often as takes a few milliseconds and counts the mean; the best of the turns
    is what the machine can do when it is left alone.
    """
    calls = [_calls(function) for function in functions]
    best = [float("inf")] * len(functions)
    for _ in range(_ROUNDS):
        for index, function in enumerate(functions):
            best[index] = min(best[index], _mean(function, calls[index]))
    return [1e3 * seconds for seconds in best]


def _calls(function: Callable[[], object]) -> int:
    function()
    once = max(_mean(function, 1), 1e-7)
    return max(1, int(_SECONDS / _ROUNDS / once))


def _mean(function: Callable[[], object], calls: int) -> float:
    begin = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - begin) / calls
