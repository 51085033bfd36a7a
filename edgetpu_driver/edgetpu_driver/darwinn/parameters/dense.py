"""FULLY_CONNECTED layers with a scale per output row: the Dense parameter blob.

Rows come in groups of 64, one group per tile of the chip. A group is a header (64 float32 multipliers, then
64 int32 zero points, 512 bytes in all) and its weights: for every four input columns, 64 rows of four bytes.
The chip computes

    output[r] = clamp(round(multiplier[r] * sum_c(weight[r, c] * (input[c] - input zero point)))
                      + output zero point)

Established byte for byte for square matrices of 64 to 1024 rows. If the row count is not a multiple of 64,
the last group is padded as in per-channel pointwise convolutions: missing rows have multiplier 1.0, zero
point 0 and weight bytes 0x00. Matrices of fewer than 64 rows have another layout.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.darwinn.parameters.section_codec import (
    INPUTS_PER_CELL,
    ZERO_WEIGHT,
    check_blob,
    check_filler,
    check_target,
    check_weights,
)
from edgetpu_driver.errors import InputError, ModelUnsupportedError

GROUP_ROWS = 64
HEADER_BYTES = 8 * GROUP_ROWS

_HEADER_WORDS = HEADER_BYTES // 4
_SIGN_BITS = np.uint32(0x80808080)
_ABSENT_MULTIPLIER = 1.0


class DenseLayout:
    """The layout of one matrix, prepared once. Methods keep no state and are thread-safe.

    Little-endian hosts only, like the rest of the driver.
    """

    def __init__(self, rows: int, columns: int | None = None) -> None:
        """rows: output channels; columns: inputs, as many as rows unless given.

        ModelUnsupportedError for fewer than 64 rows.
        """
        columns = rows if columns is None else columns
        if rows < GROUP_ROWS or columns < 1:
            raise ModelUnsupportedError(
                f"the parameter layout of a Dense layer of {rows} rows and {columns} columns is not known; "
                f"expected at least {GROUP_ROWS} rows"
            )
        self.rows = rows
        self.columns = columns
        self.shape = (rows, columns)
        self._groups = -(-rows // GROUP_ROWS)
        self._cells = -(-columns // INPUTS_PER_CELL)
        self._group_words = _HEADER_WORDS + GROUP_ROWS * self._cells
        self._full = rows // GROUP_ROWS
        self.size = self.bytes_of(rows, columns)

    @staticmethod
    def bytes_of(rows: int, columns: int) -> int:
        """Size of a matrix in bytes; fewer than 64 rows count as 64."""
        cells = -(-columns // INPUTS_PER_CELL)
        return -(-rows // GROUP_ROWS) * (HEADER_BYTES + GROUP_ROWS * INPUTS_PER_CELL * cells)

    def new_blob(self, multipliers: NDArray[Any]) -> NDArray[np.uint8]:
        """uint8[size] with complete headers; the weights are still to be encoded into it."""
        blob = np.zeros(self.size, np.uint8)
        self.encode_multipliers(multipliers, blob)
        return blob

    def encode(self, weights: NDArray[np.int8], out: NDArray[np.uint8]) -> None:
        """Write int8[rows, columns] into a blob, leaving its headers as they are.

        0.01 ms for 256 x 256 and 0.1 ms for 1024 x 1024: one pass that transposes and flips the sign bits.
        """
        check_weights(weights, self.shape)
        check_target(out, self.size)
        source = self._words(weights)
        cells = self._weight_view(out)
        full = self._full
        split = source[: full * GROUP_ROWS].reshape(full, GROUP_ROWS, self._cells).transpose(0, 2, 1)
        np.bitwise_xor(split, _SIGN_BITS, out=cells[:full])
        if full < self._groups:
            rest = self.rows - full * GROUP_ROWS
            np.bitwise_xor(source[-rest:].T, _SIGN_BITS, out=cells[full, :, :rest])
            cells[full, :, rest:] = 0

    def decode(self, blob: NDArray[np.uint8]) -> NDArray[np.int8]:
        """int8[rows, columns] from uint8[size]; ModelFormatError if zero points or padding are wrong."""
        check_blob(blob, self.size)
        check_filler(self._header_view(blob)[:, 1].view(np.int32), self._zero_points(), "zero points")
        cells = self._weight_view(blob)
        rows = cells.transpose(0, 2, 1).reshape(-1, self._cells)
        check_filler(rows[self.rows :], 0, "rows past the last")
        weights = np.ascontiguousarray(rows[: self.rows] ^ _SIGN_BITS).view(np.int8)
        check_filler(weights[:, self.columns :], 0, "columns past the last")
        return np.ascontiguousarray(weights[:, : self.columns])

    def encode_multipliers(self, multipliers: NDArray[Any], out: NDArray[np.uint8]) -> None:
        """Write the headers: multipliers, [rows] of any float type, and the zero points that go with them.

        InputError unless all multipliers are finite as float32.
        """
        check_target(out, self.size)
        with np.errstate(over="ignore"):
            narrow = multipliers.astype(np.float32)
        if narrow.shape != (self.rows,) or not np.all(np.isfinite(narrow)):
            raise InputError(f"expected {self.rows} finite multipliers; got {multipliers}")
        padded = np.full(self._groups * GROUP_ROWS, _ABSENT_MULTIPLIER, np.float32)
        padded[: self.rows] = narrow
        header = self._header_view(out)
        header[:, 0] = padded.view(np.uint32).reshape(self._groups, GROUP_ROWS)
        header[:, 1] = self._zero_points()

    def decode_multipliers(self, blob: NDArray[np.uint8]) -> NDArray[np.float32]:
        """float32[rows] from the headers of uint8[size]."""
        check_blob(blob, self.size)
        words = np.ascontiguousarray(self._header_view(blob)[:, 0])
        return words.reshape(-1).view(np.float32)[: self.rows].copy()

    def _words(self, weights: NDArray[np.int8]) -> NDArray[np.uint32]:
        """The weights as uint32[rows, cells]; missing columns have the weight 0."""
        if self.columns % INPUTS_PER_CELL or not weights.flags.c_contiguous:
            padded = np.zeros((self.rows, self._cells * INPUTS_PER_CELL), np.int8)
            padded[:, : self.columns] = weights
            weights = padded
        return weights.view(np.uint32)

    def _groups_view(self, blob: NDArray[np.uint8]) -> NDArray[np.uint32]:
        return blob.view(np.uint32).reshape(self._groups, self._group_words)

    def _weight_view(self, blob: NDArray[np.uint8]) -> NDArray[np.uint32]:
        """uint32[groups, cells, 64]."""
        return self._groups_view(blob)[:, _HEADER_WORDS:].reshape(self._groups, self._cells, GROUP_ROWS)

    def _header_view(self, blob: NDArray[np.uint8]) -> NDArray[np.uint32]:
        """uint32[groups, 2, 64]: multipliers and zero points."""
        return self._groups_view(blob)[:, :_HEADER_WORDS].reshape(self._groups, 2, GROUP_ROWS)

    def _zero_points(self) -> NDArray[np.int32]:
        present = np.arange(self._groups * GROUP_ROWS) < self.rows
        return np.where(present, np.int32(ZERO_WEIGHT), np.int32(0)).reshape(self._groups, GROUP_ROWS)


class PaddedDenseLayout(DenseLayout):
    """A matrix in the upper left corner of the square matrix that a program is for.

    The other weights are part of the layout: columns that hold a bias, and zeros.
    """

    def __init__(self, rows: int, columns: int, size: int, bias: NDArray[np.int8] | None = None) -> None:
        """size: rows and columns of the whole. bias: int8[rows, n], the columns from `columns` on.

        InputError if that does not fit.
        """
        super().__init__(size)
        width = 0 if bias is None else bias.shape[1]
        if not (0 < rows <= size and 0 < columns <= size - width):
            raise InputError(
                f"a matrix of {rows} x {columns} and {width} columns of a bias exceed {size} x {size}"
            )
        self._whole = DenseLayout(size)
        self._filler = np.zeros((size, size), np.int8)
        if bias is not None:
            self._filler[:rows, columns : columns + width] = bias
        self.rows, self.columns, self.shape = rows, columns, (rows, columns)

    @property
    def has_bias(self) -> bool:
        """Whether other columns than those of the matrix have weights."""
        return bool(self._filler.any())

    def encode(self, weights: NDArray[np.int8], out: NDArray[np.uint8]) -> None:
        """Write int8[rows, columns] and all else into a blob, leaving its headers as they are."""
        check_weights(weights, self.shape)
        whole = self._filler.copy()
        whole[: self.rows, : self.columns] = weights
        self._whole.encode(whole, out)

    def decode(self, blob: NDArray[np.uint8]) -> NDArray[np.int8]:
        """int8[rows, columns] from uint8[size]; ModelFormatError if anything else is not of this layout."""
        whole = self._whole.decode(blob)
        weights = whole[: self.rows, : self.columns].copy()
        whole[: self.rows, : self.columns] = 0
        check_filler(whole, self._filler, "the padding of a matrix")
        return weights

    def encode_multipliers(self, multipliers: NDArray[Any], out: NDArray[np.uint8]) -> None:
        """Write the headers: multipliers, [rows] of any float type, 1 for other rows, and zero points."""
        padded = np.full(self._whole.rows, _ABSENT_MULTIPLIER, np.result_type(multipliers, np.float32))
        if multipliers.shape != (self.rows,):
            raise InputError(f"expected {self.rows} finite multipliers; got {multipliers}")
        padded[: self.rows] = multipliers
        self._whole.encode_multipliers(padded, out)

    def decode_multipliers(self, blob: NDArray[np.uint8]) -> NDArray[np.float32]:
        """float32[rows] from the headers of uint8[size]."""
        return self._whole.decode_multipliers(blob)[: self.rows]
