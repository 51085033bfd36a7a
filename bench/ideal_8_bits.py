"""Rounding to 8 bits at the best static scale, for the least error of a product of 8-bit numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_LARGEST = 127
_DEVIATIONS_AT_LARGEST = np.concatenate([np.arange(2.0, 5.5, 0.1), np.arange(6.0, 30.0)])
"""Candidates for the largest number that a scale represents, in standard deviations of the values.

Normally distributed values need 4, sparse ones such as spectra of lines need more.
"""


def ideally_rounded(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round to 255 symmetric steps of the one scale with the least mean square error; in the values' unit."""
    scales = values.std() / _LARGEST * _DEVIATIONS_AT_LARGEST
    rounded = (np.clip(np.rint(values / scale), -_LARGEST, _LARGEST) * scale for scale in scales)
    return min(rounded, key=lambda each: float(np.mean((each - values) ** 2)))


def relative_error(outputs: NDArray[Any], expected: NDArray[Any]) -> float:
    """Root mean square error, relative to the root mean square of the expected values."""
    return float(np.sqrt(np.mean((outputs - expected) ** 2) / np.mean(expected**2)))
