"""Normal equations of the least squares of a shift, summed over each neighbourhood of a few cells."""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

NEIGHBOURHOOD_CELLS = 6
"""Usual side of a neighbourhood, cells: small compared with moving objects, large enough for two gradients.

Rows: flow, an object of 17 % of the area, rmse; static camera, rmse.
"""

MIN_ENERGY = 1e-6
"""Added to energies so that empty maps do not divide by zero.

Derived: far below (1 step of an 8-bit output)^2 = 0.035.
"""

MAX_NOISE_SHARE = 0.7
"""Largest share of a sum of squares that is taken off as noise.

Rows: flow, gain 20 %, offset 20, noise 4, rmse. Uncritical.
"""

UNKNOWNS = 3
"""Unknowns of the least squares: dx, dy, contrast. Given by the equations."""

PAIRS = tuple((i, j) for i in range(UNKNOWNS + 1) for j in range(i, UNKNOWNS + 1))
"""Factors of each product: the derivatives with respect to dx (x), dy (y) and contrast (c), and residual (r).

Given by the equations.
"""

_OF_RESIDUAL = [k for k, pair in enumerate(PAIRS) if UNKNOWNS in pair]
"""Indices of the products with the residual. Given by PAIRS."""

_OF_CONTRAST = [PAIRS.index(pair) for pair in ((2, 2), (2, 3), (3, 3))]
"""Indices of the products of contrast and residual. Given by PAIRS."""

AGREEING = 0.5
"""Correlation above which the frames agree in a neighbourhood. Derived: texture exceeds noise."""

Values = TypeVar("Values", float, NDArray[np.float64])

Vector = tuple[float, float, float]
"""A value for each unknown."""

Symmetric = tuple[float, float, float, float, float, float]
"""The upper triangle of a symmetric matrix of the unknowns, row by row."""


