"""A spot in a model's output, and what finds it there.

Positions and sigmas are in cells of the model's input; (0, 0) is the centre of the first cell.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import cv2
import numpy as np
from numpy.typing import NDArray

FULL_CONTRAST = 36.0
"""Grey levels of contrast from which on it does not lower the confidence ..."""

NO_CONTRAST = 12.0
"""... and up to which there is no spot."""


@dataclass(frozen=True)
class Spot:
    """A position with one-sigma errors; with confidence 0 there is none and the numbers are NaN."""

    x: float = math.nan
    y: float = math.nan
    x_sigma: float = math.nan
    y_sigma: float = math.nan
    confidence: float = 0.0


NO_SPOT = Spot()


class SpotDecoder(Protocol):
    """Makes a spot of one model's outputs."""

    def decode(
        self, image: NDArray[np.uint8], outputs: Mapping[str, NDArray[Any]], near: tuple[float, float] | None
    ) -> Spot:
        """Find the spot in the outputs for the model input `image`; of several the one nearest to `near`."""
        ...


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
