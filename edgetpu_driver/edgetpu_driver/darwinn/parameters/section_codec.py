"""The protocol of the layouts of weights in a parameter blob, and their common checks."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import InputError, ModelFormatError, ModelUnsupportedError

ALIGNMENT = 64
"""Alignment of sections and their rows, bytes."""
ZERO_WEIGHT = np.uint8(0x80)
"""Stored form of the weight 0: the zero point of the bytes."""

_INT8 = np.dtype(np.int8)


class WeightLayout(Protocol):
    """How the weights of one layer, and its bias, are stored in the layer's section of a parameter blob."""

    @property
    def size(self) -> int:
        """Size in bytes."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the layer's weights, in the order of the TFLite tensor."""

    @property
    def has_bias(self) -> bool:
        """Whether it has room for a bias."""

    def encode(self, weights: NDArray[Any], out: NDArray[np.uint8]) -> None:
        """Write weights of `shape`, int8 or uint8, into out, uint8[size]; InputError if they do not fit."""

    def decode(self, blob: NDArray[np.uint8]) -> NDArray[Any]:
        """Weights of `shape` from uint8[size]; ModelFormatError if the bytes are not such a section."""

    def encode_bias(self, bias: NDArray[np.int32], out: NDArray[np.uint8]) -> None:
        """Write int32[channels]; ModelUnsupportedError if the section has no space for a bias."""

    def decode_bias(self, blob: NDArray[np.uint8]) -> NDArray[np.int32]:
        """int32[channels] from uint8[size]; raises as `encode_bias`."""


def aligned(size: int) -> int:
    """The next multiple of the alignment."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def check_weights(weights: NDArray[Any], shape: tuple[int, ...], dtype: np.dtype[Any] = _INT8) -> None:
    """Raise InputError unless weights have this shape and dtype."""
    if weights.dtype != dtype or weights.shape != shape:
        raise InputError(
            f"expected weights {dtype.name}{list(shape)}; got {weights.dtype.name}{list(weights.shape)}"
        )


def check_bias(bias: NDArray[Any], channels: int) -> None:
    """Raise InputError unless the bias is int32[channels]."""
    if bias.dtype != np.int32 or bias.shape != (channels,):
        raise InputError(f"expected a bias int32[{channels}]; got {bias.dtype.name}{list(bias.shape)}")


def no_bias() -> ModelUnsupportedError:
    """The error of a layer that has no space for a bias."""
    return ModelUnsupportedError("the layer was compiled without a bias, and has no space for one")


def check_target(out: NDArray[Any], size: int) -> None:
    """Raise InputError unless out is a contiguous, writable uint8[size]."""
    if out.dtype != np.uint8 or out.shape != (size,) or not (out.flags.c_contiguous and out.flags.writeable):
        raise InputError(
            f"expected a contiguous, writable uint8[{size}]; got {out.dtype.name}{list(out.shape)}"
        )


def check_blob(blob: NDArray[Any], size: int) -> None:
    """Raise ModelFormatError unless blob is a contiguous uint8[size]."""
    if blob.dtype != np.uint8 or blob.shape != (size,) or not blob.flags.c_contiguous:
        raise ModelFormatError(
            f"expected {size} contiguous parameter bytes; got {blob.dtype.name}{list(blob.shape)}"
        )


def check_filler(actual: NDArray[Any], expected: NDArray[Any] | np.uint8 | int, what: str) -> None:
    """Raise ModelFormatError unless all filler bytes have the expected value."""
    if not np.all(actual == expected):
        raise ModelFormatError(f"the parameters have other bytes than expected for {what}")
