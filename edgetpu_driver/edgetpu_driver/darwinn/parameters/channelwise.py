"""Layers that work channel by channel: depthwise convolutions, and the rows that route values between tiles.

Both start with 64 bytes of int32 zero points and continue with one row of 64 bytes per position, which holds
up to 16 lanes of four bytes, one per channel.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.darwinn.parameters.section_codec import (
    ALIGNMENT,
    ZERO_WEIGHT,
    check_blob,
    check_filler,
    check_target,
    check_weights,
)
from edgetpu_driver.errors import ModelUnsupportedError

_LANE_BYTES = 4
_LANES = ALIGNMENT // _LANE_BYTES
_HEADER_BYTES = ALIGNMENT


class DepthwiseLayout:
    """A depthwise convolution [1, height, width, channels] of one input channel whose scales are all equal.

    Established for 7x7 kernels of 8 channels.
    """

    def __init__(self, height: int, width: int, channels: int) -> None:
        """ModelUnsupportedError for more than 16 channels."""
        if min(height, width) < 1 or not 1 <= channels <= _LANES:
            raise ModelUnsupportedError(
                f"the parameter layout of a {height}x{width} depthwise convolution of {channels} channels is "
                f"not known; expected up to {_LANES} channels"
            )
        self.shape = (1, height, width, channels)
        self._channels = channels
        self._positions = height * width
        self.size = _HEADER_BYTES + self._positions * ALIGNMENT

    def encode(self, weights: NDArray[np.int8], out: NDArray[np.uint8]) -> None:
        """Write int8 weights of `shape` and all filler into uint8[size]."""
        check_weights(weights, self.shape)
        check_target(out, self.size)
        out[:] = 0
        out[:_HEADER_BYTES].view(np.int32)[: self._channels] = ZERO_WEIGHT
        lanes = self._lanes(out)
        lanes[:, : self._channels] = ZERO_WEIGHT
        flipped = np.ascontiguousarray(weights).view(np.uint8) ^ ZERO_WEIGHT
        lanes[:, : self._channels, 0] = flipped.reshape(self._positions, self._channels)

    def decode(self, blob: NDArray[np.uint8]) -> NDArray[np.int8]:
        """Weights of `shape` from uint8[size]; ModelFormatError if zero points or filler are wrong."""
        check_blob(blob, self.size)
        zero_points = blob[:_HEADER_BYTES].view(np.int32)
        check_filler(zero_points[: self._channels], int(ZERO_WEIGHT), "zero points")
        check_filler(zero_points[self._channels :], 0, "zero points past the last")
        lanes = self._lanes(blob)
        check_filler(lanes[:, : self._channels, 1:], ZERO_WEIGHT, "channels that do not exist")
        check_filler(lanes[:, self._channels :], 0, "lanes past the last")
        flipped: NDArray[np.uint8] = lanes[:, : self._channels, 0] ^ ZERO_WEIGHT
        return flipped.view(np.int8).reshape(self.shape)

    def _lanes(self, blob: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """uint8[positions, 16, 4]."""
        return blob[_HEADER_BYTES:].reshape(self._positions, _LANES, _LANE_BYTES)


class RoutingLayout:
    """Rows that the compiler adds to collect values from tiles: row i passes lane i on; zero points are 0.

    They do not come from a tensor of the graph: encoding takes no values and decoding only validates.
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
