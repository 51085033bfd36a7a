"""A disc of one flat colour that touches a part of the scene of the same colour, found by its arc."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.confidence import ramp

RADII_CELLS = np.arange(3.0, 20.0)
"""Radii that are looked for, cells: discs of 6 to 38 of the 64 cells.

Rows: spot, colours, full contrast, within 0.3.
"""

MAX_CIRCLES = 4
"""Number of circles, those with most votes, that are fitted. Limits the time. Rows: the same."""

MIN_OUTLINE_POINTS = 12
"""Fewest outline points of a circle. Rows: spot, colours, full contrast, right or unsure."""

MAX_DISTANCES_CELLS = (1.5, 1.0, 0.8, 0.8)
"""Largest distance of an outline point from the circle, cells, in each of the successive fits.

Rows: spot, colours, full contrast, within 0.3.
"""

MIN_NORMAL_COSINE = 0.8
"""Smallest cosine of the angle between the normals of outline and circle. Rows: the same."""

MIN_FILLED_SHARE = 0.97
"""Smallest share of the cells inside the circle that have the colour. Rows: the same."""

COVERED_ARC_SHARE = (0.5, 0.9)
"""Share of the circle covered by outline: chance up to the first, full confidence from the second on.

Rows: spot, colours, full contrast, right or unsure.
"""

MAX_ROUND_CONFIDENCE = 0.45
"""Upper limit of the confidence of a disc found by its arc.

Derived: below SUFFICIENT_CONFIDENCE of the evidence decoder, as scenes have round things of their own.
"""

OUTLINE_POINT_SIGMA = 0.4
"""Standard deviation of an outline point, cells.

Larger than its rounding (0.29), as the errors of neighbours are correlated. Rows: spot, colours, full
contrast, inside one sigma.
"""

_CENTER_MARGIN_CELLS = 12
"""How far outside the picture the centre of a circle may be, cells.

Rows: spot, colours, full contrast, within 0.3.
"""

_VOTE_CELL = 2
"""Side, in cells, of the squares in which votes for a centre are counted. Limits the time."""


@dataclass(frozen=True)
class RoundTarget:
    """A disc; positions in cells."""

    x: float
    y: float
    x_sigma: float
    y_sigma: float
    confidence: float


def find_round_target(flat: NDArray[np.uint8]) -> RoundTarget | None:
    """Find the disc with the most complete outline among the non-zero cells of a map [H, W], if any.

    A Hough transform of the outline points with their normals, then circles by least squares (Kasa 1976).
    """
    points, normals = _outline(flat)
    if len(points) < MIN_OUTLINE_POINTS:
        return None
    best = None
    for x, y, radius in circles(points, normals, flat.shape):
        target = _fitted(flat, points, normals, x, y, radius)
        if target is not None and (best is None or target.confidence > best.confidence):
            best = target
    return best


def _outline(flat: NDArray[np.uint8]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Points midway between cells of the colour and their other neighbours, and outward normals: [n, 2]."""
    smooth = cv2.GaussianBlur((flat > 0).astype(np.float32), (0, 0), 1.5)
    slope = np.stack([cv2.Sobel(smooth, cv2.CV_32F, 1, 0), cv2.Sobel(smooth, cv2.CV_32F, 0, 1)], axis=-1)
    y, x = np.nonzero((flat[:, 1:] > 0) != (flat[:, :-1] > 0))
    v, u = np.nonzero((flat[1:] > 0) != (flat[:-1] > 0))
    points = np.vstack([np.column_stack([x + 0.5, y]), np.column_stack([u, v + 0.5])])
    outwards = -np.vstack([slope[y, x] + slope[y, x + 1], slope[v, u] + slope[v + 1, u]]).astype(np.float64)
    return points, outwards / np.maximum(np.linalg.norm(outwards, axis=1, keepdims=True), 1e-6)


