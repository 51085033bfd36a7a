"""Faults by script: which transfer of a virtual stick fails, and how."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class Fault(Enum):
    """What happens instead of the transfer."""

    TIMEOUT = auto()
    """Nothing moves until the time is up."""
    STALL = auto()
    """The endpoint refuses the transfer."""
    SHORT_READ = auto()
    """Half of the bytes are lost on their way to the host."""
    UNPLUG = auto()
    """The stick leaves the bus and stays away until it is plugged in again."""


class Transfer(Enum):
    """The transfers a fault can strike."""

    CONTROL = auto()
    BULK_OUT = auto()
    OUTPUT = auto()
    """Bulk in from the activations endpoint."""
    EVENT = auto()


@dataclass
class _Entry:
    fault: Fault
    on: Transfer
    after: int
    times: int


class FaultScript:
    """Faults waiting for their transfer."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []

    def add(self, fault: Fault, on: Transfer, after: int = 0, times: int = 1) -> None:
        """Let `after` transfers of that kind pass, then strike the next `times` ones."""
        if fault is Fault.SHORT_READ and on not in (Transfer.OUTPUT, Transfer.EVENT):
            raise ValueError(f"a short read strikes OUTPUT or EVENT transfers, not {on.name}")
        self._entries.append(_Entry(fault, on, after, times))

    def strike(self, transfer: Transfer) -> Fault | None:
        """The fault that strikes this transfer, if any."""
        due = None
        for entry in self._entries:
            if entry.on is not transfer:
                continue
            if entry.after:
                entry.after -= 1
            elif due is None:
                due = entry
        if due is None:
            return None
        due.times -= 1
        if not due.times:
            self._entries.remove(due)
        return due.fault
