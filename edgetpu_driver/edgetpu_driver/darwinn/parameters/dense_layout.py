"""The layout of the matrix of a Dense model, and of a smaller matrix embedded in a larger one.

Rows come in groups of 64, one group per tile of the chip. A group is a header (64 float32 multipliers, then
64 int32 zero points, 512 bytes in all) and its weights: for every four input columns, 64 rows of four bytes.
The chip computes

    output[r] = clamp(round(multiplier[r] * sum_c(weight[r, c] * (input[c] - input zero point)))
                      + output zero point)

Established byte for byte for square matrices of 64 to 1024 rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.darwinn.chip_geometry import CELLS, INPUTS_PER_CELL
from edgetpu_driver.darwinn.parameters.layer_layout import GroupedLayout, HeaderRows
from edgetpu_driver.darwinn.parameters.section_codec import (
    check_filler,
    check_weights,
)
from edgetpu_driver.errors import InputError, ModelUnsupportedError

GROUP_ROWS = CELLS
HEADER_BYTES = 8 * GROUP_ROWS
"""Size of a group's header: a float32 multiplier and a 32-bit zero point for each row."""

_ABSENT_MULTIPLIER = 1.0
"""Multiplier of rows that pad a matrix. Their weights are 0, so any finite factor gives the same outputs."""
_HEADER = HeaderRows(multipliers=True, zero_points=True)


class DenseLayout(GroupedLayout):
    """The layout of a matrix with a multiplier for every row and no bias."""

    def __init__(self, rows: int, columns: int | None = None) -> None:
        """rows: output channels; columns: inputs, by default as many as rows.

        ModelUnsupportedError for fewer than 64 rows.
        """
        columns = rows if columns is None else columns
        if rows < GROUP_ROWS or columns < 1:
            raise ModelUnsupportedError(
                f"the parameter layout of a Dense layer of {rows} rows and {columns} columns is not known; "
                f"expected at least {GROUP_ROWS} rows"
            )
        super().__init__((rows, columns), _HEADER, least_lanes=GROUP_ROWS)
        self.rows = rows
        self.columns = columns

    @staticmethod
    def bytes_of(rows: int, columns: int) -> int:
        """Size of a matrix in bytes; fewer than 64 rows count as 64."""
        cells = -(-columns // INPUTS_PER_CELL)
        return -(-rows // GROUP_ROWS) * (HEADER_BYTES + GROUP_ROWS * INPUTS_PER_CELL * cells)

    def new_blob(self, multipliers: NDArray[Any]) -> NDArray[np.uint8]:
        """uint8[size] with complete headers but without weights."""
        blob = np.zeros(self.size, np.uint8)
        self.encode_multipliers(multipliers, blob)
        return blob


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
    def has_bias_columns(self) -> bool:
        """Whether columns outside the matrix hold weights."""
        return bool(self._filler.any())

    def encode(self, weights: NDArray[np.int8], out: NDArray[np.uint8]) -> None:
        """Write int8[rows, columns] and the filler into a blob; the headers stay unchanged."""
        check_weights(weights, self.shape)
        whole = self._filler.copy()
        whole[: self.rows, : self.columns] = weights
        self._whole.encode(whole, out)

    def decode(self, blob: NDArray[np.uint8]) -> NDArray[np.int8]:
        """int8[rows, columns] from uint8[size]; ModelFormatError if the filler is wrong."""
        whole = self._whole.decode(blob)
        weights = whole[: self.rows, : self.columns].copy()
        whole[: self.rows, : self.columns] = 0
        check_filler(whole, self._filler, "the padding of a matrix")
        return weights

    def encode_multipliers(self, multipliers: NDArray[Any], out: NDArray[np.uint8]) -> None:
        """Write the headers: multipliers, [rows] of any float type, 1 for padding rows, and zero points.

        InputError for another number of multipliers.
        """
        padded = np.full(self._whole.rows, _ABSENT_MULTIPLIER, np.result_type(multipliers, np.float32))
        if multipliers.shape != (self.rows,):
            raise InputError(f"expected {self.rows} finite multipliers; got {multipliers}")
        padded[: self.rows] = multipliers
        self._whole.encode_multipliers(padded, out)

    def decode_multipliers(self, blob: NDArray[np.uint8]) -> NDArray[np.float32]:
        """float32[rows] from the headers of uint8[size]."""
        return self._whole.decode_multipliers(blob)[: self.rows]
