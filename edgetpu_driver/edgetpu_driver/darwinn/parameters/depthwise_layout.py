"""The layout of the weights of depthwise convolutions.

Channels are in groups of four, with their weights on the diagonal of 4 x 4 bytes. A convolution of one input
channel is stored like an ordinary one.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.darwinn.parameters.layer_layout import (
    CHANNELS_PER_CELL,
    LEAST_CONVOLUTION_LANES,
    SIGN_BIT,
    GroupedLayout,
    HeaderRows,
    LayerLayout,
)
from edgetpu_driver.darwinn.parameters.section_codec import check_filler
from edgetpu_driver.errors import ModelUnsupportedError


class DiagonalLayout(LayerLayout):
    """A depthwise convolution of several channels with one kernel each: groups of four channels."""

    def __init__(
        self,
        shape: tuple[int, ...],
        header: HeaderRows | None = None,
        *,
        dtype: type[np.int8] | type[np.uint8] = np.int8,
        zero_point: int = 0,
    ) -> None:
        """shape: [1, height, width, channels]; ModelUnsupportedError for another one.

        zero_point: of the weights in the graph.
        """
        if min(shape, default=0) < 1 or shape[0] != 1:
            raise ModelUnsupportedError(f"expected weights [1, height, width, channels], got {list(shape)}")
        self._positions = prod(shape[:-1])
        form = -(-shape[-1] // CHANNELS_PER_CELL), self._positions, CHANNELS_PER_CELL
        super().__init__(shape, shape[-1], header or HeaderRows(), form, dtype, zero_point)
        self._sign = np.uint8(SIGN_BIT if self.dtype == np.int8 else 0)

    def _encode_cells(self, weights: NDArray[Any], cells: NDArray[np.uint32]) -> None:
        padded = np.full((self._positions, self._existing), self._zero, self.dtype)
        padded[:, : self.channels] = weights.reshape(self._positions, self.channels)
        stored = padded.view(np.uint8) ^ self._sign
        cells[...] = self._zero_byte * np.uint32(0x01010101)
        self._diagonal(cells)[...] = stored.reshape(self._positions, self._groups, -1).transpose(1, 0, 2)

    def _decode_cells(self, cells: NDArray[np.uint32]) -> NDArray[Any]:
        stored = self._diagonal(cells).transpose(1, 0, 2).reshape(self._positions, self._existing)
        weights = (stored ^ self._sign).view(self.dtype)
        check_filler(weights[:, self.channels :], self._zero, "channels that do not exist")
        weights = np.ascontiguousarray(weights[:, : self.channels]).reshape(self.shape)
        expected = np.empty(cells.shape, np.uint32)
        self._encode_cells(weights, expected)
        check_filler(cells, expected, "products of different channels")
        return weights

    @property
    def _zero_byte(self) -> np.uint32:
        return np.uint32((self._zero ^ int(self._sign)) & 0xFF)

    def _diagonal(self, cells: NDArray[np.uint32]) -> NDArray[np.uint8]:
        """uint8[groups, positions, 4], a view: byte 5 * i of every row of 16."""
        strides = (*cells.strides[:2], cells.strides[2] + 1)
        shape = (*cells.shape[:2], CHANNELS_PER_CELL)
        start = cells[:1, :1].view(np.uint8)  # before NumPy 1.23 only contiguous arrays have a view of bytes
        return np.lib.stride_tricks.as_strided(start, shape, strides, writeable=cells.flags.writeable)


def depthwise_layout(
    shape: tuple[int, ...],
    inputs: int,
    header: HeaderRows | None = None,
    *,
    dtype: type[np.int8] | type[np.uint8] = np.int8,
    zero_point: int = 0,
) -> LayerLayout:
    """The layout of a DEPTHWISE_CONV_2D [1, height, width, channels] with `inputs` input channels.

    zero_point: of the weights in the graph. ModelUnsupportedError for several inputs with several outputs
    each.
    """
    if inputs == 1:
        return GroupedLayout(
            shape,
            header,
            least_lanes=LEAST_CONVOLUTION_LANES,
            dtype=dtype,
            zero_point=zero_point,
            channels_last=True,
        )
    if shape[-1] != inputs:
        raise ModelUnsupportedError(
            f"the layout of a depthwise convolution of {inputs} inputs to {shape[-1]} outputs is not known; "
            "expected as many outputs as inputs, or one input"
        )
    return DiagonalLayout(shape, header, dtype=dtype, zero_point=zero_point)
