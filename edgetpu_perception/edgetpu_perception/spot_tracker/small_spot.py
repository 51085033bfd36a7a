"""A spot of about one cell, which the graph removes together with hot pixels, found in the model's input."""

from __future__ import annotations

import math
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.confidence_ramp import ramp
from edgetpu_perception.spot_tracker.background import background_of, cells_below
from edgetpu_perception.spot_tracker.blob import MAX_SHARE_WITH_RIVALS, Blob
from edgetpu_perception.spot_tracker.spot_decoder import NO_SPOT, Position, Spot

BACKGROUND_CELLS = 5
"""Side of the square whose median is the background of its middle cell.

Derived: a spot on fewer than half of its 25 cells, up to a radius of 1.9, does not move the median.
"""

HOT_PIXEL_FACTOR = 1.5
"""Least excess of a spot over what one white pixel of the camera adds to a cell. Derived: the brightest hot
pixel adds 255 / (px in a cell); half of that is for another one nearby."""

EXCESS = (30.0, 60.0)
"""Grey levels by which 2x2 cells together exceed their background: no spot up to the first, full confidence
from the second on. Rows: spot, lamps of radius 1.5 px; photographs without a lamp."""

CLEARNESS = (1.3, 2.0)
"""Excess over that of the next small spot: no spot up to the first, full confidence from the second on.

Rows: spot, lamps of radius 1.5 to 5 px; photographs without a lamp.
"""

PROMINENCE = (1.2, 1.5)
"""Brightness over that of the brightest cell elsewhere, both above the background: no spot up to the first,
full confidence from the second on. Texture has steps as high as those of a lamp, but stays darker.

Rows: spot, lamps of radius 1.5 px at dusk; photographs without a lamp.
"""

RING_SHARE = (-0.75, -0.5)
"""Brightest cell of the ring around a spot over the brightest cell of the spot, both above the ring's median,
negated: part of a larger pattern at the first, a separate spot from the second on. Derived: the outline of a
spot is at half its height, and that of a small one is inside the ring; the peak of a texture continues.
"""

MIN_RIVAL_SHARE = 0.75
"""Share of the excess from which another small spot is a rival. Rows: spot, two lamps that cross."""

ONE_CELL_SIGMA = 0.22
"""Standard deviation in cells of a point in one column of cells, where its position is unknown; it falls with
the area of the spot, which must fit into the column. Rows: spot, lamps at night, inside one sigma."""

ONE_COLUMN_SHARE = (0.45, 0.85)
"""Share of the excess in one column: several columns at the first, one from the second on. Rows: the same."""

SEVERAL_CELLS_SIGMA = 0.015
"""Like ONE_CELL_SIGMA, on several columns. Rows: spot, lamps of radius 3 to 5 px, inside one sigma."""

BACKGROUND_ERROR_FACTOR = 0.8
"""Standard deviation of a background with texture over that of independent cells of the same spread.

Neighbours are correlated. Rows: spot, lamps, inside one sigma.
"""

_OWN_CELLS = 3
"""Reach, in cells, within which two excesses belong to one spot.

Derived: 2x2 cells and half the side of the median's square.
"""


class SmallSpot(NamedTuple):
    """A spot on a few cells, not measured yet."""

    confidence: float = 0.0
    """0..1; with 0 there is no spot."""
    level: float = 0.0
    """Grey level of its brightest cell."""
    peak: tuple[int, int] = (0, 0)
    """Column and row of the first of the 2x2 cells that exceed their background most."""
    rival: Position | None = None
    """Another spot that is about as strong."""

    @property
    def middle(self) -> Position:
        """The middle of its 2x2 cells."""
        return self.peak[0] + 0.5, self.peak[1] + 0.5

    def blob_in(self, shape: tuple[int, ...]) -> Blob:
        """Its 2x2 cells as a blob in a map of this height and width."""
        rows, columns = shape
        (left, top), cells = self.peak, np.ones((2, 2), np.uint8)
        return Blob(cells, rows, columns, left, top, 2, 2, 4)


def find_small_spot(grey: NDArray[np.uint8], cell_pixels: float, near: Position | None) -> SmallSpot:
    """Find the small spot that stands out most.

    `grey`: uint8 [H, W], what the graph works on. `cell_pixels`: px of the camera in a cell; if they are few,
    a hot pixel looks like a small spot and neither is found. Of two similar spots, returns the one nearest to
    `near`.
    """
    excess = _excess_of(grey)
    most, peak = _take_strongest(excess)
    if most <= max(EXCESS[0], HOT_PIXEL_FACTOR * 255.0 / cell_pixels):
        return SmallSpot()
    next_most, next_peak = _take_strongest(excess)
    found = ramp(most, *EXCESS)
    clearness = _clearness(most, next_most)
    has_rival = next_most >= MIN_RIVAL_SHARE * most
    found *= _isolation(grey, peak, next_peak if has_rival else None)
    rival_clearness = _clearness(next_most, _take_strongest(excess)[0]) if has_rival else 0.0
    if rival_clearness == 0.0:
        if clearness < 1.0:
            clearness = max(clearness, _prominence_in(grey, peak))
        return SmallSpot(found * clearness, _level(grey, peak), peak)
    confidence = MAX_SHARE_WITH_RIVALS * found * rival_clearness
    if near is not None and math.dist(next_peak, near) < math.dist(peak, near):
        peak, next_peak = next_peak, peak
    return SmallSpot(confidence, _level(grey, peak), peak, (next_peak[0] + 0.5, next_peak[1] + 0.5))


