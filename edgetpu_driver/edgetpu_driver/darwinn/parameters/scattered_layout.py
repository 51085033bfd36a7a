"""Weights at listed byte offsets of a parameter blob, or contiguous ones, and a contiguous bias."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.darwinn.parameters.section_codec import (
    ZERO_WEIGHT,
    check_bias,
    check_blob,
    check_target,
    check_weights,
    no_bias,
)
from edgetpu_driver.errors import InputError


class ScatteredLayout:
    """Weights at given offsets of a blob; all other bytes stay unchanged."""

    def __init__(
        self,
        shape: tuple[int, ...],
        offsets: NDArray[np.intp] | slice,
        size: int,
        *,
        dtype: type[np.int8] | type[np.uint8] = np.int8,
        bias: slice | None = None,
    ) -> None:
        """offsets: of the weights in the order of the tensor; size: bytes of the blob. bias: int32, if any.

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
        self.dtype = np.dtype(dtype)
        self._offsets = offsets
        self._bias = bias
        self._sign = ZERO_WEIGHT if dtype is np.int8 else np.uint8(0)

    @property
    def has_bias(self) -> bool:
        """Whether the location of the bias is known."""
        return self._bias is not None

    def encode(self, weights: NDArray[Any], out: NDArray[np.uint8]) -> None:
        """Write weights of `shape` and `dtype` into uint8[size]."""
        check_weights(weights, self.shape, self.dtype)
        check_target(out, self.size)
        out[self._offsets] = np.ascontiguousarray(weights).view(np.uint8).reshape(-1) ^ self._sign

    def decode(self, blob: NDArray[np.uint8]) -> NDArray[Any]:
        """Weights of `shape` and `dtype` from uint8[size]."""
        check_blob(blob, self.size)
        stored: NDArray[np.uint8] = blob[self._offsets] ^ self._sign
        return stored.view(self.dtype).reshape(self.shape)

    def encode_bias(self, bias: NDArray[np.int32], out: NDArray[np.uint8]) -> None:
        """Write int32[channels]; ModelUnsupportedError if there is none."""
        if self._bias is None:
            raise no_bias()
        check_target(out, self.size)
        target = out[self._bias]
        check_bias(bias, target.size // bias.dtype.itemsize)
        target[:] = np.ascontiguousarray(bias).view(np.uint8)

    def decode_bias(self, blob: NDArray[np.uint8]) -> NDArray[np.int32]:
        """int32[channels] from uint8[size]; ModelUnsupportedError if there is none."""
        if self._bias is None:
            raise no_bias()
        check_blob(blob, self.size)
        return blob[self._bias].copy().view(np.int32)
