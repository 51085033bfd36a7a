"""Brightness and noise of a picture outside the spot, from the histogram of its grey levels."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple, cast

import cv2
import numpy as np
from numpy.typing import NDArray

ROUNDING_NOISE = 0.16
"""Smallest standard deviation in grey levels of a cell of the evidence map: that of rounding alone.

Derived: rounding by camera and resizing, 1/sqrt(12) each, leaves 0.41 in the input, and 0.41 over
NOISE_REDUCTION (blob_measurement.py) in the map.
"""

FLANK_DEPTH_SHARE = 0.1
"""Depth of the flank below a threshold, as a share of the contrast: cells that miss the threshold by less.

A spot has few of them, the brightest parts of a background many. Rows: spot, smooth spots, rmse; discs of
radius 2-4, inside one sigma.
"""

FLANK_LIMITS = (1.5, 0.2, 1.0)
"""When a threshold is clear of the background: its flank, as a share of the cells above it, is at most the
first number times that of the best threshold plus the second, and at most the third. The first two admit
the flanks of smooth spots. Rows: spot, smooth spots, rmse; discs on texture, inside one sigma."""

UNSEEN_FLANK_CELLS = 0.3
"""Cells added to every flank: an empty flank below a threshold that only two cells reach proves little.

Rows: spot, discs of radius 2-24, inside one sigma; and test_spot_tracker.
"""

MAX_COVERED_SHARE = 0.55
"""Largest part of the picture that a spot may cover. Rows: spot, whole frame bright. Uncritical."""


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
        return (quantile(self.below, 0.84 * share) - quantile(self.below, 0.16 * share)) / 2


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
    low, middle = quantile(below, 0.1), quantile(below, 0.3)
    # The two quantiles of a normal distribution are 0.757 standard deviations apart; at black there is none.
    noise = 0.0 if middle < 0.5 else (middle - low) / 0.757
    return Background(middle, max(noise, ROUNDING_NOISE), low < 1.0, below)


def clear_thresholds(background: Background, contrast: float, shares: Sequence[float]) -> list[float]:
    """Thresholds in grey levels that separate a spot from the background: the lowest and the best one.

    `shares`: shares of the contrast to try. Empty if no threshold separates the spot.
    """
    below, level, total = background.below, background.level, background.below[-1]
    clear, gap = (1.0 - MAX_COVERED_SHARE) * total, FLANK_DEPTH_SHARE * contrast - 1.0
    times, more, most = FLANK_LIMITS
    thresholds: list[float] = []
    flanks: list[float] = []
    for share in shares:
        threshold = level + share * contrast
        not_above = below[int(threshold) + 1]
        if not_above < clear:
            continue
        flank = not_above - below[int(threshold - gap)]
        thresholds.append(threshold)
        flanks.append((flank + UNSEEN_FLANK_CELLS) / (total - not_above))
        if not flank:  # no higher threshold has less of a flank
            break
    least = min(flanks, default=math.inf)
    if least > most:
        return []
    best, limit = flanks.index(least), min(times * least + more, most)
    for first, flank_share in enumerate(flanks[:best]):
        if flank_share <= limit:
            return [thresholds[first], thresholds[best]]
    return [thresholds[best]]


def quantile(below: Sequence[float], share: float) -> float:
    """The grey level below which a share, 0..1, of the cells lies.

    Cells of one level are taken as spread evenly over the brightness that rounds to it.
    """
    cells = share * below[-1]
    level = bisect_right(below, cells) - 1
    return level - 0.5 + (cells - below[level]) / (below[level + 1] - below[level])
