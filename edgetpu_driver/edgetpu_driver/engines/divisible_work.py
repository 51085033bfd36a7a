"""Long work on an engine, divided into pieces so that the engine's owner can do other work between them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeAlias, TypeVar

_Result = TypeVar("_Result")

Calculation: TypeAlias = Callable[[], Any]
"""A calculation without an engine, for any thread."""

Pieces: TypeAlias = Generator[Calculation | None, Any, _Result]
"""Work on engines as a generator.

It yields None after each piece on an engine. For a calculation that takes longer than a piece, it yields the
calculation and expects its result to be sent, or its exception thrown, into the generator.
"""


def outcome_of(calculation: Calculation) -> Any:
    """The result of a calculation, or the exception that it raises."""
    try:
        return calculation()
    except Exception as error:
        return error


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