class NormalEquations:
    """Sums of products over neighbourhoods; solutions with any weights of these need no cells."""

    def __init__(self, equations: Floats, side: int = NEIGHBOURHOOD_CELLS) -> None:
        """`equations`: the derivatives and residual of PAIRS, [4, channels, rows, columns].

        `side`: side of a neighbourhood, cells.
        """
        _, channels, self.rows, self.columns = equations.shape
        self.side = side
        self.sums = _products(equations, PAIRS, side)
        """Products xx, xy, xc, xr, yy, yc, yr, cc, cr, rr of each neighbourhood: [10, neighbourhoods]."""
        self.features = float(channels * side**2)
        """Number of features in a neighbourhood."""

    def with_residual(self, equations: Floats) -> NormalEquations:
        """The normal equations if only the residual of `equations` has changed."""
        changed = copy.copy(self)
        changed.sums = self.sums.copy()
        changed.sums[_OF_RESIDUAL] = _products(equations, tuple(PAIRS[k] for k in _OF_RESIDUAL), self.side)
        return changed

    @property
    def down(self) -> int:
        """Number of neighbourhoods from the top to the bottom."""
        return len(_blocks(self.rows, self.side))

    @property
    def slope(self) -> NDArray[np.float64]:
        """Sum of the squared derivatives with respect to dx and dy, [neighbourhoods]."""
        slope: NDArray[np.float64] = self.sums[PAIRS.index((0, 0))] + self.sums[PAIRS.index((1, 1))]
        return slope

    def median_contrast(self) -> float | None:
        """Median change of contrast, without a step, over the neighbourhoods in which the frames agree.

        None if they agree in none.
        """
        cc, cr, rr = self.sums[_OF_CONTRAST]
        agree = agreement(cc, rr) > AGREEING
        changes = cr[agree] / cc[agree]
        if not len(changes):
            return None
        middle = len(changes) // 2
        changes.partition(middle)
        return float(changes[middle])

    def solve(self, weights: NDArray[np.float64] | None, roughness: float) -> tuple[Vector, Symmetric]:
        """Least-squares solution without the bias of noise, and the inverse of its normal matrix.

        `weights`: one for each neighbourhood's equations, [neighbourhoods]; None if all are 1.
        `roughness`: see Registration.
        """
        # For arrays of this size, `dot` takes half as long as `@`.
        sums = self.sums.sum(axis=1) if weights is None else self.sums.dot(np.square(weights))
        xx, xy, xc, xr, yy, yc, yr, cc, cr, rr = sums.tolist()
        xx, yy, cc = xx + MIN_ENERGY, yy + MIN_ENERGY, cc + MIN_ENERGY
        inverse = _inverse((xx, xy, xc, yy, yc, cc))
        step = _product(inverse, (xr, yr, cr))
        if roughness:
            noise = (rr - xr * step[0] - yr * step[1] - cr * step[2]) / 4
            xx -= min(noise * roughness, MAX_NOISE_SHARE * xx)
            yy -= min(noise * roughness, MAX_NOISE_SHARE * yy)
            cc -= min(noise, MAX_NOISE_SHARE * cc)
            inverse = _inverse((xx, xy, xc, yy, yc, cc))
            step = _product(inverse, (xr, yr, cr))
        return step, inverse

    def variance(self, step: Vector, inverse: Symmetric, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Variances of dx and dy of a solution with these `weights`, cells^2: [2].

        From how far each neighbourhood pulls the solution (White, 1980), as their noise differs.
        """
        xx, xy, xc, yy, yc, _ = inverse
        x, y, c = step
        # Of each pair in PAIRS, how far it pulls dx and dy.
        pulls = [
            (-a * x, -a * y - b * x, -a * c - d * x, a, -b * y, -b * c - d * y, b, -d * c, d, 0.0)
            for a, b, d in ((xx, xy, xc), (xy, yy, yc))
        ]
        pulled = np.array(pulls).dot(self.sums) * np.square(weights)
        variance: NDArray[np.float64] = np.square(pulled, out=pulled).sum(axis=1)
        return variance

    def agreement(self, step: Vector, weights: NDArray[np.float64]) -> float:
        """Correlation of the two frames after a step, -1..1. `weights`: of the neighbourhoods, [n]."""
        x, y, c = step
        xx, xy, xc, xr, yy, yc, yr, cc, cr, rr = self.sums.dot(np.square(weights)).tolist()
        left = x * (xx * x + 2 * (xy * y + xc * c - xr)) + y * (yy * y + 2 * (yc * c - yr))
        return float(agreement(cc, max(left + c * (cc * c - 2 * cr) + rr, 0.0)))

    def left_by_each(
        self, dx: NDArray[np.float64], dy: NDArray[np.float64], contrast: float
    ) -> NDArray[np.float64]:
        """Sum of squares that a shift of each neighbourhood and one change of contrast leave.

        All arrays: [neighbourhoods].
        """
        xx, xy, xc, xr, yy, yc, yr, cc, cr, rr = self.sums
        along = xx * dx + 2 * (xy * dy + contrast * xc - xr)
        across = yy * dy + 2 * (contrast * yc - yr)
        left: NDArray[np.float64] = dx * along + dy * across + rr + contrast * (contrast * cc - 2 * cr)
        return np.maximum(left, 0.0, out=left)

    def likeness(self, left: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Sums over each neighbourhood of the products of both frames' features, and of their mean squares.

        `left`: sum of squares that a motion leaves in each. All arrays: [neighbourhoods].
        """
        of_sum, of_difference = self.sums[PAIRS.index((2, 2))], left / 4
        return (of_sum - of_difference) / 4, (of_sum + of_difference) / 4

    def spread(self, values: NDArray[np.float64]) -> Floats:
        """Give each cell the value of its neighbourhood: [neighbourhoods] to [rows, columns]."""
        down, across = _blocks(self.rows, self.side), _blocks(self.columns, self.side)
        grid = values.astype(np.float32).reshape(len(down), len(across))
        return (down.T @ grid @ across).astype(np.float32, copy=False)


def agreement(of_sum: Values, of_difference: Values) -> Values:
    """Correlation of two frames, -1..1, from the squares of their sum and of their doubled difference."""
    return (of_sum - of_difference / 4) / (of_sum + of_difference / 4 + MIN_ENERGY)


def _products(equations: Floats, pairs: Sequence[tuple[int, int]], side: int) -> NDArray[np.float64]:
    """Sums of the products of pairs of equations over each neighbourhood: [pairs, neighbourhoods]."""
    _, channels, rows, columns = equations.shape
    products = np.empty((len(pairs), rows, columns), np.float32)
    for product, (i, j) in zip(products, pairs, strict=True):
        if channels == 1:
            np.multiply(equations[i, 0], equations[j, 0], out=product)
        else:
            np.einsum("nij,nij->ij", equations[i], equations[j], out=product)
    return block_sums(products, side).astype(np.float64)


def matrix(symmetric: Symmetric) -> NDArray[np.float64]:
    """A symmetric matrix as an array, [3, 3]."""
    xx, xy, xc, yy, yc, cc = symmetric
    return np.array([[xx, xy, xc], [xy, yy, yc], [xc, yc, cc]])


def _inverse(symmetric: Symmetric) -> Symmetric:
    """The inverse by cofactors: NumPy takes five times as long for a matrix of this size."""
    xx, xy, xc, yy, yc, cc = symmetric
    first, second, third = yy * cc - yc * yc, xc * yc - xy * cc, xy * yc - xc * yy
    scale = 1.0 / (xx * first + xy * second + xc * third)
    return (
        scale * first,
        scale * second,
        scale * third,
        scale * (xx * cc - xc * xc),
        scale * (xy * xc - xx * yc),
        scale * (xx * yy - xy * xy),
    )


def _product(symmetric: Symmetric, vector: Vector) -> Vector:
    xx, xy, xc, yy, yc, cc = symmetric
    x, y, c = vector
    return xx * x + xy * y + xc * c, xy * x + yy * y + yc * c, xc * x + yc * y + cc * c


def block_sums(planes: Floats, side: int) -> Floats:
    """Sums of [n, rows, columns] over blocks of about side x side: [n, blocks]."""
    down, across = _blocks(planes.shape[1], side), _blocks(planes.shape[2], side)
    return (down @ planes @ across.T).reshape(len(planes), -1).astype(np.float32, copy=False)


def centers(rows: int, columns: int, side: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Position x, y of each neighbourhood's centre from the middle, cells: [neighbourhoods] each."""
    down, across = _blocks(rows, side), _blocks(columns, side)
    y = down @ np.arange(rows) / down.sum(axis=1) - (rows - 1) / 2
    x = across @ np.arange(columns) / across.sum(axis=1) - (columns - 1) / 2
    return np.tile(x, len(y)), np.repeat(y, len(x))


def neighbourhood_sides(size: int, side: int) -> NDArray[np.float64]:
    """Cells of each neighbourhood along an axis of `size` cells."""
    sides: NDArray[np.float64] = _blocks(size, side).sum(axis=1, dtype=np.float64)
    return sides


@functools.lru_cache(maxsize=512)
def _blocks(size: int, side: int) -> Floats:
    """Matrix that sums over blocks of about `side` elements: [blocks, size]."""
    count = max(round(size / side), 1)
    block_of = np.arange(size) * count // size
    return np.equal(block_of, np.arange(count)[:, np.newaxis]).astype(np.float32)
