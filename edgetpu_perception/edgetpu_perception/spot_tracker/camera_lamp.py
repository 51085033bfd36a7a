"""Finds a small lamp in the camera's pixels, where it is brighter than texture."""

from __future__ import annotations

import math
from collections.abc import Callable

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.confidence_ramp import ramp
from edgetpu_perception.spot_tracker.background import background_of, cells_below
from edgetpu_perception.spot_tracker.blob import Blob, cut_off_error
from edgetpu_perception.spot_tracker.lamp_centroid import LampCentroid, lamp_centroid
from edgetpu_perception.spot_tracker.small_spot import SmallSpot, measure_small_spot, prominence
from edgetpu_perception.spot_tracker.spot_decoder import NO_SPOT, CameraPixels, Spot

AsGrey = Callable[[NDArray[np.uint8]], NDArray[np.uint8]]
"""Converts the camera's pixels to the brightness that the graph works on, uint8 [h, w]."""

LAMP_SIDE = 3
"""Side in px of the square whose mean is the brightness of a lamp. Derived: one hot pixel has a ninth."""

MIN_CELL_PIXELS = 2.0
"""Least px of the camera along a cell; fewer px show hardly more than the cells.

Derived: half a cell is what the centroid of a spot resolves.
"""

LAMP_CONTRAST = (60.0, 100.0)
"""Grey levels by which a lamp exceeds the background of the picture: no lamp up to the first, full confidence
from the second on. Rows: spot, lamps of radius 1.5 px on a dull day; photographs without a lamp."""

LAMP_REACH_CELLS = (1.0, 2.0)
"""Reach of the window around a small lamp; the second is used if the lamp does not fit into the first.

Derived: 1 contains a lamp within a cell, and 2 is the reach of `measure_small_spot`.
"""

MAX_LAMP_CELLS = 16
"""Area in cells up to which a blob is measured in the camera's px, which takes longer.

Derived: the average over 3x3 cells makes 4x4 cells of a lamp on 2x2.
"""

BLOB_MARGINS_CELLS = (0.5, 1.0)
"""Cells added on each side of a blob of the map; the second is used if the lamp does not fit into the first.

Derived: the outline of a blob may be half a cell inside that of the lamp.
"""

PLACING_CELL_PIXELS = 3.0
"""Least px along a cell with which a blob is measured. With twice as many or more, means of squares are used,
which takes less time. Rows: spot, lamps of radius 5 px, whose cells have 3.75 px.
"""

EDGE_ERROR = 0.25
"""Error in px of the centroid of a lamp if its surroundings are brighter on one side by the lamp's height.

Derived: half of a px on the edge is background, which varies with the cosine of the direction; the sum over
the outline of a disc of radius r is r**2 * pi / 4 of the difference, over the disc's area of r**2 * pi.
"""

CLIPPED_NOISE_SHARE = 0.15
"""Standard deviation of what texture adds to a px of a lamp, as a share of that of the texture.

Derived: what exceeds 2 sigma of a normal distribution has 0.08; textures reach farther. Rows: spot, lamps of
radius 1.5 px on a dull day, inside one sigma.
"""


