"""Where in an image something moves in another way than the rest: a search over squares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.time_to_contact.homography_alignment import GROWTH, Map

CELL = 4
"""Elements by which the squares are apart."""

SIDES = (3, 4, 6, 8)
"""Cells along a side of the squares."""

_PRECISION = (0.1**-2, 0.1**-2, 0.1**-2)
"""Inverse variances of shifts, focal lengths, and growth relative to the rest."""


@dataclass(frozen=True)
class OtherMotion:
    """The square that is explained the better by a motion of its own."""

    evidence: float
    """By how much, as a chi-square."""
    rows: slice
    columns: slice
    """Elements of the map."""
    step: tuple[float, float, float]
    """Shift right and down and growth, in addition to those of the rest."""


class MotionSearch:
    """Solves for shift and growth in each of some hundred overlapping squares at once."""

    def __init__(self, rows: int, columns: int) -> None:
        """Size of the maps, elements."""
        self._products = np.empty((9, rows, columns), np.float32)
        # Sums over all that is above and to the left of a corner of a cell.
        self._above = _sums_up_to(rows)
        self._left = _sums_up_to(columns).T.copy()
        height, width = len(self._above), self._left.shape[1]
        self._squares = [
            (row * CELL, column * CELL, side * CELL)
            for side in SIDES
            for row in range(height - side)
            for column in range(width - side)
        ]

    def find(self, jacobian: NDArray[np.float32], residual: Map, weights: Map) -> OtherMotion | None:
        """The best square; None in a map that is smaller than any.

        `jacobian` [parameters, rows, columns]: what each parameter of the rest's warp adds to the residual;
        `weights`: inverse variances.
        """
        if not self._squares:
            return None
        products = self._products
        right, down, growth = jacobian[0], jacobian[1], jacobian[GROWTH]
        # Rows 6 to 8 are weighted first, then multiplied with all others, and with the residual at last.
        weighted = products[6:]
        for each, slopes in zip(weighted, (right, down, growth), strict=True):
            np.multiply(weights, slopes, out=each)
        np.multiply(weighted, right, out=products[:3])
        np.multiply(weighted[1:], down, out=products[3:5])
        np.multiply(weighted[2], growth, out=products[5])
        weighted *= residual
        sums = (self._above @ products @ self._left).astype(np.float64)
        found = np.concatenate([_in_squares(sums, side) for side in SIDES], axis=1)
        best, evidence = _best(found)
        row, column, side = self._squares[best]
        a, b, c, d, e, f, *toward = found[:, best]
        information = np.array([[a, b, c], [b, d, e], [c, e, f]]) + np.diag(_PRECISION)
        step = np.linalg.solve(information, np.array(toward)).tolist()
        square = slice(row, row + side), slice(column, column + side)
        return OtherMotion(evidence, *square, (step[0], step[1], step[2]))


def _in_squares(sums: NDArray[np.float64], side: int) -> NDArray[np.float64]:
    """Sums over squares of so many cells, row by row, [n, squares], from those up to corners of cells."""
    strips = sums[:, side:] - sums[:, :-side]
    return (strips[:, :, side:] - strips[:, :, :-side]).reshape(len(sums), -1)


def _best(products: NDArray[np.float64]) -> tuple[int, float]:
    """Index and chi-square of the set of three normal equations that explains most, by elimination."""
    a, b, c, d, e, f, right, down, growth = products
    a, d, f = (each + precision for each, precision in zip((a, d, f), _PRECISION, strict=True))
    evidence = right * right / a
    down = down - b * right / a
    growth = growth - c * right / a
    d, e, f = d - b * b / a, e - b * c / a, f - c * c / a
    evidence += down * down / d
    growth -= e * down / d
    evidence += growth * growth / (f - e * e / d)
    best = int(evidence.argmax())
    return best, float(evidence[best])


def _sums_up_to(size: int) -> NDArray[np.float32]:
    """[cells + 1, size]: ones up to the border of each cell."""
    borders = np.arange(size // CELL + 1)[:, np.newaxis] * CELL
    return (np.arange(size) < borders).astype(np.float32)
