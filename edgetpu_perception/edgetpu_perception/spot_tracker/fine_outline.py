"""Position of a spot with an outline by its shape in the camera's pixels, which are finer than cells."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.spot_tracker.blob import Blob, cut_off_error, without_holes
from edgetpu_perception.spot_tracker.blob_measurement import STEEP_OUTLINE_SHARE, step_reach
from edgetpu_perception.spot_tracker.lamp_centroid import LampCentroid, lamp_centroid
from edgetpu_perception.spot_tracker.spot_decoder import MIN_CONTRAST, CameraPixels, Spot

MIN_CELL_PIXELS = 1.5
"""Least px of the camera along the longer side of a cell; fewer px show hardly more than the cells.

Derived: midway between one px for each cell and two, which halve the raster."""

MARGIN_CELLS = 1.5
"""Cells added to a blob on each side. Derived: 1 that averaging may narrow a spot by, and half a cell."""

MARGIN_PX = 4
"""Further px added on each side. Derived: 3 for _MARGIN, and 1 for a soft edge."""

MAX_SAMPLES = 64
"""Largest number of samples along a spot; if it has more px, means of squares are used. Limits the time."""

MAX_HARMONIC_SAMPLES = 24
"""The same for the asymmetry of the shape, which low harmonics show. Limits the time."""

EVEN_LEVEL = 0.5
"""Level of the outline of a spot, as a share of its height. Derived: midway across a soft edge."""

UNEVEN_LEVEL = 0.25
"""The same for a shaded body, whose dark side may have less than half of the height. Derived: midway across
the edge of a side with half of it."""

MIN_AREA = 12
"""Least area, samples: a smaller spot consists of edges only. Derived: a disc of radius 2 has 12.6."""

MIN_STEP_SHARE = 0.5
"""Least step across the outline, as a share of the contrast: shade alone has less. Derived: half."""

SHADE_SIGMA = 16.0
"""Error of the centroid of a shaded disc times its radius squared, for an offset of 1 between the centroids
of its light and of its area; samples. Derived: 4 for the slope of such a shade, times 2.8 samples to the
corner of the square in which the level is seen, times 1.5 samples across the outline that count by their
level."""

_NEIGHBOURS = np.ones((3, 3), np.uint8)
"""A sample and its eight neighbours."""

_AROUND_STEP = np.ones((5, 5), np.uint8)
"""The square in which a step is measured. Derived: a soft edge takes a sample or two on either side."""

_MARGIN = 3
"""Samples around a shape. Derived: 1 for a soft edge and 2 for half of _AROUND_STEP."""

Amount = Callable[[NDArray[np.uint8]], NDArray[np.uint8]]
"""Converts the camera's pixels to what the graph works on, uint8 [h, w]."""


