"""Stamps of received results: a second result for the same stamp is wrong."""

from __future__ import annotations

from collections import OrderedDict


class SeenStamps:
    """Checks whether a stamp is among the last few thousand received."""

    def __init__(self, remembered: int = 2000) -> None:
        self._remembered = remembered
        self._seen: OrderedDict[int, None] = OrderedDict()

    def is_new(self, stamp_ns: int) -> bool:
        """Record the stamp and return whether it is new."""
        if stamp_ns in self._seen:
            return False
        self._seen[stamp_ns] = None
        if len(self._seen) > self._remembered:
            self._seen.popitem(last=False)
        return True
