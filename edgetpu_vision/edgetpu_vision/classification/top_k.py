"""The largest of many values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class GreatestValues:
    """Finds the largest of n values, in descending order; equal values keep their order."""

    def __init__(self, size: int) -> None:
        """Prepare for arrays [size]."""
        self._size = size
        self._reversed = np.arange(size - 1, -1, -1)

    def of(self, values: NDArray[Any], count: int) -> list[int]:
        """Indices of the `count` largest of values [n]; fewer if n is smaller or some are NaN."""
        if values.dtype.itemsize > 1:
            return _greatest(values, count)
        # Each key holds value and index, so that no two are equal and one partition finds the largest.
        size = self._size
        keys = np.multiply(values, size, dtype=np.int64)
        keys += self._reversed
        if count < size:
            keys.partition(size - count)
            keys = keys[size - count :]
        keys.sort()
        return [size - 1 - key % size for key in reversed(keys.tolist())]


def _greatest(values: NDArray[Any], count: int) -> list[int]:
    if values.dtype.kind != "f":
        values = values.astype(np.float64)  # the least integer has no negation
    numbers = np.flatnonzero(values == values)  # not NaN
    if count >= numbers.size:
        chosen: NDArray[np.intp] = numbers
    else:
        least = np.partition(-values, count - 1)[count - 1]
        above = np.flatnonzero(-values < least)
        equal = np.flatnonzero(-values == least)[: count - above.size]
        chosen = np.concatenate((above, equal))
    indices: list[int] = chosen[np.argsort(-values[chosen], kind="stable")].tolist()
    return indices
