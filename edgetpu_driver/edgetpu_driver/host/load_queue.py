"""Models that wait to be loaded: one of each client in turn."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable

Work = Callable[[], None]
"""Loads one model."""


class LoadQueue:
    """Pieces of work of several clients. Not thread-safe.

    Those of a client are done in their order, and between two of them one of each other client that waits:
    whoever has many models loaded, or large ones, does not keep the others waiting for all of them.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, deque[Work]] = {}
        """By client; the next one is the first."""
        self._pending: Counter[str] = Counter()

    @property
    def pending(self) -> int:
        """Number of pieces that are not done yet, the present one included."""
        return self._pending.total()

    def pending_of(self, client: str) -> int:
        """Number of them that a client has."""
        return self._pending[client]

    def add(self, client: str, work: Work) -> None:
        """Append a piece of work."""
        self._waiting.setdefault(client, deque()).append(work)
        self._pending[client] += 1

    def take(self) -> tuple[str, Work]:
        """Take out the piece that is next, and its client, for whom `ended` has to be called afterwards."""
        client = next(iter(self._waiting))
        pieces = self._waiting.pop(client)
        work = pieces.popleft()
        if pieces:
            self._waiting[client] = pieces  # behind the others
        return client, work

    def remove(self, client: str, work: Work) -> None:
        """Take out a piece that will not be done."""
        pieces = self._waiting[client]
        pieces.remove(work)
        if not pieces:
            del self._waiting[client]
        self.ended(client)

    def ended(self, client: str) -> None:
        """Note that a piece of a client has been done."""
        self._pending[client] -= 1
        if not self._pending[client]:
            del self._pending[client]
