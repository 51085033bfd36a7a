"""Brightness and noise of a picture outside the spot, from the histogram of its grey levels."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple, cast

import cv2
import numpy as np
from numpy.typing import NDArray

ROUNDING_NOISE = 0.16
"""Smallest standard deviation, grey levels, of a cell of the evidence map: that of rounding alone.

Derived: rounding by camera and resizing, 1/sqrt(12) each, leaves 0.41 in the input, and 0.41 over the
NOISE_REDUCTION of the evidence decoder here.
"""


class Background(NamedTuple):
    """The picture outside the spot, in grey levels."""

    level: float
    noise: float
    """Standard deviation; at least ROUNDING_NOISE."""
    clipped: bool
    """The background is so dark that part of its noise is clipped at 0."""
    below: Sequence[float]
    """The result of `cells_below`."""

    def spread_outside(self, area: int) -> float:
        """Half the range of the middle 68 % of the cells, without a spot of `area` cells; grey levels."""
        share = 1.0 - area / self.below[-1]
        return (_quantile(self.below, 0.84 * share) - _quantile(self.below, 0.16 * share)) / 2


def cells_below(grey: NDArray[np.uint8]) -> Sequence[float]:
    """Number of cells darker than each level 0..256, from uint8 [H, W]: 257 whole numbers."""
    # The histogram begins one level too early, so that its first sum is 0.
    below = cv2.calcHist([grey], [0], None, [257], (-1, 256)).cumsum()
    # A memoryview: making a list would take longer than it saves on the few values that are read.
    return cast("Sequence[float]", memoryview(below))


def background_of(below: Sequence[float]) -> Background:
    """Measure the darker part of a picture, by quantiles low enough for a spot that covers almost half of it.

    `below` is the result of `cells_below`.
    """
    low, middle = _quantile(below, 0.1), _quantile(below, 0.3)
    # The two quantiles of a normal distribution are 0.757 standard deviations apart; at black there is none.
    noise = 0.0 if middle < 0.5 else (middle - low) / 0.757
    return Background(middle, max(noise, ROUNDING_NOISE), low < 1.0, below)


def _quantile(below: Sequence[float], share: float) -> float:
    """The brightness, grey levels, that a share 0..1 of the cells does not reach.

    Cells of one level are taken as spread evenly over the brightness that rounds to it.
    """
    cells = share * below[-1]
    level = bisect_right(below, cells) - 1
    return level - 0.5 + (cells - below[level]) / (below[level + 1] - below[level])