def circles(
    points: NDArray[np.float64],
    normals: NDArray[np.float64],
    shape: tuple[int, ...],
    weights: NDArray[np.float64] | None = None,
) -> Iterator[tuple[float, float, float]]:
    """Centre and radius of the circles with most votes from outline points; cells."""
    centers = points[:, :, np.newaxis] - normals[:, :, np.newaxis] * RADII_CELLS
    cells = ((centers + _CENTER_MARGIN_CELLS) // _VOTE_CELL).astype(np.intp)
    rows, columns = ((size + 2 * _CENTER_MARGIN_CELLS) // _VOTE_CELL for size in shape)
    x, y = cells[:, 0], cells[:, 1]
    inside = (x >= 0) & (x < columns) & (y >= 0) & (y < rows)
    index = ((y * columns + x) * len(RADII_CELLS) + np.arange(len(RADII_CELLS)))[inside]
    each = None if weights is None else np.repeat(weights, len(RADII_CELLS)).reshape(inside.shape)[inside]
    votes = np.bincount(index, each, rows * columns * len(RADII_CELLS)).astype(np.float32)
    votes = cv2.boxFilter(
        votes.reshape(rows, columns, -1), -1, (3, 3), normalize=False, borderType=cv2.BORDER_CONSTANT
    )
    votes[:, :, 1:-1] += votes[:, :, :-2] + votes[:, :, 2:]
    votes /= RADII_CELLS.astype(np.float32)
    for _ in range(MAX_CIRCLES):
        row, column, k = np.unravel_index(int(votes.argmax()), votes.shape)
        middle = np.array([column, row]) * _VOTE_CELL + (_VOTE_CELL - 1) / 2 - _CENTER_MARGIN_CELLS
        yield float(middle[0]), float(middle[1]), float(RADII_CELLS[k])
        votes[max(row - 1, 0) : row + 2, max(column - 1, 0) : column + 2] = 0.0


def _fitted(
    flat: NDArray[np.uint8],
    points: NDArray[np.float64],
    normals: NDArray[np.float64],
    x: float,
    y: float,
    radius: float,
) -> RoundTarget | None:
    """Fit a disc, starting from a circle; None if the outline does not support one."""
    for near in MAX_DISTANCES_CELLS:
        away = points - (x, y)
        distance = np.maximum(np.hypot(away[:, 0], away[:, 1]), 1e-6)
        facing = (away * normals).sum(axis=1) / distance
        on_circle = points[(np.abs(distance - radius) < near) & (facing > MIN_NORMAL_COSINE)]
        if len(on_circle) < MIN_OUTLINE_POINTS:
            return None
        unknowns = np.column_stack([2 * on_circle, np.ones(len(on_circle))])
        (x, y, power), *_ = np.linalg.lstsq(unknowns, np.square(on_circle).sum(axis=1), rcond=None)
        radius = math.sqrt(max(power + x * x + y * y, 1.0))
    if not RADII_CELLS[0] - 1.0 < radius < RADII_CELLS[-1] + 1.0:
        return None
    row, column = np.indices(flat.shape)
    disc = np.hypot(column - x, row - y) < radius - 0.7
    if not disc.any() or np.count_nonzero(flat[disc]) < MIN_FILLED_SHARE * np.count_nonzero(disc):
        return None
    angle = np.arctan2(on_circle[:, 1] - y, on_circle[:, 0] - x)
    parts = round(2 * math.pi * radius / 1.5)
    arc = len(np.unique(np.floor((angle / (2 * math.pi) + 0.5) * parts) % parts)) / parts
    change = np.column_stack([np.cos(angle), np.sin(angle), np.ones(len(angle))])
    variance = OUTLINE_POINT_SIGMA**2 * np.diag(np.linalg.inv(change.T @ change + 1e-6 * np.eye(3)))
    x_sigma, y_sigma, _ = np.sqrt(variance).tolist()
    return RoundTarget(
        float(x), float(y), x_sigma, y_sigma, MAX_ROUND_CONFIDENCE * ramp(arc, *COVERED_ARC_SHARE)
    )
