"""Weights at listed byte offsets of a parameter blob, or contiguous ones."""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.darwinn.parameters.section_codec import (
    ZERO_WEIGHT,
    check_blob,
    check_target,
    check_weights,
)
from edgetpu_driver.errors import InputError


class ScatteredLayout:
    """Weights at given offsets of a blob; all other bytes of it are left alone."""

    def __init__(self, shape: tuple[int, ...], offsets: NDArray[np.intp] | slice, size: int) -> None:
        """offsets: of the weights in the order of the tensor; size: bytes of the blob.

        InputError unless all offsets are distinct and within the blob.
        """
        positions = np.arange(size)[offsets] if isinstance(offsets, slice) else offsets
        count = prod(shape)
        if positions.shape != (count,) or np.unique(positions).size != count:
            raise InputError(f"expected {count} different offsets for weights {list(shape)}")
        if positions.min(initial=0) < 0 or positions.max(initial=0) >= size:
            raise InputError(f"expected offsets below {size}; got up to {positions.max(initial=0)}")
        self.shape = shape
        self.size = size
        self._offsets = offsets

    def encode(self, weights: NDArray[np.int8], out: NDArray[np.uint8]) -> None:
        """Write int8 weights of `shape` into uint8[size]."""
        check_weights(weights, self.shape)
        check_target(out, self.size)
        out[self._offsets] = np.ascontiguousarray(weights).view(np.uint8).reshape(-1) ^ ZERO_WEIGHT

    def decode(self, blob: NDArray[np.uint8]) -> NDArray[np.int8]:
        """Weights of `shape` from uint8[size]."""
        check_blob(blob, self.size)
        flipped: NDArray[np.uint8] = blob[self._offsets] ^ ZERO_WEIGHT
        return flipped.view(np.int8).reshape(self.shape)
