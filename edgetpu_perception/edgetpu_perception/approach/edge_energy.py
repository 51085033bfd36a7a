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
        self._rows, self._columns = list(rows), list(columns)
        self._sizes = np.outer(np.diff(rows), np.diff(columns)).astype(np.float64)

    def measure(self, slope_x: NDArray[np.float32], slope_y: NDArray[np.float32]) -> NDArray[np.float64]:
        """Energies float64 [9], row-major from the top left, squared grey levels per px."""
        energy = slope_x**2 + slope_y**2
        in_rows = np.add.reduceat(energy[: self._rows[3]], self._rows[:3], axis=0)
        sums = np.add.reduceat(in_rows[:, : self._columns[3]], self._columns[:3], axis=1)
        means: NDArray[np.float64] = (sums / self._sizes).ravel()
        return means


def thirds(size: int, first: int, stride: int, elements: int) -> list[int]:
    """Borders of the thirds of `size` px in a map whose elements lie at first, first + stride, ... px."""
    inner = [round((size * part / 3 - 0.5 - first) / stride + 0.5) for part in (1, 2)]
    return [0, *inner, elements]


def tau_of(zones: NDArray[np.float64]) -> float:
    """Energy of the centre zone over the mean of the other eight; NaN where there are no edges at all."""
    around = float(zones.sum() - zones[4]) / (ZONES - 1)
    center = float(zones[4])
    if around > 0:
        return center / around
    return math.inf if center > 0 else math.nan
