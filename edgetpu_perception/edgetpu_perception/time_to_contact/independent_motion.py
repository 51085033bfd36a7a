"""Search for the part of an image that moves differently from the rest, over overlapping squares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.time_to_contact.homography_alignment import GROWTH, Map
from edgetpu_perception.time_to_contact.surface import APPROACH_SIGMAS

CELL_ELEMENTS = 4
"""Distance between neighbouring squares in elements; limits the time of a search.

Rows: looming, object before a background.
"""

SQUARE_SIDES_CELLS = (3, 4, 6, 8)
"""Sides of the squares in cells: 12 to 32 of the 60 elements of a map.

Rows: looming, object before a background.
"""

_PRIOR_PRECISION = (0.1**-2, 0.1**-2, 0.1**-2)
"""Inverse variances of shift right, shift down (focal lengths) and growth, relative to the main motion.

Derived: 0.1 each is more than any motion that MAX_SHIFT_ELEMENTS lets through.
"""


@dataclass(frozen=True)
class IndependentMotion:
    """The square that gains most by a motion of its own."""

    evidence: float
    """Gain as a chi-square."""
    rows: slice
    columns: slice
    """Extent of the square, elements of the map."""
    step: tuple[float, float, float]
    """Shift right and down (focal lengths) and growth, in addition to the main motion."""

    def shift(self, focal: tuple[float, float]) -> float:
        """The larger of both shifts, elements; `focal`: focal lengths along x and y, elements."""
        return max(abs(self.step[0]) * focal[0], abs(self.step[1]) * focal[1])


class MotionSearch:
    """Solves for shift and growth in each of some hundred overlapping squares at once."""

    def __init__(self, rows: int, columns: int) -> None:
        """Size of the maps, elements."""
        self._products = np.empty((9, rows, columns), np.float32)
        # Sums over all elements above and to the left of each corner of a cell.
        self._above = _sums_up_to(rows)
        self._left = _sums_up_to(columns).T.copy()
        height, width = len(self._above), self._left.shape[1]
        self._squares = [
            (row * CELL_ELEMENTS, column * CELL_ELEMENTS, side * CELL_ELEMENTS)
            for side in SQUARE_SIDES_CELLS
            for row in range(height - side)
            for column in range(width - side)
        ]

    def find(
        self, jacobian: NDArray[np.float32], residual: Map, weights: Map, *, growing: bool = False
    ) -> IndependentMotion | None:
        """Find the best square; None if the map is smaller than every square.

        `jacobian` [parameters, rows, columns]: derivatives of the brightness with respect to the parameters
        of the main warp. `residual` [rows, columns]: residual of that warp. `weights`: inverse variances.
        `growing`: consider only squares that certainly grow more than the main motion makes them.
        """
        if not self._squares:
            return None
        products = self._products
        right, down, growth = jacobian[0], jacobian[1], jacobian[GROWTH]
        # Rows 6 to 8 hold the weighted slopes, and finally their products with the residual.
        weighted = products[6:]
        for each, slopes in zip(weighted, (right, down, growth), strict=True):
            np.multiply(weights, slopes, out=each)
        np.multiply(weighted, right, out=products[:3])
        np.multiply(weighted[1:], down, out=products[3:5])
        np.multiply(weighted[2], growth, out=products[5])
        weighted *= residual
        sums = (self._above @ products @ self._left).astype(np.float64)
        found = np.concatenate([_in_squares(sums, side) for side in SQUARE_SIDES_CELLS], axis=1)
        best, evidence = _most_explained(found, growing)
        row, column, side = self._squares[best]
        a, b, c, d, e, f, *right_side = found[:, best]
        information = np.array([[a, b, c], [b, d, e], [c, e, f]]) + np.diag(_PRIOR_PRECISION)
        step = np.linalg.solve(information, np.array(right_side)).tolist()
        square = slice(row, row + side), slice(column, column + side)
        return IndependentMotion(evidence, *square, (step[0], step[1], step[2]))


def _in_squares(sums: NDArray[np.float64], side: int) -> NDArray[np.float64]:
    """Sums over squares of `side` cells, [n, squares], from cumulative sums [n, rows, columns]."""
    strips = sums[:, side:] - sums[:, :-side]
    return (strips[:, :, side:] - strips[:, :, :-side]).reshape(len(sums), -1)


def _most_explained(products: NDArray[np.float64], growing: bool) -> tuple[int, float]:
    """Index and chi-square of the best of many sets of three normal equations, [9, n], by elimination."""
    a, b, c, d, e, f, right, down, growth = products
    a, d, f = (each + precision for each, precision in zip((a, d, f), _PRIOR_PRECISION, strict=True))
    evidence = right * right / a
    down = down - b * right / a
    growth = growth - c * right / a
    d, e, f = d - b * b / a, e - b * c / a, f - c * c / a
    evidence += down * down / d
    growth -= e * down / d
    by_growth = growth * growth / (f - e * e / d)
    evidence += by_growth
    if growing:
        evidence *= (growth > 0) & (by_growth >= APPROACH_SIGMAS**2)
    best = int(evidence.argmax())
    return best, float(evidence[best])


def _sums_up_to(size: int) -> NDArray[np.float32]:
    """[cells + 1, size]: ones up to the border of each cell."""
    borders = np.arange(size // CELL_ELEMENTS + 1)[:, np.newaxis] * CELL_ELEMENTS
    return (np.arange(size) < borders).astype(np.float32)
