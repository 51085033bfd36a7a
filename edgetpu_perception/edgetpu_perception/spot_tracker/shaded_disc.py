"""A bright disc with shade, found by its outline: a white ball, whose dark side is as grey as the scene."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.confidence_ramp import ramp
from edgetpu_perception.spot_tracker.background import cells_below, quantile
from edgetpu_perception.spot_tracker.circle_fit import (
    MIN_OUTLINE_POINTS,
    FittedCircle,
    Outline,
    find_circles,
    fit_circle,
)

MIN_STEP = 6.0
"""Smallest change of brightness over a cell that counts as an outline, grey levels.

Rows: spot, white ball of real colour, right.
"""

FULL_STEP = 24.0
"""Change from which an outline counts in full, grey levels: the shade of a ball has less.

Rows: the same.
"""

PEAK_SHARE = 0.2
"""Least sum of the differences between the step at an outline and the steps on both sides, as a share of the
first. Derived: a sharp outline has 0.5 or more after resizing. Uncritical."""

MAX_CIRCLES = 6
"""Number of circles, those with most votes, that are fitted. Limits the time; with more, more objects that
are not balls are found. Rows: spot, white ball of real colour, right; photographs without a lamp, white,
valid."""

MAX_DISTANCES_CELLS = (2.0, 1.5, 1.0, 0.7, 0.7)
"""Largest distance in cells of an outline point from the circle in each of the successive fits.

Rows: the same.
"""

OUTLINE_POINT_SIGMA = 0.3
"""Standard deviation of an outline point, cells; errors of neighbours are correlated, and shade shifts them.

Rows: spot, white ball of real colour, right.
"""


ARC_SHARE = (0.6, 0.8)
"""Share of the circle covered by outline: chance up to the first, full confidence from the second on. Scenes
without a ball reach 0.8, but with more roughness inside. Rows: spot, white ball of real colour, right and
wrong; photographs without a lamp, white, valid."""

ROUGHNESS = (-0.06, -0.04)
"""What shading leaves unexplained inside a disc as a share of its contrast, negated: no ball at the first,
full confidence at the second. Derived: a matt ball with a share of 0.6 of ambient light and a lamp up to 80
degrees off the camera's axis, or with a lamp up to 30 degrees off and no other light, has at most 0.036.
Nine in ten discs of scenes without a ball have more than 0.06."""

INNER_MARGIN_CELLS = 1.2
"""Distance from the outline above which cells are inside. Derived: 0.7 cells that an outline point may be
off, and half a cell."""

RING_CELLS = (1.0, 2.5)
"""Distances from the outline between which cells tell the brightness around a disc. Derived: a cell on the
outline is partly inside; two rows of cells are enough."""

MIN_INNER_CELLS = 10
"""Fewest cells inside of a disc. Derived: a quadratic function has 6 coefficients."""

MIN_RIVAL_DISTANCE_CELLS = 3.0
"""Distance above which two discs are not the same one. Derived: the smallest radius looked for."""

LEVEL_SHARE = 0.92
"""Least brightness of the bright side of a white disc, over that of the brightest parts of the picture.

Rows: spot, white ball of real colour, wrong.
"""

BRIGHT_SIDE_QUANTILE = 0.9
"""Share of the cells inside that are darker than the bright side. Uncritical."""

MIN_BRIGHT_SHARE = 0.5
"""Least number of bright cells in the square around a circle, as a share of those that its bright side needs.

