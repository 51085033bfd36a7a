"""Finds a small lamp in the camera's pixels, where it is brighter than texture."""

from __future__ import annotations

import math
from collections.abc import Callable

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.confidence import ramp
from edgetpu_perception.spot_tracker.background import background_of, cells_below
from edgetpu_perception.spot_tracker.small_spot import SmallSpot, measure_small_spot, prominence
from edgetpu_perception.spot_tracker.spot_decoder import NO_SPOT, CameraPixels, Spot

AsGrey = Callable[[NDArray[np.uint8]], NDArray[np.uint8]]
"""Converts the camera's pixels to the brightness that the graph works on, uint8 [h, w]."""

LAMP_SIDE = 3
"""Side, px, of the square whose mean is the brightness of a lamp. Derived: one hot pixel has a ninth."""

MIN_CELL_PIXELS = 2.0
"""Px of the camera along a cell, below which they show hardly more than the cells.

Derived: half a cell is what the centroid of a spot resolves.
"""

LAMP_CONTRAST = (60.0, 100.0)
"""Grey levels by which a lamp exceeds the background of the picture: none up to the first, full confidence
from the second on. Rows: spot, lamps of radius 1.5 px on a dull day; photographs without a lamp."""

POSITION_SIGMA = 0.015
"""Standard deviation, px, of the centroid of a small lamp on a dark, even background.

Derived: drawn discs of radius 1.5 and 2 px with noise of 2 grey levels give 0.014 and 0.010. Rows: spot,
lamps of radius 1.5 and 2 px, inside one sigma.
"""

CLIPPED_NOISE_SHARE = 0.15
"""Standard deviation of what texture adds to a px of a lamp, as a share of the texture's.

Derived: what exceeds 2 sigma of a normal distribution has 0.08; textures reach farther. Rows: spot, lamps of
radius 1.5 px on a dull day, inside one sigma.
"""


def find_camera_lamp(grey: NDArray[np.uint8], camera: CameraPixels, as_grey: AsGrey) -> Spot:
    """Find the small lamp that outshines everything else; NO_SPOT if there is none.

    `grey`: uint8 [H, W], what the graph works on; `camera`: what it was made from. A lamp below a cell leaves
    the model a small share of its brightness, and texture does as well; in the camera's pixels only the lamp
    is bright.
    """
    pixels = as_grey(camera())
    x_cell, y_cell = pixels.shape[1] / grey.shape[1], pixels.shape[0] / grey.shape[0]
    if min(x_cell, y_cell) < MIN_CELL_PIXELS:
        return NO_SPOT
    levels = cv2.blur(pixels, (LAMP_SIDE, LAMP_SIDE))
    _, most, _, (column, row) = cv2.minMaxLoc(levels)
    background = background_of(cells_below(grey)).level
    # The lamp itself, and the cells around it, are no rival.
    x_reach, y_reach = math.ceil(1.5 * x_cell), math.ceil(1.5 * y_cell)
    left, top = max(column - x_reach, 0), max(row - y_reach, 0)
    levels[top : row + y_reach + 1, left : column + x_reach + 1] = 0
    confidence = ramp(most - background, *LAMP_CONTRAST)
    confidence *= prominence(most, cv2.minMaxLoc(levels)[1], background)
    return _measure(pixels, (column, row), x_cell, y_cell, confidence) if confidence else NO_SPOT


def place_small_spot(
    small: SmallSpot, grey: NDArray[np.uint8], camera: CameraPixels | None, as_grey: AsGrey
) -> Spot:
    """The spot measured in the camera's pixels, where bright cells beside it do not pull the centroid.

    In the cells of `grey`, uint8 [H, W], if the pixels are hardly finer or the spot covers many of them.
    NO_SPOT if there is nothing to measure.
    """
    if not small.confidence:
        return NO_SPOT
    spot = NO_SPOT if camera is None else _placed(small, grey.shape, camera(), as_grey)
    return spot if spot is not NO_SPOT else measure_small_spot(grey, small)


