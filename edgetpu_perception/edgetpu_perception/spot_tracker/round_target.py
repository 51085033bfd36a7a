"""A disc of one flat colour that touches a part of the scene of the same colour, found by its arc."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.confidence_ramp import ramp
from edgetpu_perception.spot_tracker.circle_fit import (
    MIN_OUTLINE_POINTS,
    RADII_CELLS,
    FittedCircle,
    Outline,
    find_circles,
    fit_circle,
)

MAX_CIRCLES = 4
"""Number of circles, those with most votes, that are fitted. Limits the time. Rows: spot, colours, full
contrast, within 0.3."""

MAX_DISTANCES_CELLS = (1.5, 1.0, 0.8, 0.8)
"""Largest distance in cells of an outline point from the circle in each of the successive fits.

Rows: spot, colours, full contrast, within 0.3.
"""

MIN_FILLED_SHARE = 0.97
"""Smallest share of the cells inside the circle that have the colour. Rows: the same."""

COVERED_ARC_SHARE = (0.5, 0.9)
"""Share of the circle covered by outline: chance up to the first, full confidence from the second on.

Rows: spot, colours, full contrast, right or unsure.
"""

MAX_ROUND_CONFIDENCE = 0.45
"""Upper limit of the confidence of a disc found by its arc.

Derived: below SUFFICIENT_CONFIDENCE (disc_around_spot.py), as scenes contain other round objects.
"""

OUTLINE_POINT_SIGMA = 0.4
"""Standard deviation of an outline point, cells.

Larger than its rounding (0.29), as the errors of neighbours are correlated. Rows: spot, colours, full
contrast, inside one sigma.
"""


@dataclass(frozen=True)
class RoundTarget:
    """A disc; positions in cells."""

    x: float
    y: float
    x_sigma: float
    y_sigma: float
    confidence: float


def find_round_target(flat: NDArray[np.uint8]) -> RoundTarget | None:
    """Find the disc with the most complete outline among the non-zero cells of a map [H, W], if any."""
    outline = _outline(flat)
    if outline.values.shape[1] < MIN_OUTLINE_POINTS:
        return None
    best = None
    for start in find_circles(outline, flat.shape, MAX_CIRCLES):
        circle = fit_circle(outline, start, MAX_DISTANCES_CELLS)
        target = _target(flat, circle) if circle is not None else None
        if target is not None and (best is None or target.confidence > best.confidence):
            best = target
    return best


def _outline(flat: NDArray[np.uint8]) -> Outline:
    """Points midway between cells of the colour and their other neighbours."""
    smooth = cv2.GaussianBlur((flat > 0).astype(np.float32), (0, 0), 1.5)
    slope = np.stack([cv2.Sobel(smooth, cv2.CV_32F, 1, 0), cv2.Sobel(smooth, cv2.CV_32F, 0, 1)], axis=-1)
    y, x = np.nonzero((flat[:, 1:] > 0) != (flat[:, :-1] > 0))
    v, u = np.nonzero((flat[1:] > 0) != (flat[:-1] > 0))
    outwards = -np.vstack([slope[y, x] + slope[y, x + 1], slope[v, u] + slope[v + 1, u]]).astype(np.float64)
    x_normal, y_normal = (
        outwards / np.maximum(np.linalg.norm(outwards, axis=1, keepdims=True), 1e-6)
    ).T.copy()
    x_points, y_points = np.concatenate([x + 0.5, u]), np.concatenate([y, v + 0.5])
    return Outline(np.stack([x_points, y_points, x_normal, y_normal, np.ones(len(x_points))]))


def _target(flat: NDArray[np.uint8], circle: FittedCircle) -> RoundTarget | None:
    """The disc within a circle; None if it has another colour or a size that is not searched for."""
    if not RADII_CELLS[0] - 1.0 < circle.radius < RADII_CELLS[-1] + 1.0:
        return None
    row, column = np.indices(flat.shape)
    disc = np.hypot(column - circle.x, row - circle.y) < circle.radius - 0.7
    if not disc.any() or np.count_nonzero(flat[disc]) < MIN_FILLED_SHARE * np.count_nonzero(disc):
        return None
    confidence = MAX_ROUND_CONFIDENCE * ramp(circle.covered_share, *COVERED_ARC_SHARE)
    sigmas = circle.center_sigmas(OUTLINE_POINT_SIGMA)
    return RoundTarget(float(circle.x), float(circle.y), *sigmas, confidence)
