"""Counts the messages of a topic that were lost on the way, by their sequence numbers."""

from __future__ import annotations

from collections import deque
from typing import Any

_MOST_PUBLISHERS = 4
"""Publishers on one topic whose messages are counted separately. Uncritical: more than one is a mistake."""


class SequenceGaps:
    """Counts messages that publishers sent and that did not arrive, by gaps in their sequence numbers.

    Each publisher on a topic numbers its messages separately, and rclpy does not say who sent a message. A
    number is assigned to the sequence with the nearest lower number.
    """

    def __init__(self) -> None:
        self._last: deque[int] = deque(maxlen=_MOST_PUBLISHERS)
        """The last number of each sequence; that of the newest message is at the end."""
        self._lost = 0

    def add(self, info: Any) -> None:
        """Note the middleware's information on the next message, which may lack the number."""
        number = info.get("publication_sequence_number") or 0
        if not number:
            return
        before = max((last for last in self._last if last < number), default=0)
        if before:
            self._lost += number - before - 1
            self._last.remove(before)
        self._last.append(number)

    def take(self) -> int:
        """Return the number of messages lost since the last call."""
        lost, self._lost = self._lost, 0
        return lost
