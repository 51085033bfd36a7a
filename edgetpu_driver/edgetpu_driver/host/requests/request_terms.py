"""Client, priority and deadline of a request to a host."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Priority(IntEnum):
    """Class of a request; the numbers are those of edgetpu_msgs/Priority. A lower number goes first."""

    REAL_TIME = 1
    """A control loop waits for it."""
    NORMAL = 2
    BULK = 3
    """Long work: swaps of weights and large products."""


@dataclass(frozen=True)
class RequestTerms:
    """The terms under which a request waits for its turn."""

    client: str = ""
    """Full name of the caller; empty for all anonymous callers, who share one limit."""
    priority: Priority = Priority.NORMAL
    deadline: float = 0.0
    """Seconds from its arrival, on the steady clock, within which it must begin, else ExpiredError. 0: no
    deadline; it fails with BusyError if it has not begun after ClientLimits.wait."""


NORMAL_TERMS = RequestTerms()
BULK_TERMS = RequestTerms(priority=Priority.BULK)
