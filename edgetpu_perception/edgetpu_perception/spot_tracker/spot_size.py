"""How large a spot looks, measured in the camera's own pixels."""

from __future__ import annotations

import math
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.images.conversion_cache import CameraImage
from edgetpu_driver.images.encodings import to_grey, to_rgb
from edgetpu_driver.images.region import Region
from edgetpu_perception.spot_tracker.spot_decoder import MIN_CONTRAST

FIRST_REACH = 16
"""px to each side of the spot that are looked at first; doubled while the spot reaches beyond. Uncritical."""

MIN_AREA = 5
"""Least area, px; that of a smaller spot depends on its position on the raster.

Derived: a disc of this area has a diameter of 2.5 px, and the 3x3 px below must lie on it for its full level.
"""

MOST_OF_REACH = 1.2
"""Largest diameter over the reach of the window, so that its border shows the surroundings.

Derived: a disc of that size leaves at least 0.4 of the reach around it.
"""

MIN_SEEN_SHARE = 0.6
"""Least visible part of a spot that the image's border cuts off, as a share of its width along the border.

Derived: half of a disc shows its whole width; a tenth more, as the outline consists of whole px.
"""

_PEAK_REACH = 2
"""px around the position in which the spot's full level is looked for.

Derived: the position of a ball is its centre, that of a lamp may be off by part of a cell.
"""


def spot_diameter(
    image: CameraImage, region: Region, u: float, v: float, weights: NDArray[np.floating] | None
) -> float:
    """Return the diameter of a disc of the spot's area, px of the image.

    `region`: the part of the image that counts, as `Region.within` returns it. `u`, `v`: position of the
    spot, px of the image. `weights`: amounts of red, green and blue in the spot's colour; None: brightness.
    The outline is halfway between the levels of the spot and of its surroundings, so that blur does not
    change the area. For a spot that one border cuts off, returns its width along that border. Returns NaN if
    less than MIN_SEEN_SHARE of that is visible, or if the spot has fewer than MIN_AREA px.
    """
    reach = FIRST_REACH
    while True:
        left, right = _span(u, reach, region.x_offset, region.width)
        top, bottom = _span(v, reach, region.y_offset, region.height)
        levels = _levels(image.pixels[top:bottom, left:right], weights)
        shape = _shape(levels, round(u) - left, round(v) - top)
        inside = (
            left > region.x_offset,
            top > region.y_offset,
            right < region.x_offset + region.width,
            bottom < region.y_offset + region.height,
        )
        whole = not any(inside)
        reaches_on = any(touched and more for touched, more in zip(shape.touches, inside, strict=True))
        diameter = shape.diameter
        if not reaches_on and (whole or diameter < MOST_OF_REACH * reach):
            return diameter
        if whole:
            return math.nan
        reach *= 2


class _Shape(NamedTuple):
    """The spot in the window, px."""

    area: int
    columns: int
    rows: int
    touches: tuple[bool, bool, bool, bool]
    """Whether it touches the left, upper, right and lower border."""

    @property
    def diameter(self) -> float:
        """See spot_diameter, if all borders that it touches are those of the image."""
        sides = sum(self.touches)
        if self.area < MIN_AREA or sides > 1:
            return math.nan
        if not sides:
            return math.sqrt(4 * self.area / math.pi)
        is_beside = self.touches[0] or self.touches[2]
        visible, along = (self.columns, self.rows) if is_beside else (self.rows, self.columns)
        return float(along) if visible >= MIN_SEEN_SHARE * along else math.nan


_ALL, _NONE = (True, True, True, True), (False, False, False, False)


def _span(center: float, reach: int, first: int, size: int) -> tuple[int, int]:
    return max(round(center) - reach, first), min(round(center) + reach + 1, first + size)


def _levels(pixels: NDArray[np.uint8], weights: NDArray[np.floating] | None) -> NDArray[np.uint8]:
    """Brightness, or amount of a colour, uint8 [h, w]."""
    if weights is None:
        return to_grey(pixels)
    amount: NDArray[np.uint8] = cv2.transform(to_rgb(pixels), weights.reshape(1, 3).astype(np.float32))
    return amount


def _shape(levels: NDArray[np.uint8], column: int, row: int) -> _Shape:
    """The spot at a px."""
    height, width = levels.shape
    smooth = cv2.blur(levels, (3, 3))
    first_row, first_column = max(row - _PEAK_REACH, 0), max(column - _PEAK_REACH, 0)
    near = smooth[first_row : row + _PEAK_REACH + 1, first_column : column + _PEAK_REACH + 1]
    if not near.size:
        return _Shape(0, 0, 0, _NONE)
    _, peak, _, (x, y) = cv2.minMaxLoc(near)
    border = np.concatenate([levels[0], levels[-1], levels[:, 0], levels[:, -1]])
    around = float(np.median(border))
    if peak - around < MIN_CONTRAST:
        return _Shape(0, 0, 0, _ALL)  # the whole window lies on the spot
    mask = (levels > (peak + around) / 2).view(np.uint8)
    seed = first_column + x, first_row + y
    if not mask[seed[1], seed[0]]:
        return _Shape(0, 0, 0, _NONE)
    area, _, _, (left, top, columns, rows) = cv2.floodFill(mask, None, seed, 2, flags=4)
    touches = left == 0, top == 0, left + columns == width, top + rows == height
    return _Shape(int(area), columns, rows, touches)
