"""One step of `edgetpu confirm`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from edgetpu_driver.cli.confirm.outcome import Values
from edgetpu_driver.cli.confirm.trial_stick import TrialStick


@dataclass(frozen=True)
class Step:
    """A check of one assumption."""

    name: str
    subject: str
    """The assumption, in the words of docs/unconfirmed_on_silicon.md."""
    check: Callable[[TrialStick], Values]
    """Returns what was measured; raises Refuted, NotApplicable or EdgeTpuError."""
    needs: str = ""
    """The step that must succeed for this one to be meaningful."""
