"""A bright disc with shade, found by its outline: a white ball, whose dark side is as grey as the scene."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.confidence import ramp
from edgetpu_perception.spot_tracker.round_target import MIN_NORMAL_COSINE, MIN_OUTLINE_POINTS, circles

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
    points, normals, weights = _outline(grey, scale)
    if len(points) < MIN_OUTLINE_POINTS:
        return None
    rows, columns = grey.shape
    shape = math.ceil(rows * scale[1]), math.ceil(columns * scale[0])
    discs = [
        _fitted(grey, points, normals, weights, circle, scale)
        for circle in circles(points, normals, shape, weights)
    ]
    least = LEVEL_SHARE * float(np.quantile(grey, TOP_QUANTILE))
    bright = [disc for disc in discs if disc is not None and disc.confidence > 0.0 and disc.level >= least]
    if not bright:
        return None
    best = max(bright, key=lambda disc: disc.confidence)
    others = (
        disc for disc in bright if math.dist((disc.x, disc.y), (best.x, best.y)) > MIN_RIVAL_DISTANCE_CELLS
    )
    share = best.confidence / (best.confidence + max((disc.confidence for disc in others), default=0.0))
    return replace(best, confidence=share * best.confidence)


def _outline(
    grey: NDArray[np.uint8], scale: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Points of steepest descent and outward normals, [n, 2]; in cells of which none is wider than high."""
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
    return points, -np.column_stack([u, v]).astype(np.float64), weights


def _fitted(
    grey: NDArray[np.uint8],
    points: NDArray[np.float64],
    normals: NDArray[np.float64],
    weights: NDArray[np.float64],
    circle: tuple[float, float, float],
    scale: NDArray[np.float64],
) -> ShadedDisc | None:
    """Fit a circle (Kasa 1976), starting from another; None if the outline does not support one."""
    x, y, radius = circle
    for near in MAX_DISTANCES_CELLS:
        away = points - (x, y)
        distance = np.maximum(np.hypot(away[:, 0], away[:, 1]), 1e-6)
        facing = (away * normals).sum(axis=1) / distance
        near_circle = (np.abs(distance - radius) < near) & (facing > MIN_NORMAL_COSINE)
        on_circle, weight = points[near_circle], weights[near_circle, np.newaxis]
        if len(on_circle) < MIN_OUTLINE_POINTS:
            return None
        unknowns = np.column_stack([2 * on_circle, np.ones(len(on_circle))])
        (x, y, power), *_ = np.linalg.lstsq(
            weight * unknowns, weight[:, 0] * np.square(on_circle).sum(axis=1), rcond=None
        )
        radius = math.sqrt(max(power + x * x + y * y, 1.0))
    row, column = np.indices(grey.shape)
    disc = np.hypot(column * scale[0] - x, row * scale[1] - y) < 0.8 * radius
    if not disc.any():
        return None
    # What has outlines inside, as leaves of grass have, is no ball.
    away = np.hypot(*(points - (x, y)).T)
    clutter = float(weights[away < radius - INNER_MARGIN_CELLS].sum()) / float(weight.sum())
    angle = np.arctan2(on_circle[:, 1] - y, on_circle[:, 0] - x)
    parts = max(round(2 * math.pi * radius / 1.5), 8)
    arc = len(np.unique(np.floor((angle / (2 * math.pi) + 0.5) * parts) % parts)) / parts
    change = np.column_stack([np.cos(angle), np.sin(angle), np.ones(len(angle))])
    variance = OUTLINE_POINT_SIGMA**2 * np.diag(np.linalg.inv(change.T @ change + 1e-6 * np.eye(3)))
    x_sigma, y_sigma, _ = np.sqrt(variance).tolist()
    return ShadedDisc(
        x / scale[0],
        y / scale[1],
        x_sigma / scale[0],
        y_sigma / scale[1],
        radius / float(scale.max()),
        ramp(arc, *ARC_SHARE) * ramp(-clutter, *CLUTTER),
        float(np.quantile(grey[disc], BRIGHT_SIDE_QUANTILE)),
    )
