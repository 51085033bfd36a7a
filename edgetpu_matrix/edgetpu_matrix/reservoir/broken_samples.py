"""Rejects broken samples: those larger than all before them by orders of magnitude, or of another size."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import InputError

LARGEST_JUMP = 2.0**26
"""Factor over the largest value before. Derived: a float64 sum of squares loses values that are smaller than
another one by this factor."""

IN_A_ROW = 16
"""Number of successive samples, too large or of another size, that show that the signal has changed."""


class SizeWatch:
    """Detects that the vectors of a signal have changed their size; ignores stray ones."""

    def __init__(self) -> None:
        self._others: deque[int] = deque(maxlen=IN_A_ROW)
        """Sizes of the latest vectors, if none had the size in use."""

    def has_changed(self, size: int, used: int) -> bool:
        """Whether the last IN_A_ROW vectors, up to this one, all have a size that is not `used` (0: none)."""
        if size == used or not used:
            self._others.clear()
            return False
        self._others.append(size)
        return self._others.count(size) == IN_A_ROW


class SignalScale:
    """Refuses a vector that makes all earlier ones negligible in sums, unless many in a row are as large.

    One sample of 1e30 from a broken sensor erases a thousand others from the sums that a readout is trained
    on, and a reservoir without saturation forgets it only after hundreds of steps.
    """

    def __init__(self) -> None:
        self._largest = 0.0
        """Largest absolute value of the vectors accepted so far."""
        self._refused = 0
        """Number of successive vectors that were refused."""

    def check(self, values: NDArray[np.float64]) -> None:
        """Check a vector of finite numbers; InputError if it is to be left out."""
        size = float(np.abs(values).max(initial=0.0))
        if self._largest and size > LARGEST_JUMP * self._largest and self._refused < IN_A_ROW:
            self._refused += 1
            raise InputError(
                f"expected values of up to {LARGEST_JUMP:.1e} times the largest before, {self._largest:.3g}; "
                f"got {size:.3g}, which is ignored; after {IN_A_ROW} in a row such values are accepted"
            )
        self._refused = 0
        self._largest = max(self._largest, size)
