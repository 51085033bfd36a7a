"""The host subspace: the directions along which vectors vary most, multiplied on the host in float64.

Eight bits then only round the residual. The states of a reservoir move along few directions, and the large
components there would set the input scale at which everything else is rounded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import InputError

DIRECTIONS = 8
"""Directions by default. They cost 1/16 of the arithmetic of a matrix of 256 rows, 1/64 of one of 1024.

Chosen on the rows "reservoir" of `make bench`: errors are within 10 % of those of float64, while the host's
part alone, without the residual, is of no use.
"""

PERIOD = 64
"""Number of vectors from which mean and directions are computed, and between two such computations."""

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Split:
    """A vector as the sum of its part in the host subspace and a residual."""

    residual: Array
    """The residual, which is still to be multiplied, [columns]."""
    product: Array
    """Product of the matrix and the part in the host subspace, [rows]."""


class HostSubspace:
    """Mean and principal directions of recent vectors, and their products with a matrix.

    matrix: float64 [rows, columns], the effective matrix. directions: how many; InputError below 1. The
    subspace is empty until `PERIOD` vectors have come.
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

        If the residual is longer than the vector, as after an outlier, the whole vector is the residual.
        """
        from_mean = vector - self._mean
        along = self._directions @ from_mean
        residual = from_mean - along @ self._directions
        if np.dot(residual, residual) < np.dot(vector, vector):
            split = Split(residual, self._mean_product + along @ self._products)
        else:
            split = Split(vector, np.zeros(len(self._matrix)))
        self._recent[self._count] = vector
        self._count += 1
        if self._count == PERIOD:
            self._count = 0
            self._learn()
        return split

    def _learn(self) -> None:
        """Compute mean, directions and their products from the recent vectors."""
        self._mean = self._recent.mean(axis=0)
        _, _, directions = np.linalg.svd(self._recent - self._mean, full_matrices=False)
        self._directions = directions[: self._most]
        self._mean_product = self._matrix @ self._mean
        self._products = (self._matrix @ self._directions.T).T.copy()
