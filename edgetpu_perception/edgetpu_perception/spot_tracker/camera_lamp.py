"""A small lamp told from texture in the camera's own pixels, where it is as bright as it really is."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.confidence import ramp
from edgetpu_perception.spot_tracker.background import background_of, cells_below
from edgetpu_perception.spot_tracker.small_spot import HOT_PIXEL_FACTOR, prominence
from edgetpu_perception.spot_tracker.spot_decoder import NO_SPOT, CameraPixels, Spot

AsGrey = Callable[[NDArray[np.uint8]], NDArray[np.uint8]]
"""Makes of camera's pixels what the graph works on, uint8 [h, w]."""

MAX_CANDIDATES = 32
"""Small things of the model's input that are looked at in the camera's pixels. Limits the time.

Rows: spot, lamps of radius 1.5 px on a dull day, right.
"""

LAMP_SIDE = 3
"""Side, px, of the square whose mean is the brightness of a lamp. Derived: one hot pixel has a ninth."""

LAMP_CONTRAST = (60.0, 100.0)
"""Grey levels by which a lamp exceeds the background of the picture: none up to the first, full confidence
from the second on. Rows: spot, lamps of radius 1.5 px on a dull day; photographs without a lamp."""

POSITION_SIGMA = 0.02
"""Standard deviation, px, of the centroid of a lamp without noise. Rows: spot, lamps, inside one sigma."""


_NEIGHBOURS = np.ones((3, 3), np.uint8)
"""Cells of which a candidate has the largest excess. Derived: 2x2 cells overlap those one cell away."""


CLIPPED_NOISE_SHARE = 0.15
"""Standard deviation of what texture adds to a px of a lamp, as a share of the texture's.

Derived: what exceeds 2 sigma of a normal distribution has 0.08; textures reach farther. Rows: spot, lamps of
radius 1.5 px on a dull day, inside one sigma.
"""


@dataclass(frozen=True)
class _Lamp:
    """The brightest LAMP_SIDE squared px around a candidate; px."""

    level: float
    column: int
    row: int


def find_camera_lamp(
    grey: NDArray[np.uint8],
    excess: NDArray[np.float32],
    camera: CameraPixels,
    as_grey: AsGrey,
    cell_pixels: float,
) -> Spot:
    """Find the small lamp that outshines everything else; NO_SPOT if there is none.

    `grey`: uint8 [H, W], what the graph works on. `excess`: its `excess_of`, which names the candidates.
    `camera`: what it was made from, with `cell_pixels` px in a cell. A lamp below a cell leaves the model a
    small share of its brightness, and texture does as well; in the camera's pixels only the lamp is bright.
    """
    found = _candidates(excess, HOT_PIXEL_FACTOR * 255.0 / cell_pixels)
    if not found:
        return NO_SPOT
    pixels = camera()
    x_cell, y_cell = pixels.shape[1] / grey.shape[1], pixels.shape[0] / grey.shape[0]
    if min(x_cell, y_cell) < LAMP_SIDE:
        return NO_SPOT
    lamps = [_brightest(pixels, as_grey, peak, x_cell, y_cell) for peak in found]
    best = max(lamps, key=lambda lamp: lamp.level)
    level = background_of(cells_below(grey)).level
    others = [lamp.level for lamp in lamps if not _is_same(lamp, best, x_cell, y_cell)]
    if prominence(best.level, max(others, default=level), level) == 0.0:
        return NO_SPOT
    # Only now all pixels are looked at, as that takes longer.
    rival = _brightest_elsewhere(as_grey(pixels), best, x_cell, y_cell)
    confidence = ramp(best.level - level, *LAMP_CONTRAST)
    confidence *= prominence(best.level, rival, level)
    return _measure(pixels, as_grey, best, x_cell, y_cell, confidence) if confidence else NO_SPOT


def _candidates(excess: NDArray[np.float32], least: float) -> list[tuple[int, int]]:
    """Column and row of the first of 2x2 cells of the small things that stand out most."""
    peaks = np.flatnonzero((excess > least) & (excess == cv2.dilate(excess, _NEIGHBOURS)))
    most = peaks[np.argsort(excess.ravel()[peaks])[: -MAX_CANDIDATES - 1 : -1]]
    rows, columns = np.divmod(most, excess.shape[1])
    return list(zip(columns.tolist(), rows.tolist(), strict=True))


def _is_same(lamp: _Lamp, other: _Lamp, x_cell: float, y_cell: float) -> bool:
    """Whether two candidates found the same lamp, on cells that touch."""
    return abs(lamp.column - other.column) <= x_cell and abs(lamp.row - other.row) <= y_cell


def _brightest_elsewhere(pixels: NDArray[np.uint8], lamp: _Lamp, x_cell: float, y_cell: float) -> float:
    """The brightest LAMP_SIDE squared px outside of a lamp and the cells around it."""
    levels = cv2.blur(pixels, (LAMP_SIDE, LAMP_SIDE))
    x_reach, y_reach = math.ceil(1.5 * x_cell), math.ceil(1.5 * y_cell)
    top, left = max(lamp.row - y_reach, 0), max(lamp.column - x_reach, 0)
    levels[top : lamp.row + y_reach + 1, left : lamp.column + x_reach + 1] = 0
    return cv2.minMaxLoc(levels)[1]


def _brightest(
    pixels: NDArray[np.uint8], as_grey: AsGrey, peak: tuple[int, int], x_cell: float, y_cell: float
) -> _Lamp:
    """What is brightest in 2x2 cells and half a cell around them."""
    column, row = peak
    left, top = max(int((column - 0.5) * x_cell), 0), max(int((row - 0.5) * y_cell), 0)
    part = pixels[top : int((row + 2.5) * y_cell) + 1, left : int((column + 2.5) * x_cell) + 1]
    _, level, _, (x, y) = cv2.minMaxLoc(cv2.blur(as_grey(part), (LAMP_SIDE, LAMP_SIDE)))
    return _Lamp(level, left + x, top + y)


def _measure(
    pixels: NDArray[np.uint8], as_grey: AsGrey, lamp: _Lamp, x_cell: float, y_cell: float, confidence: float
) -> Spot:
    """Centroid of what exceeds the surroundings, within a cell around the brightest px."""
    x_reach, y_reach = math.ceil(x_cell), math.ceil(y_cell)
    left, top = max(lamp.column - x_reach, 0), max(lamp.row - y_reach, 0)
    part = as_grey(pixels[top : lamp.row + y_reach + 1, left : lamp.column + x_reach + 1]).astype(np.float32)
    border = np.ones(part.shape, bool)
    border[1:-1, 1:-1] = False
    around = part[border]
    spread = float(around.std())
    above = np.maximum(part - (float(np.median(around)) + 2.0 * spread), 0.0)
    total = float(above.sum())
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


def _centroid(shares: NDArray[np.float32], noise: float) -> tuple[float, float]:
    """Centroid along an axis and its sigma, px; `noise`: standard deviation of a share."""
    positions = np.arange(len(shares))
    centroid = float(shares @ positions)
    background = noise * math.sqrt(float(np.square(positions - centroid).sum()))
    return centroid, math.hypot(POSITION_SIGMA, background)
