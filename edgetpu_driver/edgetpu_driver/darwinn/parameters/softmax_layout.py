"""The parameters of a SOFTMAX over n values: rows of four lanes, 16 of 64 bytes used, and at times one more.

Established for n = 1001, where the last row is present, and n = 10, where it is not; beta is 1. A SOFTMAX
over the pixels of an image has no such section.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.darwinn.parameters.section_codec import ALIGNMENT, check_target

_LANES = 4
"""Values of 32 bits in a row."""
_ABSENT = np.uint32(0x80000000)
_LARGEST = np.finfo(np.float32).max
"""Values in a row, and what stands for those beyond the last: this word, and among the factors the scale
times the largest float32. As in the compiled files named above."""


class SoftmaxLayout:
    """The section of a SOFTMAX over n values."""

    def __init__(self, values: int, *, last_row: bool) -> None:
        """last_row: whether the section ends with a row of its own."""
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
