"""The outcome of a step of `edgetpu confirm`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Values = Mapping[str, Any]
"""Measured values of a step, by name."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a step."""

    step: str
    subject: str
    outcome: Literal["confirmed", "refuted", "skipped"]
    detail: str
    values: Values = field(default_factory=dict)
    seconds: float = 0.0


class Refuted(Exception):  # noqa: N818 - an answer, not an error
    """The stick does not behave as assumed; the message gives the difference."""

    def __init__(self, message: str, values: Values | None = None) -> None:
        super().__init__(message)
        self.values = values or {}


class NotApplicable(Exception):  # noqa: N818
    """The stick, its port or the available models do not allow the step; the message says what is needed."""
