"""Spaces the resets of a device, so that it can serve requests between them."""

from __future__ import annotations

from math import inf

RESET_REST = 1.0
"""Least seconds for which a device serves between two resets.

Otherwise a client that requests resets continuously would block all others.
"""


class ResetPace:
    """When a device may be reset. Reads no clock; times are monotonic seconds."""

    def __init__(self) -> None:
        self.waits = False
        """Whether a reset waits for `due`."""
        self._allowed = 0.0
        """Time of the last reset; 0 before the first."""

    @property
    def due(self) -> float:
        """Time at which the waiting reset is due; infinite if none waits."""
        return self._allowed if self.waits else inf

    def begin(self, now: float) -> bool:
        """Whether a reset may start now; otherwise it waits."""
        self.waits = now < self._allowed
        if not self.waits:
            self._allowed = now
        return not self.waits

    def opened(self, now: float) -> None:
        """Note that the device was opened, which starts the pause after a reset."""
        if self._allowed:
            self._allowed = now + RESET_REST
