"""When to attach a model again after the process that runs its graph has died."""

from __future__ import annotations

from math import inf

MOST_FAILURES = 8
"""Failures in a row after which a model is no longer attached, until the device is opened again or the model
is loaded again. Chosen: the pauses take two minutes in all, longer than most shortages of memory."""


class AttachAttempts:
    """The failed attempts of one model on one stick. Reads no clock; times are monotonic seconds."""

    def __init__(self) -> None:
        self.due = inf
        """Time at which the next attempt is due; infinite if none is."""
        self.failures = 0
        """Failures since the model last ran."""

    def failed(self, now: float) -> bool:
        """Note a failure; returns whether there will be another attempt: after 1 s, 2 s, 4 s, .. 64 s."""
        self.failures += 1
        again = self.failures < MOST_FAILURES
        self.due = now + 2.0 ** (self.failures - 1) if again else inf
        return again

    def begun(self) -> None:
        """Note that an attempt is being made."""
        self.due = inf

    def ran(self) -> None:
        """Note that the model has run."""
        self.failures = 0
