"""The parameters of a SOFTMAX over n values: rows of 64 bytes with four lanes in the first 16.

The section sometimes has an additional last row. Established for n = 1001, with the last row, and n = 10,
without it; beta is 1. A SOFTMAX over the pixels of an image has no such section.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.darwinn.parameters.section_codec import ALIGNMENT, check_target

_LANES = 4
"""32-bit values in a row."""
_ABSENT = np.uint32(0x80000000)
_LARGEST = np.finfo(np.float32).max
"""Filler after the last value: the word _ABSENT, and among the factors the scale times the largest float32,
as in the compiled files named above."""


class SoftmaxLayout:
    """The section of a SOFTMAX over n values."""

    def __init__(self, values: int, *, last_row: bool) -> None:
        """last_row: whether the section has the additional last row."""
        self.values = values
        self.last_row = last_row
        self._rows = -(-values // _LANES)
        self.size = ALIGNMENT * (3 * self._rows + last_row)

    def encode(self, scale: float, out: NDArray[np.uint8]) -> None:
        """Write the section into uint8[size]. scale: of the input."""
        check_target(out, self.size)
        out[:] = 0
        words = out.view(np.uint32).reshape(-1, ALIGNMENT // 4)
        present = (np.arange(self._rows * _LANES) < self.values).reshape(self._rows, _LANES)
        for part in range(2):
            words[part * self._rows : (part + 1) * self._rows, :_LANES] = np.where(present, 0, _ABSENT)
        single = np.float32(scale)
        with np.errstate(over="ignore"):
            factors = np.where(present, single, single * _LARGEST).astype(np.float32)
        words[2 * self._rows : 3 * self._rows, :_LANES] = factors.view(np.uint32)
        if self.last_row:
            words[-1, 0] = np.float32(1).view(np.uint32)
