"""The outcome of a step of `edgetpu confirm`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Values = Mapping[str, Any]
"""What a step has measured, by name."""


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
    """The stick does something else than assumed; the message says what."""

    def __init__(self, message: str, values: Values | None = None) -> None:
        super().__init__(message)
        self.values = values or {}


class NotApplicable(Exception):  # noqa: N818
    """The stick, its port or the available models cannot answer; the message says what could."""
