"""Describes the results that a node publishes, for tools that record, plot and compare results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from edgetpu_driver.images.encodings import Pixels


@dataclass(frozen=True)
class ResultValue:
    """One number of a result message."""

    field: str
    meaning: str
    unit: str = ""
    sigma: str = ""
    """Name of the field with its standard deviation; empty if there is none."""


@dataclass(frozen=True)
class ResultTopic:
    """The topic of a node's results. Every message also has `header`, `valid` and `confidence`."""

    topic: str
    """Name of the topic below the node's name."""
    message_type: type[Any]
    values: tuple[ResultValue, ...]
    row: Callable[[Any], Mapping[str, float]] | None = None
    """Computes the fields of a message that is not a flat list of numbers: `valid`, `confidence` and those of
    `values`. None: the message has fields of these names."""
    position: tuple[str, str] | None = None
    """Fields that are a position in the image, from -1 (centre of the first pixel) to 1 (of the last)."""
    picture: Callable[[Pixels, Any], Pixels] | None = None
    """Draws a message on a copy of its image, uint8 [H, W] or [H, W, 3] RGB, so that viewers of the camera's
    images need no debug images. None: only the node can draw its results, on ~/debug_image."""
    word: str = ""
    """Name of the field that says in words what was found; empty: there is none."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of a result, in order: validity and confidence, then each value with its sigma."""
        numbers = (name for value in self.values for name in (value.field, value.sigma) if name)
        return ("valid", "confidence", *numbers)

    def numbers(self, message: Any) -> dict[str, float]:
        """Return the numbers of a message by the names of `fields`."""
        row = self.row(message) if self.row else {name: getattr(message, name) for name in self.fields}
        return {name: row[name] for name in self.fields}

    def text(self, message: Any) -> str:
        """Return in words what a message has found; empty if it does not say."""
        return str(getattr(message, self.word)) if self.word else ""
