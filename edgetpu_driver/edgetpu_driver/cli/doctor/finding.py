"""One line of `edgetpu doctor`: subject, finding and remedy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class State(Enum):
    """Severity of a finding."""

    FINE = "fine"
    NOTE = "note"
    """Works, but less well than it could, or is needed for some uses only."""
    MISSING = "missing"
    """Something does not work until it is fixed."""


@dataclass(frozen=True)
class Finding:
    """The finding on one subject."""

    subject: str
    state: State
    found: str
    remedy: str = ""
    """The command that fixes it, or what to do; empty if nothing has to be fixed."""

    @property
    def error_text(self) -> str:
        """The finding and its remedy in one line."""
        return f"{self.found}: {self.remedy}" if self.remedy else self.found


def fine(subject: str, found: str) -> Finding:
    """A finding that needs no action."""
    return Finding(subject, State.FINE, found)


def note(subject: str, found: str, remedy: str = "") -> Finding:
    """A finding that could be better."""
    return Finding(subject, State.NOTE, found, remedy)


def missing(subject: str, found: str, remedy: str) -> Finding:
    """A finding that has to be fixed."""
    return Finding(subject, State.MISSING, found, remedy)
