"""How a device is kept open, and when its next reading, self-check, attempt or reset is due."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

RESET_REST = 1.0
"""Shortest time, s, for which a device serves between two resets.

Otherwise a client that requests resets continuously would block all others.
"""


@dataclass(frozen=True)
class Upkeep:
    """How a device is kept open."""

    period: float
    """Seconds between two readings of the open device."""
    retry_period: float
    """Seconds between two attempts to open it."""
    check_period: float
    """Seconds between two self-checks; 0: none."""
    on_attempt: Callable[[bool], None]
    """Called by the thread after each attempt to open it, with whether it is open."""


class ResetPace:
    """When a device may be reset. Reads no clock; times are monotonic seconds."""

    def __init__(self) -> None:
        self.waits = False
        """Whether a reset waits for `due`."""
        self._allowed_from = 0.0
        """Time from which the next reset may start; 0 before the first."""

    @property
    def due(self) -> float:
        """Time at which the waiting reset is due; infinite if none waits."""
        return self._allowed_from if self.waits else inf

    def begin(self, now: float) -> bool:
        """Whether a reset may start now; otherwise it waits."""
        self.waits = now < self._allowed_from
        if not self.waits:
            self._allowed_from = now
        return not self.waits

    def opened(self, now: float) -> None:
        """Note that the device was opened, which starts the pause after a reset."""
        if self._allowed_from:
            self._allowed_from = now + RESET_REST


class UpkeepTimes:
    """When the upkeep of a device is due. Reads no clock; times are monotonic seconds."""

    def __init__(self) -> None:
        self._upkeep: Upkeep | None = None
        """How the device is kept open; None if it is not."""
        self._due = self._check_due = 0.0
        """When the next reading or attempt is due, and the next self-check."""
        self._resets = ResetPace()

    def begin(self, upkeep: Upkeep, now: float) -> None:
        """Keep the device open from now on."""
        self._upkeep, self._due = upkeep, 0.0
        self._check_due = now + upkeep.check_period

    def end(self) -> None:
        """Stop keeping it open."""
        self._upkeep, self._resets.waits = None, False

    def hurry(self) -> None:
        """Make the next reading or attempt due at once."""
        self._due = 0.0

    def due(self, now: float) -> Upkeep | None:
        """The upkeep, if a reading, an attempt or a reset is due."""
        return self._upkeep if now >= self._due else None

    def seconds_left(self, now: float) -> float | None:
        """Seconds until upkeep is due, 0 or more; None if the device is not kept open."""
        return None if self._upkeep is None else max(0.0, self._due - now)

    def plan(self, upkeep: Upkeep, now: float, *, is_open: bool) -> None:
        """Choose when the next upkeep is due, after a piece of it."""
        self._due = min(now + (upkeep.period if is_open else upkeep.retry_period), self._resets.due)

    def begin_check(self, upkeep: Upkeep, now: float) -> bool:
        """Whether a self-check is due; if so, the caller starts it."""
        if not upkeep.check_period or now < self._check_due:
            return False
        self._check_due = now + upkeep.check_period
        return True

    @property
    def reset_waits(self) -> bool:
        """Whether a reset was put off."""
        return self._resets.waits

    def begin_reset(self, now: float) -> bool:
        """Whether a reset may start now; otherwise, if the device is kept open, it is put off."""
        if self._upkeep is None or self._resets.begin(now):
            return True
        self._due = min(self._due, self._resets.due)
        return False

    def opened(self, now: float) -> None:
        """Note that the device was opened, or that an attempt failed."""
        self._resets.opened(now)
