"""Comparing results in which NaN stands for what is unknown."""

from __future__ import annotations


def same(first: object, second: object) -> bool:
    """Whether two dataclasses, or lists of them, have the same numbers, NaN being the same as NaN.

    Since Python 3.13 `==` says so of no two results with NaN.
    """
    return repr(first) == repr(second)