class _Window(NamedTuple):
    """The camera's pixels around a spot, or means of squares of them."""

    part: NDArray[np.uint8]
    left: int
    """First column and row, px."""
    top: int
    step: int
    """Px along a side of a sample."""
    sides: tuple[bool, bool, bool, bool]
    """Whether the left, upper, right and lower sides are inside the image."""

    def around(self) -> float | None:
        """Median level along the sides that are inside the image; None if none is."""
        lines = (self.part[:, 0], self.part[0], self.part[:, -1], self.part[-1])
        seen = [line for line, inside in zip(lines, self.sides, strict=True) if inside]
        if not seen:
            return None
        levels = np.concatenate(seen)
        levels.sort()
        return float(levels[len(levels) // 2])


class _Shape(NamedTuple):
    """Samples of a spot that exceed half of its height."""

    blob: Blob
    mask: NDArray[np.uint8]
    """1 inside, 0 outside, uint8 [h, w] as the window."""
    contrast: float


def place_by_outline(spot: Spot, blob: Blob, camera: CameraPixels, amount: Amount) -> Spot | None:
    """The spot at the centroid of its shape in the camera's pixels.

    None if these are hardly finer than cells, or do not show one shape with an outline all around. Px on the
    outline count by the share that the shape covers. That follows from the levels nearby inside and outside,
    so that shade hardly moves the centroid.
    """
    pixels = camera()
    x_cell, y_cell = pixels.shape[1] / blob.columns, pixels.shape[0] / blob.rows
    if max(x_cell, y_cell) < MIN_CELL_PIXELS:
        return None
    window = _window_around(blob, pixels, x_cell, y_cell, amount)
    step = window.step
    x = ((spot.x + 0.5) * x_cell - window.left) / step - 0.5
    y = ((spot.y + 0.5) * y_cell - window.top) / step - 0.5
    reach = max(int(min(blob.width * x_cell, blob.height * y_cell) / (4 * step)), 1)
    shape = _shape_at(window, round(x), round(y), reach, UNEVEN_LEVEL if spot.is_uneven else EVEN_LEVEL)
    found = None if shape is None else _centroid(window.part, shape)
    if shape is None or found is None:
        return None
    if abs(found.x - x) * step > x_cell or abs(found.y - y) * step > y_cell:
        return None  # another shape
    x_cut_off, y_cut_off = cut_off_error(found.x, found.y, shape.blob, growth=0.0)
    sigmas = math.hypot(found.x_sigma, x_cut_off), math.hypot(found.y_sigma, y_cut_off)
    placed = LampCentroid(found.x, found.y, *sigmas).in_cells(
        window.left / step, window.top / step, x_cell / step, y_cell / step
    )
    return Spot(*placed, spot.confidence, spot.rival, spot.is_uneven, is_outlined=True)


def _window_around(
    blob: Blob, pixels: NDArray[np.uint8], x_cell: float, y_cell: float, amount: Amount
) -> _Window:
    """The part of the camera's image around a blob."""
    rows, columns = pixels.shape[:2]
    left, right = _span(blob.left, blob.width, x_cell, columns)
    top, bottom = _span(blob.top, blob.height, y_cell, rows)
    step = max(-(-max(right - left, bottom - top) // MAX_SAMPLES), 1)
    width, height = (right - left) // step, (bottom - top) // step
    if right == columns:  # begin with a whole sample at this border of the image
        left = right - width * step
    if bottom == rows:
        top = bottom - height * step
    part = pixels[top : top + height * step, left : left + width * step]
    if step > 1:
        part = cv2.resize(part, (width, height), interpolation=cv2.INTER_AREA).astype(np.uint8, copy=False)
    part = amount(np.ascontiguousarray(part))
    sides = left > 0, top > 0, right < columns, bottom < rows
    return _Window(part, left, top, step, sides)


def _span(first: int, cells: int, cell: float, size: int) -> tuple[int, int]:
    """First px and the px after the last, along an axis of `size` px."""
    begin = int((first - MARGIN_CELLS) * cell) - MARGIN_PX
    end = math.ceil((first + cells + MARGIN_CELLS) * cell) + MARGIN_PX
    return max(begin, 0), min(end, size)


def _shape_at(window: _Window, column: int, row: int, reach: int, level: float) -> _Shape | None:
    """The shape at a sample; its level is the mean up to `reach` samples around. None if there is none."""
    part = window.part
    rows, columns = part.shape
    around = window.around()
    if around is None or not (0 <= column < columns and 0 <= row < rows):
        return None
    middle = part[max(row - reach, 0) : row + reach + 1, max(column - reach, 0) : column + reach + 1]
    contrast = cv2.mean(middle)[0] - around
    if contrast < MIN_CONTRAST:
        return None
    mask = cv2.threshold(part, around + level * contrast, 1, cv2.THRESH_BINARY)[1]
    if not mask[row, column]:
        return None
    area, _, _, (left, top, width, height) = cv2.floodFill(mask, None, (column, row), 2, flags=4)
    touched = left == 0, top == 0, left + width == columns, top + height == rows
    if area < MIN_AREA or any(touch and more for touch, more in zip(touched, window.sides, strict=True)):
        return None
    mask = cv2.threshold(mask, 1, 1, cv2.THRESH_BINARY)[1]
    inside = mask[top : top + height, left : left + width]
    blob = without_holes(Blob(inside, rows, columns, left, top, width, height, area))
    if blob.mask is not inside:
        inside[:] = blob.mask
    return _Shape(blob, mask, contrast)


def _centroid(part: NDArray[np.uint8], shape: _Shape) -> LampCentroid | None:
    """Centroid of a shape, samples; None if it has no outline all around."""
    blob = shape.blob
    left, top = max(blob.left - _MARGIN, 0), max(blob.top - _MARGIN, 0)
    near = slice(top, blob.top + blob.height + _MARGIN), slice(left, blob.left + blob.width + _MARGIN)
    whole, part, mask = part, part[near], shape.mask[near]
    bright, dark = cv2.dilate(part, _AROUND_STEP), cv2.erode(part, _AROUND_STEP)
    steps = cv2.subtract(bright, dark)
    inner = cv2.erode(mask, _NEIGHBOURS)
    rim = cv2.subtract(mask, inner)
    least = MIN_STEP_SHARE * shape.contrast
    if not (_is_steep(steps, rim, least) or _is_steep_from_afar(whole, near, rim, least, blob.area)):
        return None
    covered = cv2.divide(cv2.subtract(part, dark), steps, dtype=cv2.CV_32F)
    light = inner.astype(np.float32)
    cv2.copyTo(covered, cv2.subtract(cv2.dilate(mask, _NEIGHBOURS), inner), light)
    found = _coarse_centroid(light)
    x_shade, y_shade = _shade_errors(part, inner)
    sigmas = math.hypot(found.x_sigma, x_shade), math.hypot(found.y_sigma, y_shade)
    return LampCentroid(found.x + left, found.y + top, *sigmas)


def _is_steep(steps: NDArray[np.uint8], rim: NDArray[np.uint8], least: float) -> bool:
    """Whether most steps are at least so high where `rim` is not 0."""
    steep = cv2.threshold(steps, least, 1, cv2.THRESH_BINARY)[1]
    return cv2.countNonZero(cv2.bitwise_and(steep, rim)) >= STEEP_OUTLINE_SHARE * cv2.countNonZero(rim)


def _is_steep_from_afar(
    part: NDArray[np.uint8], near: tuple[slice, slice], rim: NDArray[np.uint8], least: float, area: int
) -> bool:
    """`_is_steep` with steps as wide as a large shape may have; `near`: where `rim` is."""
    reach = step_reach(area)
    if 2 * reach + 1 <= _AROUND_STEP.shape[0]:
        return False
    around = np.ones((2 * reach + 1,) * 2, np.uint8)
    steps = cv2.subtract(cv2.dilate(part, around), cv2.erode(part, around))
    return _is_steep(steps[near], rim, least)


def _shade_errors(part: NDArray[np.uint8], inner: NDArray[np.uint8]) -> tuple[float, float]:
    """Errors in samples of the centroid along x and y because shade changes the level near the outline."""
    area, shaded = cv2.moments(inner, binaryImage=True), cv2.moments(cv2.multiply(part, inner))
    if not area["m00"]:
        return 0.0, 0.0
    factor = SHADE_SIGMA * math.pi / area["m00"]
    x_off, y_off = (shaded[key] / shaded["m00"] - area[key] / area["m00"] for key in ("m10", "m01"))
    return factor * x_off, factor * y_off


def _coarse_centroid(light: NDArray[np.float32]) -> LampCentroid:
    """Centroid of light from means of squares, which preserve it and, nearly, the low harmonics."""
    rows, columns = light.shape
    side = -(-max(rows, columns) // MAX_HARMONIC_SAMPLES)
    if side == 1:
        return lamp_centroid(light)
    size = -(-columns // side), -(-rows // side)
    light = np.pad(light, ((0, -rows % side), (0, -columns % side)))
    means = cv2.resize(light, size, interpolation=cv2.INTER_AREA)
    return lamp_centroid(means.astype(np.float32, copy=False)).in_cells(0, 0, 1 / side, 1 / side)
