"""Changes of brightness without motion: image noise, and the exposure of the camera."""

from __future__ import annotations

import math
from statistics import NormalDist

import cv2
import numpy as np
from numpy.typing import NDArray

Map = NDArray[np.float32]

MIN_VARIANCE = 0.1
"""Smallest variance of the difference of two maps, grey levels squared.

Rounding of both leaves up to 2 / 12 = 0.17. Uncritical.
"""

_INITIAL_VARIANCE = 10.0
"""The variance until it is measured, grey levels squared. Rows: looming, plane, median error of TTC."""

_NEWEST_WEIGHT = 0.2
"""Weight of the newest measurement of the variance. Rows: looming, static, no approach claimed."""

_SQUARE_QUARTILE = 0.1015
"""Lower quartile of the square of a standard normal variable. Derived: 0.3186 squared."""

_HALF_LEVEL_SQUARED = 0.25
"""Square of half a grey level; smaller differences are rounded to 0. Derived: 0.5 squared."""

_MAX_EQUAL_SHARE = 0.999
"""Largest share of differences rounded to 0 from which a variance is computed.

Avoids a division by zero for static images without noise. Rows: looming, static.
"""

_SAMPLING_STEP = 3
"""Only one in this many elements is used, as neighbours are alike. Limits the time."""

_NORMAL = NormalDist()

_MAX_UNCLIPPED_BRIGHTNESS = 118.0
"""Distance from middle grey below which noise is not clipped, grey levels.

Derived: 10 levels from black and white.
"""

MIDDLE_GREY = 128.0
"""Grey level of a brightness of 0. Given by the graph's zero point."""

_MIN_EXPOSURE_CHANGE = 0.04
"""Relative change of brightness that is due to exposure, not to motion, if all quarters of the image show it.

Rows: none; test_of_a_step_in_exposure.
"""

_MIN_RATIO_LEVEL = 16.0
"""Grey level below which a ratio is not reliable. Rows: none; test_of_a_step_in_exposure."""


class NoiseLevel:
    """Variance of the difference of two aligned maps, grey levels squared, averaged over frames."""

    def __init__(self) -> None:
        self._variance = _INITIAL_VARIANCE
        self.known = False
        """Whether the variance has been measured."""

    @property
    def variance(self) -> float:
        """Grey levels squared, at least MIN_VARIANCE."""
        return max(self._variance, MIN_VARIANCE)

    def measure(self, squares: Map, brightness: Map, inside: NDArray[np.bool_]) -> None:
        """Add a measurement: squared differences of two maps divided by `variance`, [rows, columns].

        `brightness`: one of the maps, grey levels minus 128; `inside`: bool, elements that both maps have.
        """
        valid = inside.ravel()[::_SAMPLING_STEP]
        middle = valid & (np.abs(brightness.ravel()[::_SAMPLING_STEP]) < _MAX_UNCLIPPED_BRIGHTNESS)
        counted = middle if np.count_nonzero(middle) > 0.1 * middle.size else valid
        measured = variance_of(squares.ravel()[::_SAMPLING_STEP][counted] * self.variance)
        self._variance += (_NEWEST_WEIGHT if self.known else 1.0) * (measured - self._variance)
        self.known = True


def variance_of(squares: Map) -> float:
    """Variance of a normal variable from the lower quartile of its squares [n].

    If more than a quarter of the differences are rounded to 0 the quartile is useless; then the variance is
    computed from the share of differences that are.
    """
    quarter, rounded_away = squares.size // 4, np.count_nonzero(squares < _HALF_LEVEL_SQUARED)
    if rounded_away <= quarter:
        return float(np.partition(squares, quarter)[quarter]) / _SQUARE_QUARTILE
    share = rounded_away / squares.size
    return _HALF_LEVEL_SQUARED / _NORMAL.inv_cdf((1 + min(share, _MAX_EQUAL_SHARE)) / 2) ** 2


class Exposure:
    """Detects changes of the camera's exposure: all quarters of the image change alike."""

    def __init__(self) -> None:
        self.ratio = 1.0
        """Brightness of the present image over that of the keyframe; the caller sets it to 1 at keyframes."""
        self._quarters = [math.nan] * 4

    def update(self, brightness: Map) -> None:
        """Add the brightness of the next image, [rows, columns], grey levels minus 128."""
        means = cv2.resize(brightness, (2, 2), interpolation=cv2.INTER_AREA).ravel().tolist()
        quarters = [max(mean + MIDDLE_GREY, _MIN_RATIO_LEVEL) for mean in means]
        ratios = [new / old for new, old in zip(quarters, self._quarters, strict=True)]
        self._quarters = quarters
        if min(ratios) > 1 + _MIN_EXPOSURE_CHANGE or max(ratios) < 1 - _MIN_EXPOSURE_CHANGE:
            self.ratio *= sum(ratios) / len(ratios)
