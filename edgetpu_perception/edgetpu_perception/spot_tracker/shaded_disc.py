"""A bright disc with shade, found by its outline: a white ball, whose dark side is as grey as the scene."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.confidence import ramp
from edgetpu_perception.spot_tracker.circle_fit import (
    MIN_OUTLINE_POINTS,
    FittedCircle,
    Outline,
    find_circles,
    fit_circle,
)

MIN_STEP = 6.0
"""Smallest change of brightness over a cell, grey levels, that is an outline.

Rows: spot, white ball of real colour, right.
"""

FULL_STEP = 24.0
"""The same from which on an outline counts in full: the shade of a ball has less.

Rows: the same.
"""

PEAK_SHARE = 0.2
"""By how much the steps on both sides of an outline are smaller, together, as a share of its own. Derived: a
sharp outline has 0.5 or more after resizing. Uncritical."""

MAX_DISTANCES_CELLS = (2.0, 1.5, 1.0, 0.7, 0.7)
"""Largest distance of an outline point from the circle, cells, in each of the successive fits.

Rows: the same.
"""

OUTLINE_POINT_SIGMA = 0.3
"""Standard deviation of an outline point, cells; errors of neighbours are correlated, and shade shifts them.

Rows: spot, white ball of real colour, right.
"""


ARC_SHARE = (0.72, 0.9)
"""Share of the circle covered by outline: chance up to the first, full confidence from the second on. Scenes
without a ball reach 0.76. Rows: spot, white ball of real colour, wrong; photographs without a lamp, white."""

CLUTTER = (-0.3, -0.1)
"""Outlines inside a disc as a share of its own outline, negated: no disc at the first, full confidence at the
second. Of balls a tenth has 0.2. Rows: spot, photographs without a lamp, white, valid."""

INNER_MARGIN_CELLS = 1.5
"""Distance from the outline from which on an outline is inside. Derived: what the first fit takes at most,
and a cell."""

MIN_RIVAL_DISTANCE_CELLS = 3.0
"""Distance from which on another disc is not the same one. Derived: the smallest radius looked for."""

LEVEL_SHARE = 0.92
"""Brightness of the bright side of a white disc over that of the brightest parts of the picture, at least.

Rows: spot, white ball of real colour, wrong.
"""

BRIGHT_SIDE_QUANTILE = 0.9
"""Share of the cells inside that are darker than the bright side. Uncritical."""

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
    """The shorter one, as cells may be wider than high."""
    confidence: float
    """0..1, by the share of the circle along which the picture becomes darker outwards."""
    level: float
    """Brightness of its bright side, grey levels."""


def find_shaded_disc(grey: NDArray[np.uint8], aspect: float) -> ShadedDisc | None:
    """Find the bright disc with the most complete outline, by the steepest points across it; None if none.

    `grey`: uint8 [H, W]; `aspect`: width of a cell over its height, px of the camera.
    """
    scale = np.array([math.sqrt(aspect), 1.0 / math.sqrt(aspect)])
    outline = _outline(grey, scale)
    if len(outline) < MIN_OUTLINE_POINTS:
        return None
    rows, columns = grey.shape
    shape = math.ceil(rows * scale[1]), math.ceil(columns * scale[0])
    fitted = (fit_circle(outline, start, MAX_DISTANCES_CELLS) for start in find_circles(outline, shape))
    discs = [_disc(grey, outline, circle, scale) for circle in fitted if circle is not None]
    least = LEVEL_SHARE * float(np.quantile(grey, TOP_QUANTILE))
    bright = [disc for disc in discs if disc is not None and disc.level >= least]
    if not bright:
        return None
    best = max(bright, key=lambda disc: disc.confidence)
    others = (
        disc for disc in bright if math.dist((disc.x, disc.y), (best.x, best.y)) > MIN_RIVAL_DISTANCE_CELLS
    )
    share = best.confidence / (best.confidence + max((disc.confidence for disc in others), default=0.0))
    return replace(best, confidence=share * best.confidence)


def _outline(grey: NDArray[np.uint8], scale: NDArray[np.float64]) -> Outline:
    """Points of steepest descent, in cells of which none is wider than high."""
    x_slope = cv2.Sobel(grey, cv2.CV_32F, 1, 0, scale=1 / 8) / scale[0]
    y_slope = cv2.Sobel(grey, cv2.CV_32F, 0, 1, scale=1 / 8) / scale[1]
    slope = cv2.magnitude(x_slope, y_slope)
    y, x = np.nonzero(slope > MIN_STEP)
    inside = (x > 0) & (y > 0) & (x < grey.shape[1] - 1) & (y < grey.shape[0] - 1)
    x, y = x[inside], y[inside]
    steep = slope[y, x]
    u, v = x_slope[y, x] / steep, y_slope[y, x] / steep
    across = np.abs(u) >= np.abs(v)
    dx, dy = np.where(across, 1, 0), np.where(across, 0, 1)
    after, before = slope[y + dy, x + dx], slope[y - dy, x - dx]
    # A slope that is the same all over, as inside a ball, is no outline.
    most = (steep >= after) & (steep > before) & (2.0 * steep - after - before > PEAK_SHARE * steep)
    x, y, u, v, dx, dy = (each[most] for each in (x, y, u, v, dx, dy))
    steep, after, before = steep[most], after[most], before[most]
    offset = 0.5 * (after - before) / np.maximum(2.0 * steep - after - before, 1e-3)
    points = np.column_stack([x + dx * offset, y + dy * offset]) * scale
    weights = np.minimum(steep / FULL_STEP, 1.0).astype(np.float64)
    return Outline(points, -np.column_stack([u, v]).astype(np.float64), weights)


def _disc(
    grey: NDArray[np.uint8], outline: Outline, circle: FittedCircle, scale: NDArray[np.float64]
) -> ShadedDisc | None:
    """The disc within a circle; None if its outline is too short, or there is too much inside."""
    # What has outlines inside, as leaves of grass have, is no ball.
    away = np.hypot(*(outline.points - (circle.x, circle.y)).T)
    inside = float(outline.weights[away < circle.radius - INNER_MARGIN_CELLS].sum())
    clutter = inside / float(circle.weights.sum())
    confidence = ramp(circle.covered_share, *ARC_SHARE) * ramp(-clutter, *CLUTTER)
    row, column = np.indices(grey.shape)
    disc = np.hypot(column * scale[0] - circle.x, row * scale[1] - circle.y) < 0.8 * circle.radius
    if confidence == 0.0 or not disc.any():
        return None
    x_sigma, y_sigma = circle.center_sigmas(OUTLINE_POINT_SIGMA)
    return ShadedDisc(
        circle.x / scale[0],
        circle.y / scale[1],
        x_sigma / scale[0],
        y_sigma / scale[1],
        circle.radius / float(scale.max()),
        confidence,
        float(np.quantile(grey[disc], BRIGHT_SIDE_QUANTILE)),
    )
