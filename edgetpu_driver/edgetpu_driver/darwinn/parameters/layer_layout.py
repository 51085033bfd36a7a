"""The layout of a layer's weights: one rule for matrices, convolutions and depthwise convolutions.

A section consists of groups of output channels. Each group starts with header rows, which hold a float32 or
int32 for every channel, followed by rows of cells: the bytes of four inputs for every channel. All rows of a
group have the same length. Channels are padded to a multiple of four with weights of zero, stored as the zero
point of the bytes. Lanes beyond them are empty.

Matrices and convolutions have groups of 64 channels. The cells of all inputs for one position of the kernel
are contiguous; in some 3x3 convolutions of older compilers (2019), the positions of one cell are contiguous.
If a RESHAPE splits the channels of a result into blocks, as in heads of detectors, each block is padded to a
multiple of four. Groups of depthwise convolutions are in `depthwise_layout`.

Source: comparison of the graphs of published networks with the output of edgetpu_compiler 16, which this
reproduces byte for byte.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.darwinn.chip_geometry import CELLS, INPUTS_PER_CELL
from edgetpu_driver.darwinn.parameters.section_codec import (
    ZERO_WEIGHT,
    aligned,
    check_bias,
    check_blob,
    check_filler,
    check_target,
    check_weights,
    no_bias,
)
from edgetpu_driver.errors import InputError, ModelUnsupportedError

SIGN_BIT = 0x80
"""Signed weights are stored with the top bit inverted."""
CHANNELS_PER_CELL = 4
"""Channels are padded to a multiple of this."""
_LARGEST_DENSE_KERNEL = 16
"""Maximum side in px of a single kernel with contiguous cells; those of a 32 x 32 kernel are apart."""
LEAST_CONVOLUTION_LANES, _LEAST_MATRIX_LANES = 4, 16
"""Lanes of layers of up to four channels."""


@dataclass(frozen=True)
class HeaderRows:
    """The header rows before the weights of each group, in the order of the fields."""

    multipliers: bool = False
    """float32: input scale * weight scale / output scale. Present if the channels have different scales."""
    bias: bool = False
    """int32, in steps of input scale * weight scale. Absent if all are zero, except in some depthwise
    convolutions."""
    zero_points: bool = False
    """int32: 128. Present if every channel has its own scale, even if they are all equal."""

    @property
    def count(self) -> int:
        """Number of rows."""
        return self.multipliers + self.bias + self.zero_points


class LayerLayout:
    """The layout of one layer, prepared once. Methods keep no state and are thread-safe.

    Weights are those of the graph, int8 or uint8. Little-endian hosts only, like the rest of the driver.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        channels: int,
        header: HeaderRows,
        form: tuple[int, int, int],
        dtype: type[np.int8] | type[np.uint8],
        zero_point: int,
        block: int | None = None,
    ) -> None:
        """Use `convolution_layout` and others instead.

        form: groups, cells of each lane, lanes. block: channels of a block, by default all.
        """
        self.shape = shape
        self.channels = channels
        """Output channels."""
        self.header = header
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self._zero = zero_point
        self.block = block or channels
        """Channels that are padded to a multiple of four together."""
        self._lane_of = lanes_of(channels, self.block)
        """The lane of each channel, over all groups, [channels]."""
        self._existing = existing_lanes(channels, self.block)
        self._filled = np.setdiff1d(np.arange(self._existing), self._lane_of)
        """Lanes that pad the blocks."""
        self._groups, cells, self._lanes = form
        self._rows = header.count + cells
        self._used = self._groups * self._rows * self._lanes * INPUTS_PER_CELL
        self.inputs_first = False
        """Whether inputs come before kernel positions in the order of the cells."""
        self.size = aligned(self._used)

    @property
    def has_bias(self) -> bool:
        """Whether the section has a row for the bias."""
        return self.header.bias

    def encode(self, weights: NDArray[Any], out: NDArray[np.uint8]) -> None:
        """Write weights of `shape` and `dtype` and all filler into uint8[size]; the header rows stay.

        InputError for another shape or dtype.
        """
        check_weights(weights, self.shape, self.dtype)
        check_target(out, self.size)
        self._encode_cells(weights, self._view(out)[:, self.header.count :])
        out[self._used :] = 0

    def decode(self, blob: NDArray[np.uint8]) -> NDArray[Any]:
        """Weights of `shape` and `dtype` from uint8[size]; ModelFormatError if filler is wrong."""
        check_blob(blob, self.size)
        if self.header.zero_points:
            rows = self._header_row(blob, self.header.count - 1)
            check_filler(rows, self._by_lane(int(ZERO_WEIGHT), int(ZERO_WEIGHT)), "zero points")
        check_filler(blob[self._used :], 0, "the end of a layer")
        return self._decode_cells(self._view(blob)[:, self.header.count :])

    def encode_header(
        self,
        out: NDArray[np.uint8],
        *,
        bias: NDArray[np.int32] | None = None,
        multipliers: NDArray[Any] | None = None,
    ) -> None:
        """Write all header rows into uint8[size].

        bias, multipliers: [channels], for the rows that exist; InputError if one is missing.
        """
        check_target(out, self.size)
        if (bias is None) is self.header.bias or (multipliers is None) is self.header.multipliers:
            raise InputError(f"expected the values of {self.header}")
        if bias is not None:
            self.encode_bias(bias, out)
        if multipliers is not None:
            self.encode_multipliers(multipliers, out)
        elif self.header.zero_points:
            self._encode_zero_points(out)

    def encode_bias(self, bias: NDArray[np.int32], out: NDArray[np.uint8]) -> None:
        """Write int32[channels]; ModelUnsupportedError for a layer that was compiled without a bias."""
        self._check_bias_row()
        check_target(out, self.size)
        check_bias(bias, self.channels)
        self._header_row(out, int(self.header.multipliers))[...] = self._by_lane(bias, 0)

    def decode_bias(self, blob: NDArray[np.uint8]) -> NDArray[np.int32]:
        """int32[channels] from uint8[size]; raises as `encode_bias`, and ModelFormatError."""
        self._check_bias_row()
        check_blob(blob, self.size)
        row = np.ascontiguousarray(self._header_row(blob, int(self.header.multipliers))).reshape(-1)
        check_filler(row[self._filled], 0, "the bias of channels that do not exist")
        check_filler(row[self._existing :], 0, "the bias of channels past the last")
        return row[self._lane_of]

    def encode_multipliers(self, multipliers: NDArray[Any], out: NDArray[np.uint8]) -> None:
        """Write multipliers, [channels] of any float type, and the zero points.

        InputError unless all multipliers are finite as float32.
        """
        check_target(out, self.size)
        with np.errstate(over="ignore"):
            narrow = np.asarray(multipliers).astype(np.float32)
        if narrow.shape != (self.channels,) or not np.all(np.isfinite(narrow)):
            raise InputError(f"expected {self.channels} finite multipliers; got {multipliers}")
        words = self._by_lane(narrow.view(np.int32), int(narrow[:1].view(np.int32)[0]))
        if self._existing > CELLS:
            words.reshape(-1)[self._existing :] = np.float32(1).view(np.int32)
        self._header_row(out, 0)[...] = words
        self._encode_zero_points(out)

    def decode_multipliers(self, blob: NDArray[np.uint8]) -> NDArray[np.float32]:
        """float32[channels] from uint8[size]."""
        check_blob(blob, self.size)
        words = np.ascontiguousarray(self._header_row(blob, 0)).reshape(-1)
        return words.view(np.float32)[self._lane_of]

    def _encode_zero_points(self, out: NDArray[np.uint8]) -> None:
        self._header_row(out, self.header.count - 1)[...] = self._by_lane(int(ZERO_WEIGHT), int(ZERO_WEIGHT))

    def _check_bias_row(self) -> None:
        if not self.header.bias:
            raise no_bias()

    def _by_lane(self, values: NDArray[np.int32] | int, missing: int) -> NDArray[np.int32]:
        """int32[groups, lanes]: the values, then `missing` up to a multiple of four, then 0."""
        words = np.zeros(self._groups * self._lanes, np.int32)
        words[: self._existing] = missing
        words[self._lane_of] = values
        return words.reshape(self._groups, self._lanes)

    def _view(self, blob: NDArray[np.uint8]) -> NDArray[np.uint32]:
        """uint32[groups, rows, lanes]."""
        return blob[: self._used].view(np.uint32).reshape(self._groups, self._rows, self._lanes)

    def _header_row(self, blob: NDArray[np.uint8], row: int) -> NDArray[np.int32]:
        """int32[groups, lanes]."""
        return self._view(blob)[:, row].view(np.int32)

    def _encode_cells(self, weights: NDArray[Any], cells: NDArray[np.uint32]) -> None:
        """Fill [groups, cells, lanes]."""
        raise NotImplementedError

    def _decode_cells(self, cells: NDArray[np.uint32]) -> NDArray[Any]:
        raise NotImplementedError


