"""The result of a classifier for an image."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Classification:
    """One class with its score."""

    class_id: int
    """Number of the class as the model counts."""
    label: str
    """Name of the class; "" if unknown."""
    score: float
    """Probability, 0..1."""


@dataclass(frozen=True, slots=True)
class Classifications:
    """The most probable classes of one image, the highest score first."""

    stamp: float
    """Time of the image, s."""
    classes: tuple[Classification, ...]

    @property
    def valid(self) -> bool:
        """Whether any class is probable enough."""
        return bool(self.classes)

    @property
    def confidence(self) -> float:
        """The highest score, 0..1; 0 if no class is probable enough."""
        return self.classes[0].score if self.classes else 0.0