Limits the time. Derived: half, as the circle that is fitted may be larger than the one it starts from.
"""

TOP_QUANTILE = 0.995
"""Share of the cells that are darker than the brightest parts. Derived: 20 of 64x64 cells, more than the
highlight of a ball has. Uncritical."""


@dataclass(frozen=True)
class ShadedDisc:
    """A disc; positions in cells."""

    x: float
    y: float
    x_sigma: float
    y_sigma: float
    radius: float
    """The shorter radius, as cells may be wider than high."""
    confidence: float
    """0..1, by the share of the circle along which the picture becomes darker outwards, and by how well
    shading explains what is inside."""
    level: float
    """Brightness of its bright side, grey levels."""


def find_shaded_disc(grey: NDArray[np.uint8], aspect: float) -> ShadedDisc | None:
    """Find the bright disc with the most complete outline, by the steepest points across it, if any.

    `grey`: uint8 [H, W]; `aspect`: width of a cell over its height, px of the camera.
    """
    scale = np.array([math.sqrt(aspect), 1.0 / math.sqrt(aspect)])
    least = LEVEL_SHARE * quantile(cells_below(grey), TOP_QUANTILE)
    outline = outline_of(grey, scale)
    if outline.values.shape[1] < MIN_OUTLINE_POINTS:
        return None
    rows, columns = grey.shape
    shape = math.ceil(rows * scale[1]), math.ceil(columns * scale[0])
    starts = find_circles(outline, shape, MAX_CIRCLES)
    bright_cells = cv2.threshold(grey, least - 1.0, 1, cv2.THRESH_BINARY)[1]
    sides = scale.tolist()
    starts = (start for start in starts if _may_be_bright(bright_cells, start, sides))
    fitted = (fit_circle(outline, start, MAX_DISTANCES_CELLS, ARC_SHARE[0]) for start in starts)
    discs = [_disc(grey, circle, scale) for circle in fitted if circle is not None]
    bright = [disc for disc in discs if disc is not None and disc.level >= least]
    if not bright:
        return None
    best = max(bright, key=lambda disc: disc.confidence)
    others = (
        disc for disc in bright if math.dist((disc.x, disc.y), (best.x, best.y)) > MIN_RIVAL_DISTANCE_CELLS
    )
    share = best.confidence / (best.confidence + max((disc.confidence for disc in others), default=0.0))
    return replace(best, confidence=share * best.confidence)


def _may_be_bright(
    bright_cells: NDArray[np.uint8], start: tuple[float, float, float], scale: Sequence[float]
) -> bool:
    """Whether a circle near this one may have a bright side; fitting a circle takes longer than this check.

    `bright_cells`: not 0 where a cell is bright enough; `start`: centre and radius.
    """
    x, y, radius = start
    left, top = max(round((x - radius) / scale[0]), 0), max(round((y - radius) / scale[1]), 0)
    right, bottom = round((x + radius + 1.0) / scale[0]), round((y + radius + 1.0) / scale[1])
    square = bright_cells[top : max(bottom, 0), left : max(right, 0)]
    least = MIN_BRIGHT_SHARE * (1.0 - BRIGHT_SIDE_QUANTILE) * math.pi * radius**2
    return bool(square.size) and cv2.countNonZero(square) > least


def outline_of(grey: NDArray[np.uint8], scale: NDArray[np.float64]) -> Outline:
    """Points of steepest descent in a map, uint8 [H, W].

    `scale`: factors for x and y that make cells square; points are in such cells.
    """
    x_slope = cv2.Sobel(grey, cv2.CV_32F, 1, 0, scale=1 / (8 * scale[0]))
    y_slope = cv2.Sobel(grey, cv2.CV_32F, 0, 1, scale=1 / (8 * scale[1]))
    slope = cv2.magnitude(x_slope, y_slope)
    steep = slope[1:-1, 1:-1]
    across = np.abs(x_slope[1:-1, 1:-1]) >= np.abs(y_slope[1:-1, 1:-1])
    after = np.where(across, slope[1:-1, 2:], slope[2:, 1:-1])
    before = np.where(across, slope[1:-1, :-2], slope[:-2, 1:-1])
    peak = 2.0 * steep - after - before
    # A slope that is the same all over, as inside a ball, is no outline.
    most = (steep > MIN_STEP) & (steep >= after) & (steep > before) & (peak > PEAK_SHARE * steep)
    row, column = np.nonzero(most)
    # Reading by indices takes a third of the time of reading by a mask.
    index = row * most.shape[1] + column
    across, peak, before, after = (each.ravel()[index] for each in (across, peak, before, after))
    index = (row + 1) * grey.shape[1] + column + 1
    steep, x_slope, y_slope = (each.ravel()[index] for each in (slope, x_slope, y_slope))
    offset = 0.5 * (after - before) / np.maximum(peak, 1e-3)
    x, y = column + 1 + offset * across, row + 1 + offset * ~across
    x_normal, y_normal = x_slope / -steep, y_slope / -steep
    weights = np.minimum(steep / FULL_STEP, 1.0)
    return Outline(np.stack([x * scale[0], y * scale[1], x_normal, y_normal, weights]))


def _disc(grey: NDArray[np.uint8], circle: FittedCircle, scale: NDArray[np.float64]) -> ShadedDisc | None:
    """The disc within a circle; None if its outline is too short, or its inside is no shaded ball."""
    confidence = ramp(circle.covered_share, *ARC_SHARE)
    if confidence == 0.0:
        return None
    reach = circle.radius + RING_CELLS[1]
    columns, rows = (
        slice(max(int((center - reach) / size), 0), max(int((center + reach) / size) + 1, 0))
        for center, size in ((circle.x, scale[0]), (circle.y, scale[1]))
    )
    right = (np.arange(grey.shape[1])[columns] * scale[0] - circle.x) / circle.radius
    down = (np.arange(grey.shape[0])[rows] * scale[1] - circle.y) / circle.radius
    grey = grey[rows, columns]
    distance = np.hypot(right, down[:, np.newaxis])
    row, column = np.nonzero(distance < 1.0 - INNER_MARGIN_CELLS / circle.radius)
    nearest, farthest = (1.0 + cells / circle.radius for cells in RING_CELLS)
    around = grey[(distance > nearest) & (distance < farthest)]
    if len(row) < MIN_INNER_CELLS or not len(around):
        return None
    inside = grey[row, column].astype(np.float64)
    roughness = _deviation_from_shading(inside, right[column], down[row])
    confidence *= ramp(-roughness / max(inside.mean() - around.mean(), 1.0), *ROUGHNESS)
    if confidence == 0.0:
        return None
    x_sigma, y_sigma = circle.center_sigmas(OUTLINE_POINT_SIGMA)
    return ShadedDisc(
        circle.x / scale[0],
        circle.y / scale[1],
        x_sigma / scale[0],
        y_sigma / scale[1],
        circle.radius / float(scale.max()),
        confidence,
        float(np.quantile(inside, BRIGHT_SIDE_QUANTILE)),
    )


def _deviation_from_shading(
    inside: NDArray[np.float64], right: NDArray[np.float64], down: NDArray[np.float64]
) -> float:
    """Upper limit of the standard deviation in grey levels from the quadratic function that fits best.

    It is exceeded with 5 % probability (Wilson and Hilferty 1931), as the few cells of a small disc may be
    alike by chance.
    """
    terms = np.column_stack([np.ones(len(inside)), right, down, right * right, down * down, right * down])
    # Cells in two columns, at the border of the picture, leave coefficients open, which lstsq allows.
    rest = inside - terms @ np.linalg.lstsq(terms, inside, rcond=None)[0]
    freedom = len(inside) - terms.shape[1]
    least = freedom * (1.0 - 2.0 / (9.0 * freedom) - 1.645 * math.sqrt(2.0 / (9.0 * freedom))) ** 3
    return math.sqrt(float(rest @ rest) / least)
