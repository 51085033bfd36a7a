"""Numbers on a command line: parsers for argparse, all with messages of one form."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

MAX_DIGITS = 9
"""Most digits of a count: no count here needs more, and int() refuses thousands of digits."""

SEEDS = 2**63
"""Seeds are below this. Seeds drawn at random have 32 bits, and a run counts up from its seed."""


def whole(text: str) -> int:
    """Read a whole number, 0 or more."""
    return _whole(text, 0, 10**MAX_DIGITS, "a whole number, 0 or more")


def positive(text: str) -> int:
    """Read a positive whole number."""
    return _whole(text, 1, 10**MAX_DIGITS, "a positive whole number")


def seed(text: str) -> int:
    """Read the seed of a generator of random numbers."""
    return _whole(text, 0, SEEDS, "a seed, a whole number below 2^63")


def number(text: str, accepts: Callable[[float], bool], expected: str) -> float:
    """Read a finite number for which `accepts` is true; `expected` describes it in the error message."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and accepts(value)):
        raise _unexpected(expected, text)
    return value


def _whole(text: str, least: int, end: int, expected: str) -> int:
    if not text.isdecimal() or len(text) > len(str(end)) or not least <= int(text) < end:
        raise _unexpected(expected, text)
    return int(text)


def _unexpected(expected: str, text: str) -> argparse.ArgumentTypeError:
    return argparse.ArgumentTypeError(f"expected {expected}; got {text[:40]!r}")
