"""The evidence map that a model makes of an image, and what stands out of it."""

from __future__ import annotations

from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.spot_tracker.background import Background, background_of, cells_below


class EvidenceMap(NamedTuple):
    """The model's output for one image, and what stands out of it."""

    evidence: NDArray[Any]
    """Grey levels, [H, W]."""
    background: Background
    contrast: float
    """The strongest cell over the background's level, grey levels."""
    peak: tuple[int, int]
    """Column and row of the strongest cell."""

    @classmethod
    def of(cls, grid: NDArray[Any], dtype: np.dtype[Any]) -> EvidenceMap:
        """The map of a model's output, [H, W]. `dtype`: of that output; maps of floats need no conversion."""
        if dtype.kind == "f":
            evidence, below = grid, cells_below(np.clip(np.rint(grid), 0, 255).astype(np.uint8))
        else:
            evidence = grid.view(np.uint8) ^ np.uint8(0x80) if dtype == np.int8 else grid
            below = cells_below(evidence)
        background = background_of(below)
        _, top, _, peak = cv2.minMaxLoc(evidence)
        return cls(evidence, background, top - background.level, (peak[0], peak[1]))
