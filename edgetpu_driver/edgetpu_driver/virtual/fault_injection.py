"""Fault injection: which transfers of a virtual stick fail, and how."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

SLOW_SECONDS = 1.5
"""Simulated seconds until a slow stick re-enumerates, half of what the driver waits after a fault."""


class Fault(Enum):
    """The effect of a fault on a transfer."""

    TIMEOUT = auto()
    """No data until the timeout."""
    STALL = auto()
    """The endpoint refuses the transfer."""
    SHORT_PACKET = auto()
    """Half of the bytes are lost."""
    EXTRA_BYTES = auto()
    """Eight extra bytes from the chip; in a control transfer, more than requested."""
    WRONG_EVENT = auto()
    """The event names interrupt 3."""
    BIT_ERROR = auto()
    """One bit of the control transfer's data flips."""
    THERMAL_WARNING = auto()
    """The transfer succeeds; the chip raises its thermal warning."""
    CHIP_FAULT = auto()
    """The chip stops and sets its error registers."""
    UNPLUG = auto()
    """The stick leaves the bus until it is plugged in again."""
    REPLUG = auto()
    """The stick loses power and returns at once, with its firmware."""
    REPLUG_IN_BOOT_MODE = auto()
    """The stick loses power and returns at once, in boot mode."""
    SLOW_REENUMERATION = auto()
    """The stick loses power and returns with its firmware after SLOW_SECONDS."""


class Transfer(Enum):
    """Kinds of transfers that faults apply to."""

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
    """Whether the fault applies to that kind of transfer."""
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
        """Whether any fault is pending."""
        return bool(self._entries)

    def add(self, fault: Fault, on: Transfer, after: int = 0, times: int = 1) -> None:
        """Inject a fault into the next `times` transfers of that kind, after `after` successful ones.

        ValueError if the fault does not apply to that kind of transfer.
        """
        if not can_strike(fault, on):
            raise ValueError(f"{fault.name} cannot occur in {on.name} transfers")
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
    """The data with one bit flipped; the seed selects the bit."""
    if not data:
        return data
    position = 13 * seed % (8 * len(data))
    changed = bytearray(data)
    changed[position // 8] ^= 1 << position % 8
    return bytes(changed)
