"""What changes the brightness of an image without any motion: noise, and the exposure of the camera."""

from __future__ import annotations

import math
from statistics import NormalDist

import cv2
import numpy as np
from numpy.typing import NDArray

Map = NDArray[np.float32]

SMALLEST_NOISE = 0.1
"""Variance of the difference of two maps, at least: their own quantum, grey levels squared."""

_FIRST_NOISE = 10.0
"""The same before it is measured."""

_NEWEST = 0.2
"""Weight of the newest measurement of noise."""

_QUARTILE = 0.1015
"""Lower quartile of the square of a normal variable with variance 1."""

_HALF_A_LEVEL = 0.25
"""Square of half a grey level: a difference that is rounded away."""

_MOST_EQUAL = 0.999
"""Share of differences that are rounded away, at most, from which a variance can be told."""

_SPARSE = 3
"""Of so many elements one is looked at: neighbours tell about the same."""

_NORMAL = NormalDist()

_UNCLIPPED = 118.0
"""Brightness, from the middle, up to which noise is not clipped, grey levels."""

_MIDDLE_GREY = 128.0
"""What a brightness of 0 stands for, grey levels."""

_EXPOSURE_STEP = 0.04
"""Relative change of the brightness of every quarter of the image, at least, that is not motion."""

_DARK = 16.0
"""Grey level below which a ratio tells nothing."""


class NoiseLevel:
    """Variance of the difference of two aligned maps, grey levels squared."""

    def __init__(self) -> None:
        self._variance = _FIRST_NOISE
        self._known = False

    @property
    def variance(self) -> float:
        """Never less than the quantum of the maps makes it."""
        return max(self._variance, SMALLEST_NOISE)

    def measure(self, squares: Map, brightness: Map, inside: NDArray[np.bool_]) -> None:
        """Take the squared differences of two maps, in this variance, one of them `brightness`.

        `inside`: where there are any.
        """
        seen = inside.ravel()[::_SPARSE]
        middle = seen & (np.abs(brightness.ravel()[::_SPARSE]) < _UNCLIPPED)
        counted = middle if np.count_nonzero(middle) > 0.1 * middle.size else seen
        measured = variance_of(squares.ravel()[::_SPARSE][counted] * self.variance)
        self._variance += (_NEWEST if self._known else 1.0) * (measured - self._variance)
        self._known = True


def variance_of(squares: Map) -> float:
    """Variance of a normal variable from the lower quartile of its squares [n], or from more of them.

    Whole grey levels that differ by less than half a level are mostly the same, so the quartile itself tells
    nothing of a small variance.
    """
    quarter, rounded_away = squares.size // 4, np.count_nonzero(squares < _HALF_A_LEVEL)
    if rounded_away <= quarter:
        return float(np.partition(squares, quarter)[quarter]) / _QUARTILE
    share = rounded_away / squares.size
    return _HALF_A_LEVEL / _NORMAL.inv_cdf((1 + min(share, _MOST_EQUAL)) / 2) ** 2


class Exposure:
    """Notices when the camera changes its exposure: all quarters of the image change alike."""

    def __init__(self) -> None:
        self.ratio = 1.0
        """Brightness of the present image over that of the keyframe; to be set to 1 at a new one."""
        self._quarters = [math.nan] * 4

    def follow(self, brightness: Map) -> None:
        """Take the next image."""
        means = cv2.resize(brightness, (2, 2), interpolation=cv2.INTER_AREA).ravel().tolist()
        quarters = [max(mean + _MIDDLE_GREY, _DARK) for mean in means]
        ratios = [new / old for new, old in zip(quarters, self._quarters, strict=True)]
        self._quarters = quarters
        if min(ratios) > 1 + _EXPOSURE_STEP or max(ratios) < 1 - _EXPOSURE_STEP:
            self.ratio *= sum(ratios) / len(ratios)
