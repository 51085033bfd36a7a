"""Motion that changes across a picture: of a camera that turns, rolls, drives ahead or sees a slanted plane.

The part that follows one shift may then be anywhere in the picture. With these changes removed, the picture
again follows one shift, the median of the motion over the picture.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.optical_flow.dominant_motion import MAX_DEVIATION_CELLS, follow
from edgetpu_perception.optical_flow.motion_field import MotionField, monomials
from edgetpu_perception.optical_flow.normal_equations import (
    MIN_ENERGY,
    PAIRS,
    NormalEquations,
    centers,
)

DEVIATION_CELLS = MAX_DEVIATION_CELLS / 2
"""Deviation from the smooth motion in cells above which a neighbourhood no longer follows it.

Derived: a smooth motion bridges about half of the difference to a part that moves independently.
"""

DEVIATION_SHARE = 0.1
"""Further deviation, as a share of the difference from the motion in the middle of the picture.

Gradient-based least squares fall short for differences of more than a cell. Uncritical from 0.05 to 0.2;
with 0, photographs that roll by 3 deg are 1.6 px off (rms) instead of 0.2.
"""

STEPS = 3
"""Least-squares steps in which the part that follows is settled. Uncritical from 3 on."""

LEAST_SHARE = 1e-9
"""Added to the normal matrix, as a share of its largest element, so that stripes do not make it singular.

Derived: far above the rounding of its elements, far below what a texture adds.
"""

LEAST_FOLLOWING_WEIGHT = 0.5
"""Weight below which a neighbourhood does not follow the motion. Derived: half of that of one that does."""

MIN_VARIANCE = 1e-12
"""Added to variances of unknowns so that frames without noise do not divide by zero.

Derived: (1e-6 cells)^2.
"""

_POWERS = (((0, 0), (1, 0), (0, 1), (2, 0), (1, 1)), ((0, 0), (1, 0), (0, 1), (1, 1), (0, 2)))
"""Powers of x and y in the monomials of a position. Given by motion_field.monomials."""

_TERMS = (*((0, powers) for powers in _POWERS[0]), *((1, powers) for powers in _POWERS[1]), (2, (0, 0)))
"""Terms: a derivative (dx, dy, contrast) times a monomial of a position. Given by the equations."""

_UNKNOWNS = np.eye(9)[:, [0, 1, 2, 3, 4, 5, 6, 7, 3, 4, 8]]
"""Terms of each unknown, [9, 11]: both dx and dy change by two of them, p x^2 + q xy and p xy + q y^2, if a
camera turns or sees a plane (Longuet-Higgins, 1984). Given by the equations."""

_QUADRATIC = [3, 4]
"""Indices of p and q. Given by _UNKNOWNS."""

BY_CHANCE = float(len(_QUADRATIC))
"""Mean sum of the squares of p and q over their variances, by noise alone. Given by their number."""

_PRODUCTS = tuple((total - y, y) for total in range(5) for y in range(total + 1))
"""Powers of x and y in a product of two monomials of a position. Given by _POWERS."""


def _moment_index(first: tuple[int, tuple[int, int]], second: tuple[int, tuple[int, int]]) -> int:
    """Index in the moments of the product of two terms; derivative 3 is the residual."""
    (one, (x, y)), (other, (u, v)) = first, second
    return _PRODUCTS.index((x + u, y + v)) * len(PAIRS) + PAIRS.index((min(one, other), max(one, other)))


_SYSTEM = np.array([[_moment_index(row, column) for column in (*_TERMS, (3, (0, 0)))] for row in _TERMS])
"""Indices in the moments of the products of terms with each other and with the residual, [11, 12].

