"""Edge energy of nine zones of an image, and what it says about the centre."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

ZONES = 9


class ZoneEnergy:
    """Mean squared slope of each third by third of an image."""

    def __init__(self, rows: Sequence[int], columns: Sequence[int]) -> None:
        """`rows`, `columns`: the four borders of the zones, elements of a slope map, from first to last."""
        self._in_rows, self._in_columns = _members(rows), _members(columns).T.copy()
        self._sizes = np.outer(np.diff(rows), np.diff(columns))

    def measure(self, energy: NDArray[np.float32]) -> list[float]:
        """Nine energies, row-major from the top left, of a map of squared slopes."""
        sums = self._in_rows @ energy @ self._in_columns
        means: list[float] = (sums / self._sizes).ravel().tolist()
        return means


def thirds(size: int, first: int, stride: int, elements: int) -> list[int]:
    """Borders of the thirds of `size` px in a map whose elements lie at first, first + stride, ... px."""
    inner = [round((size * part / 3 - 0.5 - first) / stride + 0.5) for part in (1, 2)]
    return [0, *inner, elements]


def _members(borders: Sequence[int]) -> NDArray[np.float32]:
    """[thirds, elements]: 1 where an element is in a third."""
    third = np.searchsorted(borders, np.arange(borders[-1]), side="right") - 1
    return np.equal(third, np.arange(len(borders) - 1)[:, np.newaxis]).astype(np.float32)


def tau_of(zones: Sequence[float]) -> float:
    """Energy of the centre zone over the mean of the other eight; NaN where there are no edges at all."""
    center = zones[4]
    around = (sum(zones) - center) / (ZONES - 1)
    if around > 0:
        return center / around
    return math.inf if center > 0 else math.nan
