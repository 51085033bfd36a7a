"""Stamps of results that have been seen: a second result for a stamp is wrong."""

from __future__ import annotations

from collections import OrderedDict


class SeenStamps:
    """Tells whether a stamp has been seen before, of the last few thousand."""

    def __init__(self, remembered: int = 2000) -> None:
        self._remembered = remembered
        self._seen: OrderedDict[int, None] = OrderedDict()

    def is_new(self, stamp_ns: int) -> bool:
        """Remember the stamp; false if it was seen before."""
        if stamp_ns in self._seen:
            return False
        self._seen[stamp_ns] = None
        if len(self._seen) > self._remembered:
            self._seen.popitem(last=False)
        return True
