"""A disc of one flat colour that has grown together with a part of the scene, found by its arc."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.confidence import ramp

RADII = np.arange(3.0, 20.0)
"""Radii that are looked for, cells."""

CANDIDATES = 4
"""So many of the best circles are looked at closely."""

LEAST_POINTS = 12
"""Of fewer points on its outline a circle is not believed."""

NEAR = (1.5, 1.0, 0.8, 0.8)
"""How far off the circle a point of the outline may be, cells, in one fit after the other."""

FACING = 0.8
"""Cosine of the angle between the outline and the circle, at least."""

FULL = 0.97
"""Share of the cells in the circle that have the colour, at least."""

ARC = (0.5, 0.9)
"""Share of the circle that is outline: chance below the first, no doubt above the second ..."""

MOST_CONFIDENCE = 0.45
"""... but as much confidence at most: a scene has round things of its own."""

STEP = 0.4
"""Standard deviation of a point of the outline, cells; more than its rounding: those beside it err alike."""

_MARGIN = 12
"""By so much, cells, the centre of a circle may be outside of the picture."""

_GRID = 2
"""Cells in which votes for a centre are counted together, along each axis."""


@dataclass(frozen=True)
class RoundTarget:
    """A disc; positions in cells."""

    x: float
    y: float
    x_sigma: float
    y_sigma: float
    confidence: float


def find_round_target(flat: NDArray[np.uint8]) -> RoundTarget | None:
    """The disc with the most complete outline among the cells of one colour, not 0, in a map [H, W].

    A Hough transform of the outline with its directions, then circles by least squares (Kasa 1976).
    """
    points, normals = _outline(flat)
    if len(points) < LEAST_POINTS:
        return None
    best = None
    for x, y, radius in _circles(points, normals, flat.shape):
        target = _fitted(flat, points, normals, x, y, radius)
        if target is not None and (best is None or target.confidence > best.confidence):
            best = target
    return best


def _outline(flat: NDArray[np.uint8]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Points midway between cells of the colour and others beside them, and directions outwards: [n, 2]."""
    smooth = cv2.GaussianBlur((flat > 0).astype(np.float32), (0, 0), 1.5)
    slope = np.stack([cv2.Sobel(smooth, cv2.CV_32F, 1, 0), cv2.Sobel(smooth, cv2.CV_32F, 0, 1)], axis=-1)
    y, x = np.nonzero((flat[:, 1:] > 0) != (flat[:, :-1] > 0))
    v, u = np.nonzero((flat[1:] > 0) != (flat[:-1] > 0))
    points = np.vstack([np.column_stack([x + 0.5, y]), np.column_stack([u, v + 0.5])])
    outwards = -np.vstack([slope[y, x] + slope[y, x + 1], slope[v, u] + slope[v + 1, u]]).astype(np.float64)
    return points, outwards / np.maximum(np.linalg.norm(outwards, axis=1, keepdims=True), 1e-6)


def _circles(
    points: NDArray[np.float64], normals: NDArray[np.float64], shape: tuple[int, ...]
) -> Iterator[tuple[float, float, float]]:
    """Centre and radius of the circles that most of the outline votes for."""
    centers = points[:, :, np.newaxis] - normals[:, :, np.newaxis] * RADII
    cells = ((centers + _MARGIN) // _GRID).astype(np.intp)
    rows, columns = ((size + 2 * _MARGIN) // _GRID for size in shape)
    x, y = cells[:, 0], cells[:, 1]
    inside = (x >= 0) & (x < columns) & (y >= 0) & (y < rows)
    index = ((y * columns + x) * len(RADII) + np.arange(len(RADII)))[inside]
    votes = np.bincount(index, minlength=rows * columns * len(RADII)).astype(np.float32)
    votes = cv2.boxFilter(
        votes.reshape(rows, columns, -1), -1, (3, 3), normalize=False, borderType=cv2.BORDER_CONSTANT
    )
    votes[:, :, 1:-1] += votes[:, :, :-2] + votes[:, :, 2:]
    votes /= RADII.astype(np.float32)
    for _ in range(CANDIDATES):
        row, column, k = np.unravel_index(int(votes.argmax()), votes.shape)
        middle = np.array([column, row]) * _GRID + (_GRID - 1) / 2 - _MARGIN
        yield float(middle[0]), float(middle[1]), float(RADII[k])
        votes[max(row - 1, 0) : row + 2, max(column - 1, 0) : column + 2] = 0.0


def _fitted(
    flat: NDArray[np.uint8],
    points: NDArray[np.float64],
    normals: NDArray[np.float64],
    x: float,
    y: float,
    radius: float,
) -> RoundTarget | None:
    """The disc next to a circle; None where there is none."""
    for near in NEAR:
        away = points - (x, y)
        distance = np.maximum(np.hypot(away[:, 0], away[:, 1]), 1e-6)
        facing = (away * normals).sum(axis=1) / distance
        on_circle = points[(np.abs(distance - radius) < near) & (facing > FACING)]
        if len(on_circle) < LEAST_POINTS:
            return None
        unknowns = np.column_stack([2 * on_circle, np.ones(len(on_circle))])
        (x, y, power), *_ = np.linalg.lstsq(unknowns, np.square(on_circle).sum(axis=1), rcond=None)
        radius = math.sqrt(max(power + x * x + y * y, 1.0))
    if not RADII[0] - 1.0 < radius < RADII[-1] + 1.0:
        return None
    row, column = np.indices(flat.shape)
    disc = np.hypot(column - x, row - y) < radius - 0.7
    if not disc.any() or np.count_nonzero(flat[disc]) < FULL * np.count_nonzero(disc):
        return None
    angle = np.arctan2(on_circle[:, 1] - y, on_circle[:, 0] - x)
    parts = round(2 * math.pi * radius / 1.5)
    arc = len(np.unique(np.floor((angle / (2 * math.pi) + 0.5) * parts) % parts)) / parts
    change = np.column_stack([np.cos(angle), np.sin(angle), np.ones(len(angle))])
    variance = STEP**2 * np.diag(np.linalg.inv(change.T @ change + 1e-6 * np.eye(3)))
    x_sigma, y_sigma, _ = np.sqrt(variance).tolist()
    return RoundTarget(float(x), float(y), x_sigma, y_sigma, MOST_CONFIDENCE * ramp(arc, *ARC))
