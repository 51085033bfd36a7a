"""The clock of a USB backend: system time, or the simulated time of a virtual device."""

from __future__ import annotations

import time
from typing import Any, Protocol


class Clock(Protocol):
    """A monotonic time source that can also wait."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary start; never goes back."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait for this many seconds."""
        ...


class SystemClock:
    """The system's monotonic clock."""

    def monotonic(self) -> float:
        """Seconds of the system's monotonic clock."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Block the calling thread."""
        time.sleep(seconds)


def clock_of(backend: Any) -> Clock:
    """The attribute `clock` of a USB backend, or else the system clock."""
    clock: Clock = getattr(backend, "clock", None) or SystemClock()
    return clock
