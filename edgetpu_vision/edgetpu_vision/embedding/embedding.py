"""The result of an embedder for an image."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Embedding:
    """An image as a vector; the scalar product of two is the cosine of their similarity."""

    stamp: float
    """Time of the image, s."""
    vector: NDArray[np.float32]
    """float32[n] of length 1, or of zeros if it is not valid."""
    valid: bool
    """Whether the model gave any direction: it does not if all its values are 0."""

    @property
    def confidence(self) -> float:
        """1 if it is valid, otherwise 0."""
        return float(self.valid)
