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
        part = np.floor((self.angles / (2 * math.pi) + 0.5) * parts).astype(np.intp) % parts
        return np.count_nonzero(np.bincount(part)) / parts

    def center_sigmas(self, point_sigma: float) -> tuple[float, float]:
        """One standard deviation of the centre, cells; `point_sigma`: of an outline point."""
        angles = self.angles
        change = np.column_stack([np.cos(angles), np.sin(angles), np.ones(len(angles))])
        variance = point_sigma**2 * np.diag(np.linalg.inv(change.T @ change + 1e-6 * np.eye(3)))
        x_sigma, y_sigma, _ = np.sqrt(variance).tolist()
        return x_sigma, y_sigma


def find_circles(
    outline: Outline, shape: tuple[int, ...], count: int
) -> Iterator[tuple[float, float, float]]:
    """Centre and radius of the circles with most votes from outline points (Hough transform); cells.

    `shape`: height and width of the picture; `count`: number of circles.
    """
    radii = RADII_CELLS.astype(np.float32)
    starts = ((outline.points.T + _CENTER_MARGIN_CELLS) / _VOTE_CELL).astype(np.float32)
    steps = (outline.normals.T / _VOTE_CELL).astype(np.float32)
    x, y = np.floor(starts[:, :, np.newaxis] - steps[:, :, np.newaxis] * radii)
    rows, columns = ((size + 2 * _CENTER_MARGIN_CELLS) // _VOTE_CELL for size in shape)
    inside = (x >= 0) & (x < columns) & (y >= 0) & (y < rows)
    index = (y * columns + x) * len(radii) + np.arange(len(radii), dtype=np.float32)
    # What is outside goes to a place of its own, as taking it away takes longer.
    outside = rows * columns * len(radii)
    index[~inside] = outside
    weights = np.repeat(outline.weights, len(radii))
    votes = np.bincount(index.ravel().astype(np.intp), weights, outside + 1)[:outside].astype(np.float32)
    votes = cv2.boxFilter(
        votes.reshape(rows, columns, -1), -1, (3, 3), normalize=False, borderType=cv2.BORDER_CONSTANT
    )
    votes[:, :, 1:-1] += votes[:, :, :-2] + votes[:, :, 2:]
    votes /= radii
    for _ in range(count):
        row, column, k = np.unravel_index(int(votes.argmax()), votes.shape)
        middle = np.array([column, row]) * _VOTE_CELL + (_VOTE_CELL - 1) / 2 - _CENTER_MARGIN_CELLS
        yield float(middle[0]), float(middle[1]), float(radii[k])
        votes[max(row - 1, 0) : row + 2, max(column - 1, 0) : column + 2] = 0.0


def fit_circle(
    outline: Outline, start: tuple[float, float, float], distances: Sequence[float]
) -> FittedCircle | None:
    """Fit a circle (Kasa 1976), starting from another one; None if the outline does not support one.

    `start`: centre and radius; `distances`: the largest distance of an outline point from the circle in each
    of the successive fits; cells.
    """
    x, y, radius = start
    u, v = np.ascontiguousarray(outline.points.T)
    u_normal, v_normal = np.ascontiguousarray(outline.normals.T)
    for near in distances:
        right, down = u - x, v - y
        squared = right * right + down * down
        distance = np.sqrt(squared)
        facing = right * u_normal + down * v_normal > MIN_NORMAL_COSINE * distance
        counted = np.flatnonzero((np.abs(distance - radius) < near) & facing)
        if len(counted) < MIN_OUTLINE_POINTS:
            return None
        weight = outline.weights[counted]
        terms = np.empty((4, len(counted)))  # squared = 2 x right + 2 y down + constant
        terms[0], terms[1], terms[2], terms[3] = 2 * right[counted], 2 * down[counted], 1.0, squared[counted]
        products = (terms * np.square(weight)) @ terms.T
        try:
            x_move, y_move, constant = np.linalg.solve(products[:3, :3], products[:3, 3]).tolist()
        except np.linalg.LinAlgError:  # all points on a line
            return None
        x, y = x + x_move, y + y_move
        radius = math.sqrt(max(constant + x_move**2 + y_move**2, 1.0))
    return FittedCircle(x, y, radius, outline.points[counted], weight)
