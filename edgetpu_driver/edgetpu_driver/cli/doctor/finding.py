"""One line of `edgetpu doctor`: what was looked at, what was found, and the command that fixes it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class State(Enum):
    """How much a finding matters."""

    FINE = "fine"
    NOTE = "note"
    """Works, but less well than it could, or is needed for some uses only."""
    MISSING = "missing"
    """Something does not work until it is fixed."""


@dataclass(frozen=True)
class Finding:
    """What was found on one subject."""

    subject: str
    state: State
    found: str
    remedy: str = ""
    """The command that fixes it, or what to do; empty if nothing has to be fixed."""

    @property
    def complaint(self) -> str:
        """What was found and the remedy in one line."""
        return f"{self.found}: {self.remedy}" if self.remedy else self.found


def fine(subject: str, found: str) -> Finding:
    """A finding that needs nothing."""
    return Finding(subject, State.FINE, found)


def note(subject: str, found: str, remedy: str = "") -> Finding:
    """A finding that could be better."""
    return Finding(subject, State.NOTE, found, remedy)


def missing(subject: str, found: str, remedy: str) -> Finding:
    """A finding that has to be fixed."""
    return Finding(subject, State.MISSING, found, remedy)
