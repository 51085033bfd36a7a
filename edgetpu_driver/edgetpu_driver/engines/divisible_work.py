"""Long work on an engine in pieces, between which the engine's owner can do other work."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeAlias, TypeVar

_Result = TypeVar("_Result")

Calculation: TypeAlias = Callable[[], Any]
"""Arithmetic without an engine, for any thread."""

Pieces: TypeAlias = Generator[Calculation | None, Any, _Result]
"""Work on engines as a generator.

It yields None after each piece on an engine. Where it needs a calculation that takes longer than a piece, it
yields that, and expects the result to be sent, or the exception to be thrown, into it.
"""


def run_pieces(pieces: Pieces[_Result]) -> _Result:
    """Do all of the work, calculations included, in this thread."""
    value: Any = None
    while True:
        try:
            calculation = pieces.send(value)
        except StopIteration as finished:
            result: _Result = finished.value
            return result
        value = None if calculation is None else calculation()