class GroupedLayout(LayerLayout):
    """A layer that sums over its inputs: groups of 64 channels, or a single smaller group."""

    def __init__(
        self,
        shape: tuple[int, ...],
        header: HeaderRows | None = None,
        *,
        least_lanes: int,
        dtype: type[np.int8] | type[np.uint8] = np.int8,
        zero_point: int = 0,
        channels_last: bool = False,
        block: int | None = None,
    ) -> None:
        """shape: [channels, .., inputs], or [1, .., channels] of one input with channels_last.

        least_lanes: of layers of up to four channels. zero_point: of the weights in the graph. block:
        channels of a block, by default all. Raises ModelUnsupportedError for a dimension of 0.
        """
        channels, inputs = (shape[-1], 1) if channels_last else (shape[0], shape[-1])
        if min(shape, default=0) < 1:
            raise ModelUnsupportedError(f"expected weights without a dimension of 0, got {list(shape)}")
        self._positions = prod(shape) // (channels * inputs)
        self._inputs = inputs
        self._cells = -(-inputs // INPUTS_PER_CELL)
        existing = existing_lanes(channels, block or channels)
        groups = -(-existing // CELLS)
        lanes = CELLS if groups > 1 else -(-existing // 16) * 16
        if existing <= CHANNELS_PER_CELL:
            lanes = least_lanes
        self._least_lanes = least_lanes
        form = groups, self._positions * self._cells, lanes
        super().__init__(shape, channels, header or HeaderRows(), form, dtype, zero_point, block)
        self._channels_last = channels_last
        sign = SIGN_BIT if self.dtype == np.int8 else 0
        self._sign = np.uint32(sign * 0x01010101)

    def with_inputs_first(self) -> GroupedLayout | None:
        """The layout with the other order of cells; None if a kernel has one position or one cell."""
        if self._positions == 1 or self._cells == 1:
            return None
        other = copy(self)
        other.inputs_first = True
        return other

    def with_blocks(self, channels: int) -> GroupedLayout | None:
        """The layout in blocks of this many channels; None if the bytes are the same."""
        if not 0 < channels < self.channels or self.channels % channels or channels % CHANNELS_PER_CELL == 0:
            return None
        return GroupedLayout(
            self.shape,
            self.header,
            least_lanes=self._least_lanes,
            dtype=self.dtype.type,
            zero_point=self._zero,
            channels_last=self._channels_last,
            block=channels,
        )

    @property
    def weight_offsets(self) -> NDArray[np.intp]:
        """Byte offset of each weight in the section, intp of `shape`."""
        channel, position, source = np.indices((self.channels, self._positions, self._inputs))
        group, lane = np.divmod(self._lane_of[channel], self._lanes)
        cell = source // INPUTS_PER_CELL
        order = cell * self._positions + position if self.inputs_first else position * self._cells + cell
        row = self.header.count + order
        lanes = (group * self._rows + row) * self._lanes + lane
        return self._to_graph(lanes * INPUTS_PER_CELL + source % INPUTS_PER_CELL)

    def _encode_cells(self, weights: NDArray[Any], cells: NDArray[np.uint32]) -> None:
        source = self._words(weights)
        full = self._existing // self._lanes
        split = source[: full * self._lanes].reshape(full, self._lanes, cells.shape[1]).transpose(0, 2, 1)
        np.bitwise_xor(split, self._sign, out=cells[:full])
        if full < self._groups:
            rest = self._existing - full * self._lanes
            np.bitwise_xor(source[full * self._lanes :].T, self._sign, out=cells[full, :, :rest])
            cells[full, :, rest:] = 0

    def _decode_cells(self, cells: NDArray[np.uint32]) -> NDArray[Any]:
        rows = cells.transpose(0, 2, 1).reshape(self._groups * self._lanes, -1)
        check_filler(rows[self._existing :], 0, "rows past the last")
        words = rows[: self._existing] ^ self._sign
        if self.inputs_first:
            words = words.reshape(-1, self._cells, self._positions).transpose(0, 2, 1)
        existing = np.ascontiguousarray(words).view(self.dtype)
        weights = existing.reshape(self._existing, self._positions, -1)
        check_filler(weights[self._filled], self._zero, "channels that do not exist")
        weights = weights[: self.channels] if self.block == self.channels else weights[self._lane_of]
        check_filler(weights[..., self._inputs :], self._zero, "columns past the last")
        return self._to_graph(weights[..., : self._inputs])

    def _words(self, weights: NDArray[Any]) -> NDArray[np.uint32]:
        """The weights as uint32[channels up to the multiple of four, cells]."""
        filled = self._inputs == self._cells * INPUTS_PER_CELL and self._existing == self.channels
        if not filled or self._channels_last or not weights.flags.c_contiguous:
            size = self._existing, self._positions, self._cells * INPUTS_PER_CELL
            padded = np.full(size, self._zero, self.dtype)
            form = self.channels, self._positions, self._inputs
            by_channel = weights.reshape(-1, self.channels).T if self._channels_last else weights
            padded[self._lane_of, :, : self._inputs] = by_channel.reshape(form)
            weights = padded
        words = weights.reshape(-1).view(np.uint32).reshape(self._existing, self._positions, self._cells)
        return (words.transpose(0, 2, 1) if self.inputs_first else words).reshape(self._existing, -1)

    def _to_graph(self, values: NDArray[Any]) -> NDArray[Any]:
        """From [channels, positions, inputs] to the shape of the graph."""
        by_channel = values.reshape(self.channels, -1)
        ordered = by_channel.T if self._channels_last else by_channel
        return np.ascontiguousarray(ordered).reshape(self.shape)


def existing_lanes(channels: int, block: int) -> int:
    """Number of lanes that hold channels, with blocks padded to multiples of four."""
    return channels // block * (-(-block // CHANNELS_PER_CELL) * CHANNELS_PER_CELL)


def lanes_of(channels: int, block: int) -> NDArray[np.intp]:
    """The lane of each channel, over all groups, [channels]."""
    number, lane = np.divmod(np.arange(channels, dtype=np.intp), block)
    return number * existing_lanes(block, block) + lane


def matrix_layout(
    shape: tuple[int, ...],
    header: HeaderRows | None = None,
    *,
    dtype: type[np.int8] | type[np.uint8] = np.int8,
    zero_point: int = 0,
) -> GroupedLayout:
    """The layout of a FULLY_CONNECTED [rows, columns]. zero_point: of the weights in the graph."""
    return GroupedLayout(shape, header, least_lanes=_LEAST_MATRIX_LANES, dtype=dtype, zero_point=zero_point)


def convolution_layout(
    shape: tuple[int, ...],
    header: HeaderRows | None = None,
    *,
    dtype: type[np.int8] | type[np.uint8] = np.int8,
    zero_point: int = 0,
) -> GroupedLayout:
    """The layout of a CONV_2D [channels, height, width, inputs]. zero_point: of the weights in the graph."""
    large = max(shape[1:3]) > _LARGEST_DENSE_KERNEL
    lanes = _LEAST_MATRIX_LANES if large else LEAST_CONVOLUTION_LANES
    return GroupedLayout(shape, header, least_lanes=lanes, dtype=dtype, zero_point=zero_point)
