"""What vectors have in common, multiplied on the host, so that eight bits round only what is left of them.

The states of a reservoir move along few directions, and what is large there would set the steps in which
everything else is rounded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import InputError

DIRECTIONS = 8
"""Enough for reservoirs to be nearly as good as in floating point, for 1/16 of the arithmetic of a matrix of
256 rows, 1/64 of one of 1024; and so few that alone, without the rest of the product, they are of no use."""

PERIOD = 64
"""Vectors that are learned from, and after which it is done again."""

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Split:
    """A vector in two parts."""

    rest: Array
    """[columns]: what is still to be multiplied."""
    product: Array
    """[rows]: the matrix times the other part."""


class HostSubspace:
    """Mean and principal directions of the vectors of late, and what a matrix makes of them.

    matrix: float64 [rows, columns], as it is multiplied by. directions: how many; InputError below 1. Until
    `PERIOD` vectors have come there is nothing in common.
    """

    def __init__(self, matrix: Array, directions: int = DIRECTIONS) -> None:
        if directions < 1:
            raise InputError(f"expected at least one direction; got {directions}")
        rows, columns = matrix.shape
        self._matrix = matrix
        self._most = min(directions, columns)
        self._recent = np.zeros((PERIOD, columns))
        self._count = 0
        self._mean, self._mean_product = np.zeros(columns), np.zeros(rows)
        self._directions, self._products = np.zeros((0, columns)), np.zeros((0, rows))

    def split(self, vector: Array) -> Split:
        """Split a vector, [columns], each value finite as float32, and learn from it.

        Where nothing would be gained, as after an outlier, all of it is left to be multiplied.
        """
        from_mean = vector - self._mean
        along = self._directions @ from_mean
        rest = from_mean - along @ self._directions
        if np.dot(rest, rest) < np.dot(vector, vector):
            split = Split(rest, self._mean_product + along @ self._products)
        else:
            split = Split(vector, np.zeros(len(self._matrix)))
        self._recent[self._count] = vector
        self._count += 1
        if self._count == PERIOD:
            self._count = 0
            self._learn()
        return split

    def _learn(self) -> None:
        self._mean = self._recent.mean(axis=0)
        _, _, directions = np.linalg.svd(self._recent - self._mean, full_matrices=False)
        self._directions = directions[: self._most]
        self._mean_product = self._matrix @ self._mean
        self._products = (self._matrix @ self._directions.T).T.copy()
