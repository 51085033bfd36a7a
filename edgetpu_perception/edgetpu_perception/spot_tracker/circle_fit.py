"""Circles through the points of an outline: looked for by votes, then fitted by least squares."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

RADII_CELLS = np.arange(3.0, 20.0)
"""Radii that are looked for, cells: discs of 6 to 38 of the 64 cells.

Rows: spot, colours, full contrast, within 0.3.
"""

MAX_CIRCLES = 4
"""Number of circles, those with most votes, that are fitted. Limits the time. Rows: the same."""

MIN_OUTLINE_POINTS = 12
"""Fewest outline points of a circle. Rows: spot, colours, full contrast, right or unsure."""

MIN_NORMAL_COSINE = 0.8
"""Smallest cosine of the angle between the normals of outline and circle.

Rows: spot, colours, full contrast, within 0.3.
"""

_CENTER_MARGIN_CELLS = 12
"""How far outside the picture the centre of a circle may be, cells. Rows: the same."""

_VOTE_CELL = 2
"""Side, in cells, of the squares in which votes for a centre are counted. Limits the time."""

_MAX_MOVE_CELLS = 2.0
"""How far a circle may move or grow while only outline points near its start are used; beyond it, all are.

Limits the time; results do not depend on it.
"""

_ARC_PART_CELLS = 1.5
"""Length of the parts of a circle that an outline covers or not, cells. Derived: outline points are at most
1.4 cells apart."""

_MIN_ARC_PARTS = 8
"""Fewest parts of a circle. Uncritical."""


@dataclass(frozen=True)
class Outline:
    """Points of an outline with their outward normals, [n, 2] each, and weights, [n]; cells."""

    points: NDArray[np.float64]
    normals: NDArray[np.float64]
    weights: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.points)


@dataclass(frozen=True)
class FittedCircle:
    """A circle, cells, and the outline points that it was fitted to."""

    x: float
    y: float
    radius: float
    on_circle: NDArray[np.float64]
    """[n, 2]"""
    weights: NDArray[np.float64]
    """[n]"""

    @property
    def angles(self) -> NDArray[np.float64]:
        """Direction of each of its points from the centre, rad."""
        angles: NDArray[np.float64] = np.arctan2(self.on_circle[:, 1] - self.y, self.on_circle[:, 0] - self.x)
        return angles

    @property
    def covered_share(self) -> float:
        """Share of the circle that has outline points."""
        parts = max(round(2 * math.pi * self.radius / _ARC_PART_CELLS), _MIN_ARC_PARTS)
        return len(np.unique(np.floor((self.angles / (2 * math.pi) + 0.5) * parts) % parts)) / parts

    def center_sigmas(self, point_sigma: float) -> tuple[float, float]:
        """One standard deviation of the centre, cells; `point_sigma`: of an outline point."""
        angles = self.angles
        change = np.column_stack([np.cos(angles), np.sin(angles), np.ones(len(angles))])
        variance = point_sigma**2 * np.diag(np.linalg.inv(change.T @ change + 1e-6 * np.eye(3)))
        x_sigma, y_sigma, _ = np.sqrt(variance).tolist()
        return x_sigma, y_sigma


def find_circles(outline: Outline, shape: tuple[int, ...]) -> Iterator[tuple[float, float, float]]:
    """Centre and radius of the circles with most votes from outline points (Hough transform); cells.

    `shape`: height and width of the picture.
    """
    centers = outline.points[:, :, np.newaxis] - outline.normals[:, :, np.newaxis] * RADII_CELLS
    centers += _CENTER_MARGIN_CELLS
    centers /= _VOTE_CELL
    cells = np.floor(centers).astype(np.intp)  # `//` takes several times as long
    rows, columns = ((size + 2 * _CENTER_MARGIN_CELLS) // _VOTE_CELL for size in shape)
    x, y = cells[:, 0], cells[:, 1]
    inside = (x >= 0) & (x < columns) & (y >= 0) & (y < rows)
    index = ((y * columns + x) * len(RADII_CELLS) + np.arange(len(RADII_CELLS)))[inside]
    weights = np.repeat(outline.weights, len(RADII_CELLS)).reshape(inside.shape)[inside]
    votes = np.bincount(index, weights, rows * columns * len(RADII_CELLS)).astype(np.float32)
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


def fit_circle(
    outline: Outline, start: tuple[float, float, float], distances: Sequence[float]
) -> FittedCircle | None:
    """Fit a circle (Kasa 1976), starting from another one; None if the outline does not support one.

    `start`: centre and radius; `distances`: the largest distance of an outline point from the circle in each
    of the successive fits; cells.
    """
    x, y, radius = start
    everything, reach = outline, distances[0] + _MAX_MOVE_CELLS
    outline = _near(everything, start, reach)
    for near in distances:
        if math.dist((x, y), start[:2]) + abs(radius - start[2]) + near > reach:
            outline, reach = everything, math.inf
        away = outline.points - (x, y)
        distance = np.maximum(np.hypot(away[:, 0], away[:, 1]), 1e-6)
        facing = (away * outline.normals).sum(axis=1) / distance
        counted = (np.abs(distance - radius) < near) & (facing > MIN_NORMAL_COSINE)
        on_circle, weight = outline.points[counted], outline.weights[counted, np.newaxis]
        if len(on_circle) < MIN_OUTLINE_POINTS:
            return None
        unknowns = np.column_stack([2 * on_circle, np.ones(len(on_circle))])
        (x, y, power), *_ = np.linalg.lstsq(
            weight * unknowns, weight[:, 0] * np.square(on_circle).sum(axis=1), rcond=None
        )
        radius = math.sqrt(max(power + x * x + y * y, 1.0))
    return FittedCircle(x, y, radius, on_circle, weight[:, 0])


def _near(outline: Outline, circle: tuple[float, float, float], reach: float) -> Outline:
    """The outline points within a distance of a circle, cells."""
    x, y, radius = circle
    distance = np.hypot(outline.points[:, 0] - x, outline.points[:, 1] - y)
    near = np.flatnonzero(np.abs(distance - radius) < reach)
    return Outline(outline.points[near], outline.normals[near], outline.weights[near])
