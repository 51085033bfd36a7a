"""Circles through the points of an outline: found by votes, then fitted by least squares."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

RADII_CELLS = np.arange(3.0, 20.0)
"""Radii that are searched for, cells: discs of 6 to 38 of the 64 cells.

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
    """Points of an outline with their outward normals and weights, cells."""

    values: NDArray[np.float64]
    """A row each of x, y, x and y of the normals, and weights, [5, n]."""

    def near(self, x: float, y: float, radius: float, distance: float) -> Outline:
        """Its points within a distance from a circle."""
        right, down = self.values[0] - x, self.values[1] - y
        apart = np.abs(np.sqrt(right * right + down * down) - radius)
        return self.at(np.flatnonzero(apart < distance))

    def at(self, index: NDArray[np.intp]) -> Outline:
        """Its points with these indices, [n]."""
        return Outline(self.values.take(index, axis=1))


@dataclass(frozen=True)
class FittedCircle:
    """A circle in cells, and the outline points that it was fitted to."""

    x: float
    y: float
    radius: float
    points: Outline

    @property
    def angles(self) -> NDArray[np.float64]:
        """Direction of each of its points from the centre, rad."""
        x, y = self.points.values[:2]
        angles: NDArray[np.float64] = np.arctan2(y - self.y, x - self.x)
        return angles

    @property
    def covered_share(self) -> float:
        """Share of the circle that has outline points."""
        parts = _arc_parts(self.radius)
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
    values = outline.values
    x, y = (
        np.clip(_squares(values[axis], values[axis + 2], radii), 0.0, count + 1.0)
        for axis, count in enumerate((columns, rows))
    )
    y *= columns + 2
    y += x
    y *= len(radii)
    y += np.arange(len(radii), dtype=np.float32)
    weights = np.repeat(values[4], len(radii))
    counters = (rows + 2) * (columns + 2) * len(radii)
    votes = np.bincount(y.ravel().astype(np.intp), weights, counters).astype(np.float32)
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
    """Index along an axis, from 1, of the square of votes with the centre at each radius from each point."""
    starts = ((values + _CENTER_MARGIN_CELLS) / _VOTE_CELL).astype(np.float32)
    steps = (normals / _VOTE_CELL).astype(np.float32)
    centers = steps[:, np.newaxis] * radii
    np.subtract(starts[:, np.newaxis], centers, out=centers)
    np.floor(centers, out=centers)
    centers += 1.0
    return centers


def fit_circle(
    outline: Outline, start: tuple[float, float, float], distances: Sequence[float], least_share: float = 0.0
) -> FittedCircle | None:
    """Fit a circle (Kasa 1976), starting from another one; None if the outline does not support one.

    `start`: centre and radius; `distances`: the largest distance of an outline point from the circle in each
    of the successive fits; cells. `least_share`: share of the circle that must have outline points; fitting
    ends once too few points are left for that.
    """
    x, y, radius = start
    part, first = outline.near(x, y, radius, _NEAR_CELLS), start
    for near in distances:
        if math.dist((x, y), first[:2]) + abs(radius - first[2]) + near > _NEAR_CELLS:
            part, first = outline.near(x, y, radius, _NEAR_CELLS), (x, y, radius)
        terms = _terms(part, x, y)
        counted = _is_on_circle(part, terms, radius, near)
        if np.count_nonzero(counted) < max(MIN_OUTLINE_POINTS, least_share * _arc_parts(radius)):
            return None
        moved = _solved(((terms * (np.square(part.values[4]) * counted)) @ terms.T).tolist())
        if moved is None:
            return None
        x_move, y_move, constant = moved
        x, y = x + x_move, y + y_move
        radius = math.sqrt(max(constant + x_move**2 + y_move**2, 1.0))
    return FittedCircle(x, y, radius, part.at(np.flatnonzero(counted)))


def _terms(part: Outline, x: float, y: float) -> NDArray[np.float64]:
    """Of each point as seen from a centre: right, down, 1, and the squared distance; [4, n]."""
    terms = np.empty((4, part.values.shape[1]))
    np.subtract(part.values[:2], ((x,), (y,)), out=terms[:2])
    terms[2] = 1.0
    squares = np.square(terms[:2])
    np.add(squares[0], squares[1], out=terms[3])
    return terms


def _is_on_circle(part: Outline, terms: NDArray[np.float64], radius: float, near: float) -> NDArray[np.bool_]:
    """Whether each point is near a circle and its normal points away from the centre, [n]."""
    distance = np.sqrt(terms[3])
    right, down = terms[:2] * part.values[2:4]
    is_near: NDArray[np.bool_] = np.abs(distance - radius) < near
    distance *= MIN_NORMAL_COSINE
    is_near &= right + down > distance
    return is_near


def _solved(products: list[list[float]]) -> tuple[float, float, float] | None:
    """x, y and constant of squared distance = 2 x right + 2 y down + constant, by Cramer's rule.

    `products`: sums of products of any two of `_terms`. None if all points are on a line. For a system this
    small numpy.linalg.solve takes longer.
    """
    (rr, rd, r, rq), (_, dd, d, dq), (_, _, n, q) = products[:3]
    minor_r, minor_d, minor_1 = dd * n - d * d, d * r - rd * n, rd * d - dd * r
    determinant = rr * minor_r + rd * minor_d + r * minor_1
    if determinant == 0.0:
        return None
    x = (rq * minor_r + dq * minor_d + q * minor_1) / determinant
    y = (rq * minor_d + dq * (rr * n - r * r) + q * (rd * r - rr * d)) / determinant
    constant = (rq * minor_1 + dq * (rd * r - rr * d) + q * (rr * dd - rd * rd)) / determinant
    return x / 2, y / 2, constant


def _arc_parts(radius: float) -> int:
    """Number of parts of a circle that an outline covers or not."""
    return max(round(2 * math.pi * radius / _ARC_PART_CELLS), _MIN_ARC_PARTS)
