"""The thread that opens the device, reads its state, and opens it again after it was lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

from edgetpu_driver.host.host_status import State

RETRY_PERIOD = 1.0
"""Seconds between two attempts to open the device."""


class Reconnectable(Protocol):
    """What a reconnector needs of a host."""

    @property
    def state(self) -> State:
        """The state of the device."""
        ...

    def connect(self) -> None:
        """Open the device anew; the outcome is the new state."""
        ...

    def refresh(self) -> None:
        """Read state and counters."""
        ...


class Reconnector:
    """Keeps a model host connected to its device from a thread of its own.

    timeout: seconds to wait for the device at the start before giving up; negative: for ever. A device that
    is lost later is always waited for. on_give_up: called by this object's thread when it gives up.
    refresh_period: seconds between two readings of a ready device.
    """

    def __init__(
        self,
        host: Reconnectable,
        timeout: float = -1.0,
        on_give_up: Callable[[], None] | None = None,
        refresh_period: float = 1.0,
    ) -> None:
        self._host = host
        self._timeout = timeout
        self._refresh_period = refresh_period
        self._on_give_up = on_give_up or (lambda: None)
        self._stopping = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reconnector", daemon=True)
        self.gave_up = False
        """Whether the timeout has passed without a device."""

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Check the host's state now; ignored when called by the thread itself."""
        if threading.current_thread() is not self._thread:
            self._wake.set()

    def stop(self, timeout: float | None = None) -> None:
        """End the thread, after an attempt to open the device that is under way."""
        self._stopping = True
        self._wake.set()
        self._thread.join(timeout)

    def _run(self) -> None:
        start = time.monotonic()
        was_ready = False
        while not self._stopping:
            if self._host.state is State.READY:
                self._host.refresh()
            if self._host.state is not State.READY:
                self._host.connect()
            ready = self._host.state is State.READY
            was_ready |= ready
            waited = time.monotonic() - start
            if not was_ready and 0 <= self._timeout <= waited:
                self.gave_up = True
                self._on_give_up()
                return
            self._wake.wait(self._refresh_period if ready else self._pause(waited, was_ready))
            self._wake.clear()

    def _pause(self, waited: float, was_ready: bool) -> float:
        if was_ready or self._timeout < 0:
            return RETRY_PERIOD
        return min(RETRY_PERIOD, self._timeout - waited)
