"""Faults by script: which transfer of a virtual stick fails, and how."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

SLOW_SECONDS = 1.5
"""How long a slow stick takes to come back; a healthy one is back at once."""


class Fault(Enum):
    """What happens instead of the transfer, or to it."""

    TIMEOUT = auto()
    """Nothing moves until the time is up."""
    STALL = auto()
    """The endpoint refuses the transfer."""
    SHORT_PACKET = auto()
    """Half of the bytes are lost on their way."""
    EXTRA_BYTES = auto()
    """Eight bytes more than the chip was to send; of a control transfer, more than was asked for."""
    WRONG_EVENT = auto()
    """The event names interrupt 3."""
    BIT_ERROR = auto()
    """One bit of the control transfer's data changes on the way."""
    THERMAL_WARNING = auto()
    """The transfer passes; the chip warns that it is hot."""
    CHIP_FAULT = auto()
    """The chip stops, with its error registers set."""
    UNPLUG = auto()
    """The stick leaves the bus and stays away until it is plugged in again."""
    REPLUG = auto()
    """The stick loses power and is back at once, with its firmware."""
    REPLUG_IN_BOOT_MODE = auto()
    """The same, waiting for its firmware."""
    SLOW_REENUMERATION = auto()
    """The same, with its firmware, but after SLOW_SECONDS."""


class Transfer(Enum):
    """The transfers a fault can strike."""

    CONTROL = auto()
    BULK_OUT = auto()
    OUTPUT = auto()
    """Bulk in from the activations endpoint."""
    EVENT = auto()
    RESET = auto()
    """A reset of the port."""


_STRIKES_ONLY = {
    Fault.SHORT_PACKET: (Transfer.CONTROL, Transfer.BULK_OUT, Transfer.OUTPUT, Transfer.EVENT),
    Fault.EXTRA_BYTES: (Transfer.CONTROL, Transfer.OUTPUT, Transfer.EVENT),
    Fault.WRONG_EVENT: (Transfer.EVENT,),
    Fault.BIT_ERROR: (Transfer.CONTROL,),
}


def can_strike(fault: Fault, transfer: Transfer) -> bool:
    """Whether the fault can happen to such a transfer."""
    return transfer in _STRIKES_ONLY.get(fault, tuple(Transfer))


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

    @property
    def waiting(self) -> bool:
        """Whether a fault is still to strike."""
        return bool(self._entries)

    def add(self, fault: Fault, on: Transfer, after: int = 0, times: int = 1) -> None:
        """Let `after` transfers of that kind pass, then strike the next `times` ones.

        ValueError where the fault cannot happen to such a transfer.
        """
        if not can_strike(fault, on):
            raise ValueError(f"{fault.name} cannot strike {on.name} transfers")
        self._entries.append(_Entry(fault, on, after, times))

    def strike(self, transfer: Transfer) -> Fault | None:
        """The fault that strikes this transfer, if any."""
        if not self._entries:
            return None
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


def flip_bit(data: bytes, seed: int) -> bytes:
    """The data with one bit changed, another one for every seed."""
    if not data:
        return data
    position = 13 * seed % (8 * len(data))
    changed = bytearray(data)
    changed[position // 8] ^= 1 << position % 8
    return bytes(changed)
