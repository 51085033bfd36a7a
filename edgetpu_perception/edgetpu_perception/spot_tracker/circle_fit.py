"""Circles through the points of an outline: looked for by votes, then fitted by least squares."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

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

_NEAR_CELLS = 4.0
"""Distance from a circle within which its points are looked for first. Limits the time: the first fits move a
circle by a cell or two, so that the later ones seldom need all points again."""

_ARC_PART_CELLS = 1.5
"""Length of the parts of a circle that an outline covers or not, cells. Derived: outline points are at most
1.4 cells apart."""

_MIN_ARC_PARTS = 8
"""Fewest parts of a circle. Uncritical."""


class Outline(NamedTuple):
    """Points of an outline with their outward normals and weights, cells; float64 [n] each."""

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    x_normal: NDArray[np.float64]
    y_normal: NDArray[np.float64]
    weights: NDArray[np.float64]

    def at(self, index: NDArray[np.intp]) -> Outline:
        """Some of its points."""
        return Outline(*(values[index] for values in self))

    def near(self, x: float, y: float, radius: float, distance: float) -> Outline:
        """Its points within a distance from a circle."""
        right, down = self.x - x, self.y - y
        apart = np.abs(np.sqrt(right * right + down * down) - radius)
        return self.at(np.flatnonzero(apart < distance))


@dataclass(frozen=True)
class FittedCircle:
    """A circle, cells, and the outline points that it was fitted to."""

    x: float
    y: float
    radius: float
    points: Outline

    @property
    def angles(self) -> NDArray[np.float64]:
        """Direction of each of its points from the centre, rad."""
        angles: NDArray[np.float64] = np.arctan2(self.points.y - self.y, self.points.x - self.x)
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
    rows, columns = ((size + 2 * _CENTER_MARGIN_CELLS) // _VOTE_CELL for size in shape)
    # Votes out of range go to a border, which is cut off below; filtering them out would be slower.
    x, y = (
        np.clip(_squares(value, normal, radii), 0.0, count + 1.0)
        for value, normal, count in (
            (outline.x, outline.x_normal, columns),
            (outline.y, outline.y_normal, rows),
        )
    )
    y *= columns + 2
    y += x
    y *= len(radii)
    y += np.arange(len(radii), dtype=np.float32)
    weights = np.repeat(outline.weights, len(radii))
    places = (rows + 2) * (columns + 2) * len(radii)
    votes = np.bincount(y.ravel().astype(np.intp), weights, places).astype(np.float32)
    votes = votes.reshape(rows + 2, columns + 2, -1)[1:-1, 1:-1]
    votes = cv2.boxFilter(
        np.ascontiguousarray(votes), -1, (3, 3), normalize=False, borderType=cv2.BORDER_CONSTANT
    )
    votes[:, :, 1:-1] += votes[:, :, :-2] + votes[:, :, 2:]
    votes /= radii
    for _ in range(count):
        row, column, k = np.unravel_index(int(votes.argmax()), votes.shape)
        middle = np.array([column, row]) * _VOTE_CELL + (_VOTE_CELL - 1) / 2 - _CENTER_MARGIN_CELLS
        yield float(middle[0]), float(middle[1]), float(radii[k])
        votes[max(row - 1, 0) : row + 2, max(column - 1, 0) : column + 2] = 0.0


def _squares(
    values: NDArray[np.float64], normals: NDArray[np.float64], radii: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Squares of votes, along an axis, in which centres at each radius from each point lie, from 1 on."""
    starts = ((values + _CENTER_MARGIN_CELLS) / _VOTE_CELL).astype(np.float32)
    steps = (normals / _VOTE_CELL).astype(np.float32)
    centers = steps[:, np.newaxis] * radii
    np.subtract(starts[:, np.newaxis], centers, out=centers)
    np.floor(centers, out=centers)
    centers += 1.0
    return centers


def fit_circle(
    outline: Outline, start: tuple[float, float, float], distances: Sequence[float]
) -> FittedCircle | None:
    """Fit a circle (Kasa 1976), starting from another one; None if the outline does not support one.

    `start`: centre and radius; `distances`: the largest distance of an outline point from the circle in each
    of the successive fits; cells.
    """
    x, y, radius = start
    part, first = outline.near(x, y, radius, _NEAR_CELLS), start
    for near in distances:
        if math.dist((x, y), first[:2]) + abs(radius - first[2]) + near > _NEAR_CELLS:
            part, first = outline.near(x, y, radius, _NEAR_CELLS), (x, y, radius)
        right, down = part.x - x, part.y - y
        squared = right * right + down * down
        distance = np.sqrt(squared)
        facing = right * part.x_normal + down * part.y_normal > MIN_NORMAL_COSINE * distance
        counted = np.flatnonzero((np.abs(distance - radius) < near) & facing)
        if len(counted) < MIN_OUTLINE_POINTS:
            return None
        terms = np.empty((4, len(counted)))  # squared = 2 x right + 2 y down + constant
        terms[0], terms[1], terms[2], terms[3] = 2 * right[counted], 2 * down[counted], 1.0, squared[counted]
        products = (terms * np.square(part.weights[counted])) @ terms.T
        try:
            x_move, y_move, constant = np.linalg.solve(products[:3, :3], products[:3, 3]).tolist()
        except np.linalg.LinAlgError:  # all points on a line
            return None
        x, y = x + x_move, y + y_move
        radius = math.sqrt(max(constant + x_move**2 + y_move**2, 1.0))
    return FittedCircle(x, y, radius, part.at(counted))
