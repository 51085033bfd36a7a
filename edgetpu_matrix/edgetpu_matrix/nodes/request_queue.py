"""Work that is done one piece after the other, each begun when the one before has been answered."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class WorkQueue(Generic[T]):
    """Pieces of work in the order in which they came; when too many wait the oldest gives way.

    `start` begins a piece and says whether it could; one that could not stays first in the queue until
    `resume`. When the work is done `finished` must be called, by a callback or before `start` returns.
    `dropped_one` is called with a piece that gave way. All calls come from one thread.
    """

    def __init__(
        self, start: Callable[[T], bool], limit: int, dropped_one: Callable[[T], None] | None = None
    ) -> None:
        self._start, self._limit, self._dropped_one = start, limit, dropped_one
        self._waiting: deque[T] = deque()
        self.present: T | None = None
        """The piece that is being worked on."""
        self._running = False
        self.dropped = 0
        """Pieces that gave way."""

    def __len__(self) -> int:
        return len(self._waiting)

    def offer(self, work: T) -> None:
        """Do this when all that came before it is done."""
        self._waiting.append(work)
        self.resume()
        while len(self._waiting) > self._limit:
            oldest = self._waiting.popleft()
            self.dropped += 1
            if self._dropped_one is not None:
                self._dropped_one(oldest)

    def finished(self) -> None:
        """Say that the present piece is done."""
        self.present = None
        self.resume()

    def put_back(self) -> None:
        """Say that the work on the present piece came to nothing; it is first again."""
        if self.present is not None:
            self._waiting.appendleft(self.present)
            self.present = None

    def resume(self) -> None:
        """Begin the next piece, for example because the driver is back."""
        if self._running:
            return  # called from within `start`: the loop below goes on
        self._running = True
        try:
            while self.present is None and self._waiting:
                self.present = self._waiting.popleft()
                if not self._start(self.present):
                    self.put_back()
                    break
        finally:
            self._running = False