def find_camera_lamp(grey: NDArray[np.uint8], camera: CameraPixels, as_grey: AsGrey) -> Spot:
    """Find the small lamp that outshines everything else; NO_SPOT if there is none.

    `grey`: uint8 [H, W], what the graph works on; `camera`: what it was made from. In the model's input, a
    lamp smaller than a cell is hardly brighter than texture; in the camera's pixels only the lamp is bright.
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
    if not confidence:
        return NO_SPOT
    found = _measure(pixels, _around((column, row), x_cell, y_cell))
    return NO_SPOT if found is None else Spot(*found.in_cells(0, 0, x_cell, y_cell), confidence)


def place_small_spot(
    small: SmallSpot, grey: NDArray[np.uint8], camera: CameraPixels | None, as_grey: AsGrey
) -> Spot:
    """The spot measured in the camera's pixels, where bright cells next to it do not pull the centroid.

    It is measured in the cells of `grey`, uint8 [H, W], if the pixels are hardly finer or the spot covers
    many of them. NO_SPOT if there is nothing to measure.
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
    # The largest window around any px of the block.
    x_reach, y_reach = (math.ceil(LAMP_REACH_CELLS[-1] * cell) + LAMP_SIDE for cell in (x_cell, y_cell))
    left, top = max(int(column * x_cell) - x_reach, 0), max(int(row * y_cell) - y_reach, 0)
    right, bottom = math.ceil((column + 2) * x_cell) + x_reach, math.ceil((row + 2) * y_cell) + y_reach
    part = as_grey(pixels[top:bottom, left:right])
    first_x, first_y = int(column * x_cell) - left, int(row * y_cell) - top
    levels = cv2.blur(part, (LAMP_SIDE, LAMP_SIDE))
    block = levels[first_y : first_y + math.ceil(2 * y_cell), first_x : first_x + math.ceil(2 * x_cell)]
    x, y = cv2.minMaxLoc(block)[3]
    for cells in LAMP_REACH_CELLS:
        found = _measure_around(part, (first_x + x, first_y + y), cells * x_cell, cells * y_cell)
        if found is not None:
            return Spot(*found.in_cells(left, top, x_cell, y_cell), small.confidence, small.rival)
    return NO_SPOT


