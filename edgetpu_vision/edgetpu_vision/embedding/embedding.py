"""The result of an embedder for an image."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Embedding:
    """The feature vector of an image; the scalar product of two is the cosine of the angle between them."""

    stamp: float
    """Time of the image, s."""
    vector: NDArray[np.float32]
    """float32[n] of length 1, or of zeros if it is not valid."""
    valid: bool
    """False if the model's output is zero or not finite, so that it cannot be normalised."""

    @property
    def confidence(self) -> float:
        """1 if it is valid, otherwise 0."""
        return float(self.valid)
