"""Where a virtual stick is plugged in: whether it is there, as which enumeration, and who has claimed it."""

from __future__ import annotations

import errno
from typing import Any

from usb.core import USBError


class Handle:
    """A stick as enumerated once, or that opened; a new enumeration makes it stale."""

    def __init__(self, stick: Any, enumeration: int) -> None:
        self.stick = stick
        self.enumeration = enumeration


class Port:
    """Raises the errors that libusb gives: ENODEV without the stick, EBUSY while another has it."""

    def __init__(self, bus: int, ports: tuple[int, ...]) -> None:
        self.bus = bus
        self.ports = ports
        self.enumeration = 1
        self._there_since: float | None = 0.0
        self._claimed_by: Handle | None = None

    @property
    def address(self) -> int:
        """On the bus; another one after every enumeration."""
        return 1 + self.enumeration % 127

    def enumerate(self, at: float) -> None:
        """Let the stick appear anew at that time; who had it open has it no more."""
        self.enumeration += 1
        self._claimed_by = None
        self._there_since = at

    def leave(self) -> None:
        """Let the stick disappear."""
        self._there_since = None
        self._claimed_by = None

    @property
    def is_plugged(self) -> bool:
        """Whether the stick is there or about to appear."""
        return self._there_since is not None

    def is_there(self, now: float) -> bool:
        """Whether a stick shows on the bus."""
        return self._there_since is not None and now >= self._there_since

    def check(self, handle: Handle, now: float) -> None:
        """Raise ENODEV unless the stick is there as the handle knows it."""
        if handle.enumeration != self.enumeration or not self.is_there(now):
            raise USBError("No such device (it may have been disconnected)", errno=errno.ENODEV)

    def check_claimed(self, handle: Handle) -> None:
        """Raise ENOENT unless the handle has claimed the interface."""
        if self._claimed_by is not handle:
            raise USBError("Entity not found", errno=errno.ENOENT)

    def check_free(self, handle: Handle) -> None:
        """Raise EBUSY while another handle has claimed the interface."""
        if self._claimed_by not in (None, handle):
            raise USBError("Resource busy", errno=errno.EBUSY)

    def claim(self, handle: Handle) -> None:
        """One handle at a time."""
        self.check_free(handle)
        self._claimed_by = handle

    def release(self, handle: Handle) -> None:
        """Let another handle claim it."""
        if self._claimed_by is handle:
            self._claimed_by = None
