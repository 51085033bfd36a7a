"""Where in an image something moves in another way than the rest: a search over squares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.approach.homography_alignment import GROWTH, Map

CELL = 4
"""Elements by which the squares are apart."""

SIDES = (3, 4, 6, 8)
"""Cells along a side of the squares."""

_EXPECTED = (0.1, 0.1, 0.1)
"""Standard deviations of shifts, focal lengths, and growth relative to the rest."""


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
        self._rows, self._columns = rows // CELL, columns // CELL
        self._sums = np.zeros((9, self._rows + 1, self._columns + 1))

    def find(self, jacobian: NDArray[np.float32], residual: Map, weights: Map) -> OtherMotion | None:
        """The best square; None in a map that is smaller than any.

        `jacobian` [parameters, rows, columns]: what each parameter of the rest's warp adds to the residual;
        `weights`: inverse variances.
        """
        right, down, growth = jacobian[0], jacobian[1], jacobian[GROWTH]
        weighted = [weights * right, weights * down, weights * growth]
        products = (
            weighted[0] * right,
            weighted[0] * down,
            weighted[0] * growth,
            weighted[1] * down,
            weighted[1] * growth,
            weighted[2] * growth,
            *(each * residual for each in weighted),
        )
        for sums, product in zip(self._sums, products, strict=True):
            whole = product[: self._rows * CELL, : self._columns * CELL]
            cells = whole.reshape(self._rows, CELL, self._columns, CELL).sum(axis=(1, 3))
            np.cumsum(np.cumsum(cells, axis=0), axis=1, out=sums[1:, 1:])
        found = [self._best(side) for side in SIDES if side <= min(self._rows, self._columns)]
        return max(found, key=lambda square: square.evidence, default=None)

    def _best(self, side: int) -> OtherMotion:
        sums = self._sums
        square = (
            sums[:, side:, side:] - sums[:, :-side, side:] - sums[:, side:, :-side] + sums[:, :-side, :-side]
        )
        a, b, c, d, e, f, *toward = square
        a, d, f = (each + sigma**-2 for each, sigma in zip((a, d, f), _EXPECTED, strict=True))
        information = np.array([[a, b, c], [b, d, e], [c, e, f]]).transpose(2, 3, 0, 1)
        wanted = np.array(toward).transpose(1, 2, 0)
        steps = np.linalg.solve(information, wanted[..., np.newaxis])[..., 0]
        evidence = (steps * wanted).sum(axis=-1)
        row, column = np.unravel_index(int(evidence.argmax()), evidence.shape)
        right, down, growth = steps[row, column].tolist()
        return OtherMotion(
            float(evidence[row, column]),
            slice(int(row) * CELL, int(row + side) * CELL),
            slice(int(column) * CELL, int(column + side) * CELL),
            (right, down, growth),
        )
