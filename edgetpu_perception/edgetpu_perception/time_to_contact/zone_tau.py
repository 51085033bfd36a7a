"""Edge energy of nine zones of an image, and tau: that of the centre zone over the others."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

ZONES = 9
"""Number of zones: thirds by thirds. Given by LoomingResult.zones."""


class ZoneEnergies:
    """Mean squared slope of the nine zones of an image."""

    def __init__(self, rows: Sequence[int], columns: Sequence[int]) -> None:
        """`rows`, `columns`: the four borders of the zones, in elements of a slope map."""
        self._in_rows, self._in_columns = _membership(rows), _membership(columns).T.copy()
        self._sizes = np.outer(np.diff(rows), np.diff(columns))

    def measure(self, energy: NDArray[np.float32]) -> list[float]:
        """Nine energies, row-major from the top left, of a map of squared slopes [rows, columns]."""
        sums = self._in_rows @ energy @ self._in_columns
        means: list[float] = (sums / self._sizes).ravel().tolist()
        return means


def third_borders(size: int, first: int, stride: int, elements: int) -> list[int]:
    """Borders of the thirds of `size` px, in elements of a map that are at first, first + stride, ... px."""
    inner = [round((size * part / 3 - 0.5 - first) / stride + 0.5) for part in (1, 2)]
    return [0, *inner, elements]


def _membership(borders: Sequence[int]) -> NDArray[np.float32]:
    """[thirds, elements]: 1 if the element is in the third, else 0."""
    third = np.searchsorted(borders, np.arange(borders[-1]), side="right") - 1
    return np.equal(third, np.arange(len(borders) - 1)[:, np.newaxis]).astype(np.float32)


def tau_of(zones: Sequence[float]) -> float:
    """Energy of the centre zone over the mean of the other eight; NaN without any edges."""
    center = zones[4]
    around = (sum(zones) - center) / (ZONES - 1)
    if around > 0:
        return center / around
    return math.inf if center > 0 else math.nan