def place_blob(blob: Blob, camera: CameraPixels) -> LampCentroid | None:
    """Position of a lamp of a few cells, in cells, measured in the camera's grey pixels.

    None if the blob is larger or cut off, or if the px are hardly finer than cells or do not show the lamp
    alone.
    """
    if blob.area > MAX_LAMP_CELLS or any(blob.touches_border):
        return None
    pixels = camera()
    rows, columns = pixels.shape
    x_cell, y_cell = columns / blob.columns, rows / blob.rows
    if min(x_cell, y_cell) < MIN_CELL_PIXELS:
        return None
    step = max(int(min(x_cell, y_cell) / PLACING_CELL_PIXELS), 1)
    x_cell, y_cell = x_cell / step, y_cell / step
    for margin in BLOB_MARGINS_CELLS:
        left, top = max(int((blob.left - margin) * x_cell), 1), max(int((blob.top - margin) * y_cell), 1)
        right = min(math.ceil((blob.left + blob.width + margin) * x_cell), columns // step - 1)
        bottom = min(math.ceil((blob.top + blob.height + margin) * y_cell), rows // step - 1)
        part = _means(
            pixels[(top - 1) * step : (bottom + 1) * step, (left - 1) * step : (right + 1) * step], step
        )
        found = _measure(part, (slice(1, bottom - top + 1), slice(1, right - left + 1)), whole=True)
        if found is not None:
            return found.in_cells(left - 1, top - 1, x_cell, y_cell)
    return None


def _means(pixels: NDArray[np.uint8], step: int) -> NDArray[np.uint8]:
    """Means of squares of `step` px; height and width are multiples of it."""
    if step == 1:
        return pixels
    size = (pixels.shape[1] // step, pixels.shape[0] // step)
    means: NDArray[np.uint8] = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA)
    return means


def _around(px: tuple[int, int], x_reach: float, y_reach: float) -> tuple[slice, slice]:
    """Rows and columns around a px (column, row)."""
    (column, row), x_px, y_px = px, math.ceil(x_reach), math.ceil(y_reach)
    return slice(max(row - y_px, 0), row + y_px + 1), slice(max(column - x_px, 0), column + x_px + 1)


def _measure_around(
    pixels: NDArray[np.uint8], px: tuple[int, int], x_reach: float, y_reach: float
) -> LampCentroid | None:
    """Centroid of a lamp around a bright px (column, row), in a window with the lamp in its middle."""
    found = _measure(pixels, _around(px, x_reach, y_reach), whole=True)
    if found is None or (round(found.x), round(found.y)) == px:
        return found
    return _measure(pixels, _around((round(found.x), round(found.y)), x_reach, y_reach), whole=True)


def _measure(
    pixels: NDArray[np.uint8], window: tuple[slice, slice], *, whole: bool = False
) -> LampCentroid | None:
    """Centroid of what exceeds the surroundings in a window (rows, columns), px; None if nothing does.

    With `whole`, also None if the border of the window reaches more than half of the spot's height.
    """
    part = pixels[window]
    top, left = window[0].start, window[1].start
    sides = _sides_inside(pixels, part, left, top)
    around = np.concatenate(sides)
    around.sort()
    count = len(around)
    middle = (int(around[(count - 1) // 2]) + int(around[count // 2])) / 2
    height = cv2.norm(part, cv2.NORM_INF) - middle
    if whole and int(around[-1]) - middle > height / 2:
        return None
    spread = float(cv2.meanStdDev(around)[1][0, 0])
    level = middle + 2.0 * spread
    x, y, width, height_px = cv2.boundingRect(cv2.compare(part, level, cv2.CMP_GT))
    if not width:
        return None
    light = np.maximum(part[y : y + height_px, x : x + width] - np.float32(level), np.float32(0.0))
    total = cv2.sumElems(light)[0]
    found = lamp_centroid(light)
    found = found._replace(x=found.x + x, y=found.y + y)
    rows, columns = part.shape
    noise = CLIPPED_NOISE_SHARE * spread / total * math.sqrt(rows * columns)
    x_edge, y_edge = _edge_errors(sides, height)
    x_cut_off, y_cut_off = 0.0, 0.0
    if len(sides) < 4:
        lit = _lit(part, middle + height / 2, left, top, pixels.shape)
        x_cut_off, y_cut_off = cut_off_error(found.x + left, found.y + top, lit, growth=0.0)
    return LampCentroid(
        found.x + left,
        found.y + top,
        math.hypot(found.x_sigma, noise * _distance(found.x, columns), x_edge, x_cut_off),
        math.hypot(found.y_sigma, noise * _distance(found.y, rows), y_edge, y_cut_off),
    )


def _lit(part: NDArray[np.uint8], level: float, left: int, top: int, shape: tuple[int, ...]) -> Blob:
    """The px of a part above a level; `left`, `top`: first px of the part, `shape`: that of the picture."""
    above: NDArray[np.uint8] = cv2.threshold(part, level, 1, cv2.THRESH_BINARY)[1]
    x, y, width, height = cv2.boundingRect(above)
    mask = above[y : y + height, x : x + width]
    return Blob(mask, shape[0], shape[1], left + x, top + y, width, height, cv2.countNonZero(mask))


def _distance(center: float, size: int) -> float:
    """Root mean square distance of `size` px in a row from a position."""
    return math.sqrt((size**2 - 1) / 12 + (center - (size - 1) / 2) ** 2)


def _edge_errors(sides: list[NDArray[np.uint8]], height: float) -> tuple[float, float]:
    """Error in px of a lamp's centroid along x and y because px on its edge include the background."""
    if len(sides) < 4:
        return 0.0, 0.0
    above, below, left, right = (cv2.mean(side)[0] for side in sides)
    return EDGE_ERROR * abs(left - right) / height, EDGE_ERROR * abs(above - below) / height


def _sides_inside(
    pixels: NDArray[np.uint8], part: NDArray[np.uint8], left: int, top: int
) -> list[NDArray[np.uint8]]:
    """The px along those sides of a part that are not the border of the picture, where a lamp may be cut."""
    rows, columns = pixels.shape
    sides = [part[0]] * (top > 0) + [part[-1]] * (top + part.shape[0] < rows)
    return sides + [part[:, 0]] * (left > 0) + [part[:, -1]] * (left + part.shape[1] < columns)
