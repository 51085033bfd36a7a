"""Layers with one output channel and one scale: convolutions with one kernel, and [1 x n] FULLY_CONNECTED.

A cell is 16 bytes: four input channels for each of four output channels, of which the first exists. The
layouts differ in how far apart cells lie.
"""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.darwinn.parameters.section_codec import (
    ALIGNMENT,
    INPUTS_PER_CELL,
    ZERO_WEIGHT,
    aligned,
    check_blob,
    check_filler,
    check_target,
    check_weights,
)
from edgetpu_driver.errors import ModelUnsupportedError

_CELL_BYTES = 16
_DENSE_KERNEL = 16  # kernels of up to this side, px, have contiguous cells
_SPARSE_KERNEL = 32


class SingleOutputLayout:
    """Weights in the order of the tensor, a few to each cell, the cells `pitch` bytes apart."""

    def __init__(self, shape: tuple[int, ...], inputs_per_cell: int, pitch: int) -> None:
        self.shape = shape
        self._inputs = inputs_per_cell
        self._cells = prod(shape) // inputs_per_cell
        self._pitch = pitch
        self.size = aligned(self._cells * pitch)

    @property
    def weight_offsets(self) -> NDArray[np.intp]:
        """Byte offset of each weight in the section, intp of `shape`."""
        cells = np.arange(self._cells)[:, np.newaxis] * self._pitch
        return (cells + np.arange(self._inputs)).reshape(self.shape)

    def encode(self, weights: NDArray[np.int8], out: NDArray[np.uint8]) -> None:
        """Write int8 weights of `shape` and all filler into uint8[size]."""
        check_weights(weights, self.shape)
        check_target(out, self.size)
        out[:] = 0
        cells = self._cell_view(out)
        cells[:, :_CELL_BYTES] = ZERO_WEIGHT
        flipped = np.ascontiguousarray(weights).view(np.uint8) ^ ZERO_WEIGHT
        cells[:, : self._inputs] = flipped.reshape(self._cells, self._inputs)

    def decode(self, blob: NDArray[np.uint8]) -> NDArray[np.int8]:
        """Weights of `shape` from uint8[size]; ModelFormatError if the filler is wrong."""
        check_blob(blob, self.size)
        cells = self._cell_view(blob)
        check_filler(cells[:, self._inputs : _CELL_BYTES], ZERO_WEIGHT, "channels that do not exist")
        check_filler(cells[:, _CELL_BYTES:], 0, "the gaps between cells")
        check_filler(blob[self._cells * self._pitch :], 0, "the end of a layer")
        flipped: NDArray[np.uint8] = cells[:, : self._inputs] ^ ZERO_WEIGHT
        return flipped.view(np.int8).reshape(self.shape)

    def _cell_view(self, blob: NDArray[np.uint8]) -> NDArray[np.uint8]:
        return blob[: self._cells * self._pitch].reshape(self._cells, self._pitch)


def convolution_layout(height: int, width: int, channels: int) -> SingleOutputLayout:
    """A convolution [1, height, width, channels] with one kernel, in pixels and channels.

    Established for 1x1x3 (colour filter) and 3x3x1; for square kernels of 8 and 16 the positions of the
    weights are, and of 32, where cells lie 64 bytes apart. ModelUnsupportedError outside that.
    """
    largest = max(height, width)
    known = largest <= _DENSE_KERNEL or height == width == _SPARSE_KERNEL
    if not known or min(height, width) < 1 or not 1 <= channels <= INPUTS_PER_CELL:
        raise ModelUnsupportedError(
            f"the parameter layout of a {height}x{width} convolution of {channels} channels is not known; "
            f"expected up to {_DENSE_KERNEL}x{_DENSE_KERNEL}, or {_SPARSE_KERNEL}x{_SPARSE_KERNEL}, "
            f"of up to {INPUTS_PER_CELL} channels"
        )
    pitch = _CELL_BYTES if largest <= _DENSE_KERNEL else ALIGNMENT
    return SingleOutputLayout((1, height, width, channels), channels, pitch)


def coordinate_layout(inputs: int) -> SingleOutputLayout:
    """A FULLY_CONNECTED layer [1, inputs]: a row of 64 bytes for every four inputs.

    ModelUnsupportedError unless inputs is a multiple of four.
    """
    if inputs < INPUTS_PER_CELL or inputs % INPUTS_PER_CELL:
        raise ModelUnsupportedError(
            f"the parameter layout of a coordinate row of {inputs} inputs is not known; "
            f"expected a multiple of {INPUTS_PER_CELL}"
        )
    return SingleOutputLayout((1, inputs), INPUTS_PER_CELL, ALIGNMENT)
