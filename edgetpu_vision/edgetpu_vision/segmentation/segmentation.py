"""The result of a segmenter for an image."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Segmentation:
    """A label for every pixel of one image."""

    stamp: float
    """Time of the image, s."""
    labels: NDArray[np.uint8] | NDArray[np.uint16]
    """[height, width] of the image: number of the class as the model counts. Pixels outside the region that
    the model sees are 0. uint16 if the model has more than 256 classes."""
    names: tuple[str, ...]
    """Names of the classes by number; empty if unknown."""

    @property
    def valid(self) -> bool:
        """Always true: every pixel has a label."""
        return True

    @property
    def confidence(self) -> float:
        """Always 1: a label map has no score."""
        return 1.0
