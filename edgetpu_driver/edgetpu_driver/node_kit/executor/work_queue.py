"""A bounded queue of work items that are processed one at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class WorkQueue(Generic[T]):
    """Work items in order of arrival, processed one at a time; if too many wait, the oldest is dropped.

    `start` begins an item and returns whether it could; an item that could not be started stays first in the
    queue until `resume`. `finished` must be called when the item is done, in a callback or before `start`
    returns; an item whose `start` raises is done. `dropped_one` is called with each dropped item. All calls
    come from one thread.
    """

    def __init__(
        self, start: Callable[[T], bool], limit: int, dropped_one: Callable[[T], None] | None = None
    ) -> None:
        self._start, self._limit, self._dropped_one = start, limit, dropped_one
        self._waiting: deque[T] = deque()
        self.present: T | None = None
        """The item being processed."""
        self._repeated: T | None = None
        """The last item that was started a second time."""
        self._running = False
        self.dropped = 0
        """Number of dropped items."""

    def __len__(self) -> int:
        return len(self._waiting)

    def offer(self, work: T) -> None:
        """Add an item, and start it if none is being processed."""
        self._waiting.append(work)
        self.resume()
        while len(self._waiting) > self._limit:
            oldest = self._waiting.popleft()
            self.dropped += 1
            if self._dropped_one is not None:
                self._dropped_one(oldest)

    def finished(self) -> None:
        """Mark the present item as done, and start the next one."""
        self.present = self._repeated = None
        self.resume()

    def put_back(self) -> None:
        """Return the present item to the front of the queue, to be started again."""
        if self.present is not None:
            self._waiting.appendleft(self.present)
            self.present = None

    def repeat(self) -> bool:
        """Start the present item again, at most once; return whether that was done."""
        if self.present is None or self.present is self._repeated:
            return False
        self._repeated = self.present
        self.put_back()
        self.resume()
        return True

    def resume(self) -> None:
        """Start the next item, for example because the driver is available again."""
        if self._running:
            return  # called within `start`: the loop below continues
        self._running = True
        try:
            while self.present is None and self._waiting:
                self.present = self._waiting.popleft()
                try:
                    begun = self._start(self.present)
                except BaseException:
                    self.present = None
                    raise
                if not begun:
                    self.put_back()
                    break
        finally:
            self._running = False
