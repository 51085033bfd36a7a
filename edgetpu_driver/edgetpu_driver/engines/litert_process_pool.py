"""Limits how many processes run graphs at a time: the longest idle one ends before another one starts."""

from __future__ import annotations

import weakref
from typing import Protocol

from edgetpu_driver.engines.process_lock import ProcessLock

MOST_PROCESSES = 16
"""Maximum number of processes, which take about 20 MB each; more may run only while none is idle."""


class ProcessOwner(Protocol):
    """An object that starts and ends one process."""

    last_used: float
    """Time of its last request, s."""

    @property
    def pid(self) -> int:
        """The id of its process; 0 if there is none."""
        ...

    def end_if_idle(self) -> None:
        """End its process unless the process works on a request."""
        ...


_owners: weakref.WeakSet[ProcessOwner] = weakref.WeakSet()
_lock = ProcessLock()


def make_room(owner: ProcessOwner) -> None:
    """Make room for the process of an owner: end the longest idle ones if there are MOST_PROCESSES."""
    with _lock:
        others = sorted((each for each in _owners if each.pid), key=lambda each: each.last_used)
        for other in others[: max(len(others) + 1 - MOST_PROCESSES, 0)]:
            other.end_if_idle()
        _owners.add(owner)
