"""The queue of models to load, in which clients take turns."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable

Work = Callable[[], None]
"""Loads one model."""


class LoadQueue:
    """Models of several clients that wait to be loaded. Not thread-safe.

    The models of a client are loaded in their order. Between two of them, one model of each other waiting
    client is loaded, so that a client with many models does not hold up the others.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, deque[Work]] = {}
        """The waiting models by client; the client whose turn is next comes first."""
        self._pending: Counter[str] = Counter()

    @property
    def pending(self) -> int:
        """Number of models that are not loaded yet, including the one being loaded."""
        return self._pending.total()

    def pending_of(self, client: str) -> int:
        """Number of a client's models that are not loaded yet."""
        return self._pending[client]

    def add(self, client: str, work: Work) -> None:
        """Append a model of a client."""
        self._waiting.setdefault(client, deque()).append(work)
        self._pending[client] += 1

    def take(self) -> tuple[str, Work]:
        """Remove the next model; returns its client and the work, after which `ended` must be called."""
        client = next(iter(self._waiting))
        pieces = self._waiting.pop(client)
        work = pieces.popleft()
        if pieces:
            self._waiting[client] = pieces  # behind the others
        return client, work

    def remove(self, client: str, work: Work) -> bool:
        """Remove a model that will not be loaded; False if it no longer waits."""
        pieces = self._waiting.get(client, deque())
        if work not in pieces:
            return False
        pieces.remove(work)
        if not pieces:
            del self._waiting[client]
        self.ended(client)
        return True

    def ended(self, client: str) -> None:
        """Note that the loading of a client's model has ended."""
        self._pending[client] -= 1
        if not self._pending[client]:
            del self._pending[client]
