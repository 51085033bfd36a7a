"""The layout of the rows that route values between tiles.

64 bytes of int32 zero points are followed by one row of 64 bytes per position, which holds up to 16 lanes of
four bytes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.darwinn.parameters.section_codec import (
    ALIGNMENT,
    check_blob,
    check_filler,
    check_target,
)
from edgetpu_driver.errors import ModelUnsupportedError

_LANE_BYTES = 4
"""Length of a 32-bit word."""
_LANES = ALIGNMENT // _LANE_BYTES
_HEADER_BYTES = ALIGNMENT
"""A routing row has 16 lanes of four weights; a row of zero points precedes them."""


class RoutingLayout:
    """Rows that the compiler adds to collect values from tiles: row i passes lane i on; zero points are 0.

    They do not depend on a tensor of the graph: encoding takes no values, and `check` only validates.
    """

    def __init__(self, rows: int) -> None:
        """ModelUnsupportedError for more than 16 rows."""
        if not 1 <= rows <= _LANES:
            raise ModelUnsupportedError(f"expected 1 to {_LANES} routing rows, got {rows}")
        self._rows = rows
        self.size = _HEADER_BYTES + rows * ALIGNMENT

    def encode(self, out: NDArray[np.uint8]) -> None:
        """Write the rows into uint8[size]."""
        check_target(out, self.size)
        out[:] = 0
        lanes = out[_HEADER_BYTES:].reshape(self._rows, _LANES, _LANE_BYTES)
        every = np.arange(self._rows)
        lanes[every, every, 0] = 1

    def check(self, blob: NDArray[np.uint8]) -> None:
        """Raise ModelFormatError unless blob, uint8[size], holds these rows."""
        check_blob(blob, self.size)
        expected = np.empty(self.size, np.uint8)
        self.encode(expected)
        check_filler(blob, expected, "routing rows")
