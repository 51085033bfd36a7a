"""The USB port of a virtual stick: presence, enumeration and claimed interface."""

from __future__ import annotations

import errno
import time
from typing import Any

from usb.core import USBError

from edgetpu_driver.virtual.simulated_clock import SimulatedClock


class Handle:
    """A device handle for one enumeration; a new enumeration makes it stale."""

    def __init__(self, stick: Any, enumeration: int) -> None:
        self.stick = stick
        self.enumeration = enumeration


class Port:
    """Raises libusb's errors: ENODEV if the stick is absent, EBUSY if another handle has claimed it."""

    def __init__(self, bus: int, ports: tuple[int, ...]) -> None:
        self.bus = bus
        self.ports = ports
        self.enumeration = 1
        self._there_since: float | None = 0.0
        self._claimed_by: Handle | None = None
        self._looked: float | None = None
        """Real time of the last search of the bus for a stick that was about to appear."""

    @property
    def address(self) -> int:
        """USB address; changes at every enumeration."""
        return 1 + self.enumeration % 127

    def enumerate(self, at: float) -> None:
        """Re-enumerate the stick at a given time. Existing handles become stale."""
        self.enumeration += 1
        self._claimed_by = None
        self._there_since = at

    def leave(self) -> None:
        """Remove the stick."""
        self._there_since = None
        self._claimed_by = None

    @property
    def is_plugged(self) -> bool:
        """Whether the stick is present or about to appear."""
        return self._there_since is not None

    def is_there(self, now: float) -> bool:
        """Whether the stick is enumerated on the bus."""
        return self._there_since is not None and now >= self._there_since

    def look(self, clock: SimulatedClock) -> bool:
        """Whether the stick is enumerated on the bus.

        While it is about to appear, its clock advances by the real time between two calls, since nothing
        else may advance it.
        """
        looked, self._looked = self._looked, None
        if self._there_since is None or self.is_there(clock.monotonic()):
            return self.is_plugged
        self._looked = time.monotonic()
        if looked is not None:
            clock.sleep(self._looked - looked)
        return self.is_there(clock.monotonic())

    def check(self, handle: Handle, now: float) -> None:
        """Raise ENODEV if the stick is absent or the handle is stale."""
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
        """Claim the interface for one handle at a time."""
        self.check_free(handle)
        self._claimed_by = handle

    def release(self, handle: Handle) -> None:
        """Release the interface."""
        if self._claimed_by is handle:
            self._claimed_by = None
