"""How large a spot looks, measured in the camera's own pixels."""

from __future__ import annotations

import math

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.images.conversion_cache import CameraImage, Region
from edgetpu_driver.images.encodings import to_grey, to_rgb
from edgetpu_perception.spot_tracker.spot_decoder import MIN_CONTRAST

FIRST_REACH = 16
"""px to each side of the spot that are looked at first; doubled while the spot reaches beyond. Uncritical."""

MIN_AREA = 5
"""px; the area of a smaller spot is decided by how it lies on the raster.

Derived: a disc of this area has a diameter of 2.5 px, and the 3x3 px below must lie on it for its full level.
"""

MOST_OF_REACH = 1.2
"""Largest diameter over what is looked at on each side, so that the border shows the surroundings.

Derived: a disc of that size leaves at least 0.4 of the reach around it.
"""

_PEAK_REACH = 2
"""px around the position in which the spot's full level is looked for.

Derived: the position of a ball is its centre, that of a lamp may be off by part of a cell.
"""


def spot_diameter(
    image: CameraImage, region: Region, u: float, v: float, weights: NDArray[np.floating] | None
) -> float:
    """Return the diameter of a disc of the spot's area, px of the image.

    `region`: what of the image counts, as `Region.within` returns it. `u`, `v`: where the spot is, px of the
    image. `weights`: amounts of red, green and blue in the spot's colour; None: brightness. NaN if the border
    cuts the spot off, or it has fewer than MIN_AREA px. The outline is halfway between the levels of the spot
    and of its surroundings, so that blur leaves the area as it is.
    """
    reach = FIRST_REACH
    while True:
        left, right = _span(u, reach, region.x_offset, region.width)
        top, bottom = _span(v, reach, region.y_offset, region.height)
        levels = _levels(image.pixels[top:bottom, left:right], weights)
        area, touches = _area(levels, round(u) - left, round(v) - top)
        whole = right - left >= region.width and bottom - top >= region.height
        diameter = math.sqrt(4 * area / math.pi)
        if not touches and (whole or diameter < MOST_OF_REACH * reach):
            return diameter if area >= MIN_AREA else math.nan
        if whole:
            return math.nan
        reach *= 2


def _span(center: float, reach: int, first: int, size: int) -> tuple[int, int]:
    return max(round(center) - reach, first), min(round(center) + reach + 1, first + size)


def _levels(pixels: NDArray[np.uint8], weights: NDArray[np.floating] | None) -> NDArray[np.uint8]:
    """Brightness, or amount of a colour, uint8 [h, w]."""
    if weights is None:
        return to_grey(pixels)
    amount: NDArray[np.uint8] = cv2.transform(to_rgb(pixels), weights.reshape(1, 3).astype(np.float32))
    return amount


def _area(levels: NDArray[np.uint8], column: int, row: int) -> tuple[int, bool]:
    """Area of the spot at a px, and whether it touches the border of what is looked at."""
    height, width = levels.shape
    smooth = cv2.blur(levels, (3, 3))
    first_row, first_column = max(row - _PEAK_REACH, 0), max(column - _PEAK_REACH, 0)
    near = smooth[first_row : row + _PEAK_REACH + 1, first_column : column + _PEAK_REACH + 1]
    if not near.size:
        return 0, False
    _, peak, _, (x, y) = cv2.minMaxLoc(near)
    border = np.concatenate([levels[0], levels[-1], levels[:, 0], levels[:, -1]])
    around = float(np.median(border))
    if peak - around < MIN_CONTRAST:
        return 0, True  # all of it lies on the spot
    mask = (levels > (peak + around) / 2).view(np.uint8)
    seed = first_column + x, first_row + y
    if not mask[seed[1], seed[0]]:
        return 0, False
    area, _, _, (left, top, columns, rows) = cv2.floodFill(mask, None, seed, 2, flags=4)
    return int(area), left == 0 or top == 0 or left + columns == width or top + rows == height
