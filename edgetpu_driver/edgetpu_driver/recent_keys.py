"""What was seen before, without a list that grows for as long as the process runs."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

_Key = TypeVar("_Key", bound=Hashable)


class RecentKeys(Generic[_Key]):
    """The last keys that were added, so many at most; the oldest is forgotten first. Not thread-safe."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._keys: dict[_Key, None] = {}
        """In the order in which they were added."""

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[_Key]:
        return iter(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def add(self, key: _Key) -> bool:
        """Add a key as the newest; returns whether it was not among those kept."""
        is_new = key not in self._keys
        self._keys.pop(key, None)
        self._keys[key] = None
        if len(self._keys) > self._most:
            del self._keys[next(iter(self._keys))]
        return is_new