def _excess_of(grey: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Sum of the excesses of 2x2 cells over their background, at the first of them: [H, W], grey levels."""
    height = cv2.subtract(grey, cv2.medianBlur(grey, BACKGROUND_CELLS))
    excess: NDArray[np.float32] = cv2.boxFilter(
        height, cv2.CV_32F, (2, 2), anchor=(0, 0), normalize=False, borderType=cv2.BORDER_CONSTANT
    )
    return excess


def prominence(level: float, rival: float, background: float) -> float:
    """Confidence, 0..1, by the brightness of a spot and of the next brightest place; grey levels."""
    return ramp((level - background) / max(rival - background, 1.0), *PROMINENCE)


def _clearness(excess: float, next_excess: float) -> float:
    """Confidence, 0..1, by the excess of the next small spot."""
    return ramp(excess / max(next_excess, 1.0), *CLEARNESS)


def _prominence_in(grey: NDArray[np.uint8], peak: tuple[int, int]) -> float:
    """Confidence, 0..1, by how much brighter than all cells elsewhere a spot at a peak (column, row) is."""
    level = background_of(cells_below(grey)).level
    column, row = peak
    elsewhere = np.full(grey.shape, 1, np.uint8)
    reach = _OWN_CELLS
    elsewhere[max(row - reach, 0) : row + reach + 2, max(column - reach, 0) : column + reach + 2] = 0
    return prominence(_level(grey, peak), cv2.minMaxLoc(grey, elsewhere)[1], level)


def _isolation(grey: NDArray[np.uint8], peak: tuple[int, int], rival: tuple[int, int] | None) -> float:
    """Confidence, 0..1, by how far the picture falls around a spot at a peak (column, row); see RING_SHARE.

    The cells of a rival, which may be in the ring, do not count.
    """
    column, row = peak
    ring = np.zeros(grey.shape, bool)
    reach = _OWN_CELLS
    ring[max(row - reach, 0) : row + reach + 2, max(column - reach, 0) : column + reach + 2] = True
    for x, y in (peak,) if rival is None else (peak, rival):
        ring[max(y - 1, 0) : y + 3, max(x - 1, 0) : x + 3] = False
    around = grey[ring]
    middle = float(np.median(around))
    return ramp(-(float(around.max()) - middle) / max(_level(grey, peak) - middle, 1.0), *RING_SHARE)


def _level(grey: NDArray[np.uint8], peak: tuple[int, int]) -> float:
    """The brightest of 2x2 cells."""
    return float(grey[peak[1] : peak[1] + 2, peak[0] : peak[0] + 2].max())


def _take_strongest(excess: NDArray[np.float32]) -> tuple[float, tuple[int, int]]:
    """The largest excess and its column and row; the cells of that spot are set to 0."""
    _, most, _, (column, row) = cv2.minMaxLoc(excess)
    reach = _OWN_CELLS
    excess[max(row - reach, 0) : row + reach + 1, max(column - reach, 0) : column + reach + 1] = 0.0
    return most, (column, row)


def measure_small_spot(grey: NDArray[np.uint8], small: SmallSpot) -> Spot:
    """Centroid of the excess of 4x4 cells over the ring of cells around them; NO_SPOT if there is none.

    `grey`: uint8 [H, W].
    """
    column, row = small.peak
    left, top = max(column - 3, 0), max(row - 3, 0)
    part = grey[top : row + 5, left : column + 5].astype(np.float32)
    inside = (
        slice(max(row - 1, 0) - top, row + 3 - top),
        slice(max(column - 1, 0) - left, column + 3 - left),
    )
    ring = np.ones(part.shape, bool)
    ring[inside] = False
    around = part[ring]
    spread = float(around.std())
    # Levels that the background alone may reach do not count: they would pull the centroid away.
    above = np.maximum(part[inside] - (float(np.median(around)) + spread), 0.0)
    total = float(above.sum())
    if total <= 0.0:
        return NO_SPOT
    noise = BACKGROUND_ERROR_FACTOR * spread / total
    free = ONE_CELL_SIGMA * max(1.0 - total / 255.0, 0.0)
    x, x_sigma = _centroid(above.sum(axis=0) / total, free, noise * math.sqrt(above.shape[0]))
    y, y_sigma = _centroid(above.sum(axis=1) / total, free, noise * math.sqrt(above.shape[1]))
    x, y = x + left + inside[1].start, y + top + inside[0].start
    return Spot(x, y, x_sigma, y_sigma, small.confidence, small.rival)


def _centroid(shares: NDArray[np.float32], free: float, noise: float) -> tuple[float, float]:
    """Centroid along an axis and its sigma, cells.

    `free`: sigma of a spot in one column; `noise`: standard deviation of a share.
    """
    positions = np.arange(len(shares))
    centroid = float(shares @ positions)
    one = free * ramp(float(shares.max()), *ONE_COLUMN_SHARE)
    background = noise * math.sqrt(float(np.square(positions - centroid).sum()))
    return centroid, math.sqrt(one**2 + SEVERAL_CELLS_SIGMA**2 + background**2)
