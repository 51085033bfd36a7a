"""The duty of a stick's thread: what it does besides requests and commands."""

from __future__ import annotations

from enum import Enum, auto


class Duty(Enum):
    """What the thread does with its device."""

    SERVE = auto()
    """Its upkeep, if the device is to be kept open."""
    STAY_CLOSED = auto()
    """Leave the device closed, which gave a wrong result, until it is opened or reset on request."""
    END = auto()
    """End, as the device has been closed."""

    def without(self, ended: Duty) -> Duty:
        """SERVE if this duty is `ended`, otherwise this duty."""
        return Duty.SERVE if self is ended else self
