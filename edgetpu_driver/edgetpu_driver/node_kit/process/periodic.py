"""An action that a process repeats while it runs, between its callbacks."""

from __future__ import annotations

import time
from collections.abc import Callable


class Periodic:
    """An action that is due each time a period has passed since it was last run, or since it was made.

    period: seconds.
    """

    def __init__(self, period: float, action: Callable[[], None]) -> None:
        self._period, self._action = period, action
        self._last = time.monotonic()

    def run_when_due(self) -> None:
        """Run it if it is due."""
        now = time.monotonic()
        if now - self._last >= self._period:
            self._last = now
            self._action()
