"""Centroid of a lamp in px, with a sigma from the asymmetry of its image."""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

RASTER_SIGMA = 0.0175
"""Least standard deviation in px of the centroid of a noise-free disc of radius 1 on square px.

Derived: exactly drawn discs of radius 1.5, 2, 3, 5 and 8 px have 0.0095, 0.0060, 0.0034, 0.0018 and 0.0011;
it falls with radius**-1.5, as the waves in the spectrum of a disc do.
"""

CORE_AREA = 1.0
"""Squared distance from the centre, px^2, within which the direction varies inside a px.

Derived: the area of a px. With it the harmonics of drawn discs of radius 1.5 to 12 px are as large as the
errors of their centroids; without it, two to five times as large at a radius of 2 px.
"""

PX_SPREAD = 1.0 / 12.0
"""Least mean squared distance from the centre along an axis, px^2, as light in one row fills its height.

Derived: that of a px.
"""

STUDENT_FACTOR = 1.14
"""Factor for a standard deviation estimated from four numbers, so that it includes 68 % of the errors.

Derived: Student's distribution of 4 degrees of freedom.
"""


class LampCentroid(NamedTuple):
    """A position with one-sigma errors, px."""

    x: float
    y: float
    x_sigma: float
    y_sigma: float

    def in_cells(self, left: float, top: float, x_cell: float, y_cell: float) -> LampCentroid:
        """Convert px relative to the px (`left`, `top`) to cells of `x_cell` by `y_cell` px."""
        return LampCentroid(
            (self.x + left + 0.5) / x_cell - 0.5,
            (self.y + top + 0.5) / y_cell - 0.5,
            self.x_sigma / x_cell,
            self.y_sigma / y_cell,
        )


def lamp_centroid(light: NDArray[np.float32]) -> LampCentroid:
    """Centroid of light, [H, W], all of it 0 or more and at least one px above 0.

    The image of a round lamp has no odd harmonics around its centre, even if it is blurred along a line.
    Noise, for example of compression, adds some. The first harmonic is the error of the centroid. If the
    errors of px are independent, the third and fifth have the variance of the first if they are weighted with
    the distance from the centre, like the first. Sigma is estimated from their real and imaginary parts.
    """
    if light.shape[1] == 2:  # cv2.moments takes two columns for the points of an outline
        light = np.pad(light, ((0, 0), (0, 1)))
    moments = cv2.moments(light)
    total, x, y = moments["m00"], moments["m10"] / moments["m00"], moments["m01"] / moments["m00"]
    third, fifth = _harmonics(light, x, y)
    # The mean squares of the distance from the centre along x and along y.
    xx, yy = moments["mu20"] / total, moments["mu02"] / total
    # The squared radius of a disc is twice the mean squared distance, and that of a px 1 / pi.
    raster = RASTER_SIGMA**2 / max(2.0 * (xx + yy), 1.0 / math.pi) ** 1.5
    seen = STUDENT_FACTOR**2 * (abs(third) ** 2 + abs(fifth) ** 2) / (4.0 * total**2)
    xx, yy = max(xx, PX_SPREAD), max(yy, PX_SPREAD)
    x_sigma, y_sigma = (math.sqrt(max(seen, raster) * 2.0 * each / (xx + yy)) for each in (xx, yy))
    return LampCentroid(x, y, x_sigma, y_sigma)


def _harmonics(light: NDArray[np.float32], x: float, y: float) -> tuple[complex, complex]:
    """Third and fifth harmonics of light, [H, W], around a position, weighted with the distance from it."""
    offsets = _grid(max(light.shape))[: light.shape[0], : light.shape[1]] - np.complex64(complex(x, y))
    squares = offsets * offsets
    areas = np.abs(squares)
    areas += np.float32(CORE_AREA)
    offsets *= light / areas
    offsets *= squares
    third = complex(offsets.sum())
    offsets /= areas
    offsets *= squares
    return third, complex(offsets.sum())


def _grid(side: int) -> NDArray[np.complex64]:
    """Column + 1j * row of each px, at least [side, side]."""
    return _square(1 << (side - 1).bit_length())


@functools.lru_cache(maxsize=8)
def _square(side: int) -> NDArray[np.complex64]:
    indices = np.arange(side)
    return (indices + 1j * indices[:, np.newaxis]).astype(np.complex64)