Given by _TERMS.
"""


@dataclass(frozen=True, eq=False)
class SmoothMotion:
    """A smooth motion, and how well it explains the picture."""

    equations: NormalEquations
    system: NDArray[np.float64]
    """Normal matrix of the unknowns, [9, 9]."""
    solution: NDArray[np.float64]
    """The unknowns, before `_without_noise`: [9]."""
    weights: NDArray[np.float64]
    """Those with which the neighbourhoods determined the solution, [n]."""
    dx: NDArray[np.float64]
    """Motion of each neighbourhood from the whole shift by that solution, cells: [n]."""
    dy: NDArray[np.float64]
    left: NDArray[np.float64]
    """Sum of squares that this motion leaves in each neighbourhood, [n]."""
    followers: NDArray[np.float64]
    """1 for neighbourhoods that follow this motion, less for the others: [n]."""

    @property
    def farthest(self) -> float:
        """Largest motion along an axis in any neighbourhood, from the whole shift, cells."""
        return float(max(np.abs(self.dx).max(), np.abs(self.dy).max()))

    def field(self) -> MotionField:
        """The motion at every position, without the effect of noise."""
        equations = self.equations
        unit, places, _ = _positions(equations.rows, equations.columns, equations.side)
        pulls = _UNKNOWNS @ _pulls(equations, places, self.dx, self.dy, float(self.solution[-1]))
        covariance = _covariance(self.system, pulls * np.square(self.weights))
        terms = _without_noise(self.solution, covariance) @ _UNKNOWNS
        of_terms = _UNKNOWNS.T @ covariance @ _UNKNOWNS
        followers = self.followers
        return MotionField(
            unit,
            terms[:10].reshape(2, 5),
            np.array((of_terms[:5, :5], of_terms[5:10, 5:10])),
            _means(places, np.square(followers), equations),
            int(np.count_nonzero(followers < LEAST_FOLLOWING_WEIGHT)) / len(followers),
        )


def smooth_motion(equations: NormalEquations, common: float) -> SmoothMotion:
    """The smooth motion that most of the picture follows.

    `common`: largest sum of squares that noise leaves in a neighbourhood.
    """
    _, places, products = _positions(equations.rows, equations.columns, equations.side)
    slope, sums = equations.slope, equations.sums.T
    after = np.ones(places.shape[2])
    for _ in range(STEPS):
        weights = after
        system, solution = _least_squares((products * np.square(weights)).dot(sums))
        terms = solution.dot(_UNKNOWNS)
        dx, dy = terms[:5].dot(places[0]), terms[5:10].dot(places[1])
        left = equations.left_by_each(dx, dy, float(terms[10]))
        deviation = DEVIATION_CELLS + DEVIATION_SHARE * np.hypot(dx - terms[0], dy - terms[5])
        after = follow(left / (common + np.square(deviation) * slope))
    return SmoothMotion(equations, system, solution, weights, dx, dy, left, after)


def _pulls(
    equations: NormalEquations,
    places: NDArray[np.float64],
    dx: NDArray[np.float64],
    dy: NDArray[np.float64],
    contrast: float,
) -> NDArray[np.float64]:
    """How far each neighbourhood pulls each term away from the solution, [11, neighbourhoods]."""
    xx, xy, xc, xr, yy, yc, yr, cc, cr, _ = equations.sums
    by_dx = xr - xx * dx - xy * dy - contrast * xc
    by_dy = yr - xy * dx - yy * dy - contrast * yc
    by_contrast = cr - xc * dx - yc * dy - contrast * cc
    return np.concatenate((places[0] * by_dx, places[1] * by_dy, by_contrast[np.newaxis]))


def _covariance(system: NDArray[np.float64], pulls: NDArray[np.float64]) -> NDArray[np.float64]:
    """Covariance of the unknowns, [9, 9] (White, 1980).

    `pulls`: how far each neighbourhood pulls them, [9, neighbourhoods].
    """
    unknowns, count = pulls.shape
    pulled = np.linalg.inv(system) @ pulls
    return np.asarray(pulled @ pulled.T * (count / max(count - unknowns, 1)))


def _without_noise(solution: NDArray[np.float64], covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """The solution, [9], with its quadratic unknowns reduced by the effect of noise.

    They are scaled by the share of their squares, over their variances, that exceeds the mean under noise.
    `covariance`: [9, 9].
    """
    quadratic = solution[_QUADRATIC]
    among = covariance[np.ix_(_QUADRATIC, _QUADRATIC)] + MIN_VARIANCE * np.eye(len(quadratic))
    certain = np.linalg.solve(among, quadratic)
    by_noise = min(BY_CHANCE / max(float(quadratic @ certain), BY_CHANCE), 1.0)
    return np.asarray(solution - by_noise * (covariance[:, _QUADRATIC] @ certain))


def _means(
    places: NDArray[np.float64], squares: NDArray[np.float64], equations: NormalEquations
) -> NDArray[np.float64]:
    """Means of the monomials, weighted with how far each place determined dx and dy: [2, 5].

    `squares`: squared weights of the neighbourhoods, [neighbourhoods].
    """
    pairs = [PAIRS.index((0, 0)), PAIRS.index((1, 1))]
    shares = equations.sums[pairs] * squares + MIN_ENERGY
    return np.asarray((places @ shares[..., np.newaxis])[..., 0] / shares.sum(axis=1, keepdims=True))


_POSITIONS_KEPT = 32
"""Number of overlap sizes whose positions are cached. Uncritical: motion changes the sizes little from image
to image. All 361 that a node may meet take 1.4 MB."""


@functools.lru_cache(maxsize=_POSITIONS_KEPT)
def _positions(rows: int, columns: int, side: int) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
    """Unit of positions, monomials of each neighbourhood's position, [2, 5, n], and their products, [15, n].

    Half of the larger side is 1, so that no element of the normal matrix is lost in the rounding of others.
    """
    unit = 2 / max(rows, columns)
    x, y = (unit * axis for axis in centers(rows, columns, side))
    return unit, monomials(x, y), np.stack([x**i * y**j for i, j in _PRODUCTS])


def _least_squares(moments: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Normal matrix, [9, 9], and solution, [9], from products of positions times those of derivatives."""
    terms = moments.take(_SYSTEM)
    system = _UNKNOWNS.dot(terms[:, :-1]).dot(_UNKNOWNS.T)
    diagonal = system.reshape(-1)[:: len(system) + 1]
    diagonal += LEAST_SHARE * float(diagonal.max()) + MIN_ENERGY
    # NumPy takes three times as long for a matrix of this size.
    _, solution = cv2.solve(system, _UNKNOWNS.dot(terms[:, -1:]), flags=cv2.DECOMP_CHOLESKY)
    return system, np.asarray(solution)[:, 0]