def _placed(small: SmallSpot, shape: tuple[int, ...], pixels: NDArray[np.uint8], as_grey: AsGrey) -> Spot:
    """Centroid around the brightest px of the 2x2 cells; NO_SPOT if these px do not show all of the spot."""
    x_cell, y_cell = pixels.shape[1] / shape[1], pixels.shape[0] / shape[0]
    if min(x_cell, y_cell) < MIN_CELL_PIXELS:
        return NO_SPOT
    column, row = small.peak
    # All that `_measure` looks at around any px of the block.
    x_reach, y_reach = math.ceil(x_cell) + 1, math.ceil(y_cell) + 1
    left, top = max(int(column * x_cell) - x_reach, 0), max(int(row * y_cell) - y_reach, 0)
    right, bottom = math.ceil((column + 2) * x_cell) + x_reach, math.ceil((row + 2) * y_cell) + y_reach
    part = as_grey(pixels[top:bottom, left:right])
    first_x, first_y = int(column * x_cell) - left, int(row * y_cell) - top
    levels = cv2.blur(part, (LAMP_SIDE, LAMP_SIDE))
    block = levels[first_y : first_y + math.ceil(2 * y_cell), first_x : first_x + math.ceil(2 * x_cell)]
    x, y = cv2.minMaxLoc(block)[3]
    spot = _measure(part, (first_x + x, first_y + y), x_cell, y_cell, small.confidence, whole=True)
    if spot is NO_SPOT:
        return NO_SPOT
    return spot._replace(x=spot.x + left / x_cell, y=spot.y + top / y_cell, rival=small.rival)


def _measure(
    pixels: NDArray[np.uint8],
    lamp: tuple[int, int],
    x_cell: float,
    y_cell: float,
    confidence: float,
    *,
    whole: bool = False,
) -> Spot:
    """Centroid of what exceeds the surroundings, within a cell around the brightest px (column, row).

    With `whole` NO_SPOT if more than half of the spot's height reaches beyond.
    """
    column, row = lamp
    x_reach, y_reach = math.ceil(x_cell), math.ceil(y_cell)
    left, top = max(column - x_reach, 0), max(row - y_reach, 0)
    part = pixels[top : row + y_reach + 1, left : column + x_reach + 1]
    around = np.concatenate(_sides_inside(pixels, part, left, top))
    around.sort()
    count = len(around)
    middle = (int(around[(count - 1) // 2]) + int(around[count // 2])) / 2
    if whole and int(around[-1]) > (middle + cv2.norm(part, cv2.NORM_INF)) / 2:
        return NO_SPOT
    spread = float(cv2.meanStdDev(around)[1][0, 0])
    above = np.maximum(part - np.float32(middle + 2.0 * spread), np.float32(0.0))
    total = cv2.sumElems(above)[0]
    if total <= 0.0:
        return NO_SPOT
    noise = CLIPPED_NOISE_SHARE * spread / total
    x, x_sigma = _centroid(above.sum(axis=0) / total, noise * math.sqrt(part.shape[0]))
    y, y_sigma = _centroid(above.sum(axis=1) / total, noise * math.sqrt(part.shape[1]))
    return Spot(
        (x + left + 0.5) / x_cell - 0.5,
        (y + top + 0.5) / y_cell - 0.5,
        x_sigma / x_cell,
        y_sigma / y_cell,
        confidence,
    )


def _sides_inside(
    pixels: NDArray[np.uint8], part: NDArray[np.uint8], left: int, top: int
) -> list[NDArray[np.uint8]]:
    """The px along those sides of a part that are not the border of the picture, where a lamp may be cut."""
    rows, columns = pixels.shape
    sides = [part[0]] * (top > 0) + [part[-1]] * (top + part.shape[0] < rows)
    return sides + [part[:, 0]] * (left > 0) + [part[:, -1]] * (left + part.shape[1] < columns)


def _centroid(shares: NDArray[np.float32], noise: float) -> tuple[float, float]:
    """Centroid along an axis and its sigma, px; `noise`: standard deviation of a share."""
    positions = np.arange(len(shares))
    centroid = float(shares @ positions)
    background = noise * math.sqrt(float(np.square(positions - centroid).sum()))
    return centroid, math.hypot(POSITION_SIGMA, background)
