"""Finds a small lamp in the camera's pixels, where it is brighter than texture."""

from __future__ import annotations

import math
from collections.abc import Callable

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.confidence import ramp
from edgetpu_perception.spot_tracker.background import background_of, cells_below
from edgetpu_perception.spot_tracker.small_spot import prominence
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

POSITION_SIGMA = 0.02
"""Standard deviation, px, of the centroid of a lamp without noise. Rows: spot, lamps, inside one sigma."""


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


def _measure(
    pixels: NDArray[np.uint8], lamp: tuple[int, int], x_cell: float, y_cell: float, confidence: float
) -> Spot:
    """Centroid of what exceeds the surroundings, within a cell around the brightest px (column, row)."""
    column, row = lamp
    x_reach, y_reach = math.ceil(x_cell), math.ceil(y_cell)
    left, top = max(column - x_reach, 0), max(row - y_reach, 0)
    part = pixels[top : row + y_reach + 1, left : column + x_reach + 1].astype(np.float32)
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
