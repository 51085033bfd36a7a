"""Copies of one model file that were compiled together, so that their parameters can be resident together."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from threading import Lock

from edgetpu_driver.compiled_model import CompiledModel

FindCopy = Callable[[int], CompiledModel | None]
"""Returns the copy with a given number, counted from 1; None if there is none."""


class ModelCopies:
    """The copies of one model file and which of them are in use. May be used from any thread.

    Copy 0 is the model itself. Each copy has its own SRAM region; engines that share a copy displace each
    other's parameters.
    """

    def __init__(self) -> None:
        self._found: dict[int, CompiledModel] = {}
        self._used: set[int] = set()
        self._users = 0
        self._lock = Lock()

    def take(self, model: CompiledModel, find: FindCopy) -> tuple[CompiledModel, Callable[[], bool]]:
        """The first copy not in use, or the model itself if there is none, and a function to release it.

        Call the function once; it returns whether no engine uses the model any more.
        """
        with self._lock:
            number = next(n for n in count() if n not in self._used)
            copy = self._found.get(number) or (find(number) if number else model)
            self._users += 1
            if copy is None:
                return model, self._release
            if number:
                self._found[number] = copy
            self._used.add(number)
        return copy, partial(self._release, number)

    def found(self) -> tuple[CompiledModel, ...]:
        """The copies that were found so far, without the model itself."""
        with self._lock:
            return tuple(self._found.values())

    def _release(self, number: int | None = None) -> bool:
        with self._lock:
            self._users -= 1
            if number is not None:
                self._used.discard(number)
            return not self._users
