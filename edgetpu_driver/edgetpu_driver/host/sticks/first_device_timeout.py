"""How long a host waits for its first device."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class FirstDeviceTimeout:
    """Gives up if no device was opened within a given time. May be used from any thread.

    timeout: seconds; every device is looked for at least once before it gives up. Negative: never give
    up. on_give_up: called once.
    """

    def __init__(self, devices: int, timeout: float, on_give_up: Callable[[], None]) -> None:
        self.gave_up = False
        self._on_give_up = on_give_up
        self._lock = threading.Lock()
        self._unattempted = set(range(devices))
        self._over = timeout < 0
        self._end = time.monotonic() + timeout
        self._timer = threading.Timer(max(timeout, 0.0), self._check)
        self._timer.daemon = True
        if not self._over:
            self._timer.start()

    def attempted(self, device: int, is_open: bool) -> None:
        """Note that there was an attempt to open a device."""
        with self._lock:
            self._unattempted.discard(device)
            self._over |= is_open
        self._check()

    def cancel(self) -> None:
        """Never give up from now on."""
        with self._lock:
            self._over = True
        self._timer.cancel()

    def _check(self) -> None:
        with self._lock:
            if self._over or self._unattempted or time.monotonic() < self._end:
                return
            self._over = self.gave_up = True
        self._on_give_up()
