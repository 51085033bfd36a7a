"""Brightness and noise of a picture outside the spot, from the histogram of its grey levels."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import cv2
import numpy as np
from numpy.typing import NDArray

ROUNDING = 0.16
"""Standard deviation, grey levels, that rounding alone leaves in an average of 3x3 cells."""


@dataclass(frozen=True)
class Background:
    """What a picture looks like beside the spot, grey levels."""

    level: float
    noise: float
    """Standard deviation, at least ROUNDING."""
    clipped: bool
    """It is so dark that its noise cannot show in full."""
    below: Sequence[float]
    """What `cells_below` gives."""

    def spread_beside(self, area: int) -> float:
        """Half of the range that two thirds of the cells are in when a spot of so many cells is left out."""
        share = 1.0 - area / self.below[-1]
        return (_level(self.below, 0.84 * share) - _level(self.below, 0.16 * share)) / 2


def cells_below(grey: NDArray[np.uint8]) -> Sequence[float]:
    """How many cells of a picture are darker than each level 0..256: 257 whole numbers."""
    # The histogram begins one level too early, so that its first sum is 0.
    below = cv2.calcHist([grey], [0], None, [257], (-1, 256)).cumsum()
    # A list would take longer to make than it saves in the few places where it is read.
    return cast("Sequence[float]", memoryview(below))


def background_of(below: Sequence[float]) -> Background:
    """Measure the darker part of a picture, by quantiles so low that a spot may cover almost half of it.

    `below` is what `cells_below` gives.
    """
    low, middle = _level(below, 0.1), _level(below, 0.3)
    # The two quantiles of a normal distribution are 0.757 standard deviations apart; at black there is none.
    noise = 0.0 if middle < 0.5 else (middle - low) / 0.757
    return Background(middle, max(noise, ROUNDING), low < 1.0, below)


def _level(below: Sequence[float], share: float) -> float:
    """The brightness that a share of the cells does not reach.

    A level stands for all brightness that rounds to it, evenly spread.
    """
    cells = share * below[-1]
    level = bisect_right(below, cells) - 1
    return level - 0.5 + (cells - below[level]) / (below[level + 1] - below[level])
