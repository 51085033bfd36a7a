"""Quantising real weights to the int8 values of a model's weight tensor, with the error that this causes."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import ClippingError, InputError
from edgetpu_driver.weights.weight_request import WeightRequest, WeightResult
from edgetpu_driver.weights.weight_tensors import WeightTensor

INT8_MAX = 127
"""Quantisation steps on either side of zero; TFLite leaves -128 unused in weights."""

_BLOCK_VALUES = 1 << 16  # values quantised at a time, so that they fit into the processor's cache
_SMALLEST_SCALE = 1e-30
_LARGE_ERROR = 1e15  # beyond it squares, and values in steps, may overflow float32


class WeightQuantiser:
    """Quantises real weights to the int8 values of one tensor, repeatedly. Not thread-safe."""

    def __init__(self, tensor: WeightTensor) -> None:
        self.tensor = tensor
        rows = tensor.scales.size
        self._size = rows, prod(tensor.shape) // rows
        self._values = np.zeros(self._size, np.int8)
        self._filled = self._size
        block = max(1, min(rows, _BLOCK_VALUES // self._size[1]))
        self._block = block
        self._scratch = np.empty((3, block * self._size[1]), np.float32)

    @property
    def values(self) -> NDArray[np.int8]:
        """The weights quantised last, of the tensor's shape; overwritten by the next call of `quantise`."""
        if self.tensor.rows_last:
            return np.ascontiguousarray(self._values.T).reshape(self.tensor.shape)
        return self._values.reshape(self.tensor.shape)

    def quantise(self, request: WeightRequest) -> WeightResult:
        """Quantise to `values`: round to the nearest step, half to even; clip to -127..127 steps.

        The result has version 0: the caller counts versions. Raises InputError for weights that do not fit
        the tensor, ClippingError if values would be clipped and the request does not accept that.
        """
        real = self._rows(request.weights)
        rows, columns = real.shape
        scales = self.tensor.scales[:rows].copy()
        if request.rescale_rows:
            scales = _fitting_scales(real, scales)
        elif request.row_gains is not None:
            scales /= _checked_gains(request.row_gains, rows)
        if (rows, columns) != self._filled:
            self._values[:] = 0
            self._filled = rows, columns
        clipped, worst, squares = 0, 0.0, 0.0
        for start in range(0, rows, self._block):
            part = slice(start, min(start + self._block, rows))
            lost = self._quantise_block(real[part], scales[part], self._values[part, :columns])
            clipped, worst, squares = clipped + lost[0], max(worst, lost[1]), squares + lost[2]
        if clipped and not request.accept_clipping:
            raise clipping_error(self.tensor.scales, clipped, real.size, worst)
        scales.setflags(write=False)
        rms = float(np.sqrt(squares / real.size))
        tensor = self.tensor
        return WeightResult(0, scales, clipped, worst, rms, tensor.shape, tensor.is_pure_matmul)

    def _rows(self, weights: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """The weights as [rows, columns]."""
        tensor = self.tensor
        array = np.asarray(weights)
        fits = array.shape == tensor.shape
        if tensor.is_matrix and array.ndim == 2 and array.size:
            fits = all(size <= most for size, most in zip(array.shape, tensor.shape, strict=True))
        if not fits or array.dtype.kind not in "fiu":
            at_most = "at most " if tensor.is_matrix else ""
            raise InputError(
                f"expected real weights of shape {at_most}{list(tensor.shape)} for '{tensor.name}'; got "
                f"{array.dtype.name}{list(array.shape)}"
            )
        with np.errstate(over="ignore"):
            single = array.astype(np.float32, copy=False)
        if not np.all(np.isfinite(single)):
            raise InputError(f"expected weights that are finite as float32; got {_not_finite(single)}")
        if tensor.is_matrix:
            return array
        return (array.reshape(-1, self._size[0]).T if tensor.rows_last else array).reshape(self._size)

    def _quantise_block(
        self, real: NDArray[np.floating[Any]], scales: NDArray[np.float32], out: NDArray[np.int8]
    ) -> tuple[int, float, float]:
        """Fill `out`; return the number of clipped values, the largest error, the sum of squared errors."""
        exact, rounded, error = (scratch[: real.size].reshape(real.shape) for scratch in self._scratch)
        column = scales[:, np.newaxis]
        with np.errstate(over="ignore"):
            np.divide(real, column, out=exact, casting="same_kind")
        np.rint(exact, out=rounded)
        clipped = 0
        if max(rounded.max(), -rounded.min()) > INT8_MAX:
            clipped = int(np.count_nonzero(np.abs(rounded) > INT8_MAX))
            np.clip(rounded, -INT8_MAX, INT8_MAX, out=rounded)
        out[...] = rounded
        np.subtract(exact, rounded, out=error)
        np.multiply(error, column, out=error)
        worst = float(max(error.max(), -error.min()))
        if worst < _LARGE_ERROR:
            flat = error.reshape(-1)
            return clipped, worst, float(np.dot(flat, flat))
        lost = real.astype(np.float64) - rounded * column
        return clipped, float(np.abs(lost).max()), float(np.sum(lost**2))


def clipping_error(scales: NDArray[np.float32], clipped: int, size: int, worst: float) -> ClippingError:
    """The error for `clipped` of `size` weights that exceed the range of rows with these scales.

    worst: by how much they exceed it at most.
    """
    finest, coarsest = INT8_MAX * float(scales.min()), INT8_MAX * float(scales.max())
    limits = f"{finest:g}" if finest == coarsest else f"{finest:g} to {coarsest:g}, by row,"
    return ClippingError(
        f"expected weights of at most {limits} on either side of zero; {clipped} of {size} are beyond, by up "
        f"to {worst:g}",
        clipped,
    )


def rescaled_rows(
    tensor: WeightTensor, result: WeightResult, row_gains: NDArray[np.floating[Any]] | None
) -> NDArray[np.float32]:
    """float32[all rows]: the scales to store after weights were quantised with `rescale_rows`.

    They include the row gains. Rows beyond those of the weights keep the tensor's scale. InputError for gains
    that are not positive, or too many.
    """
    scales = tensor.scales.copy()
    scales[: result.row_scales.size] = result.row_scales
    if row_gains is not None:
        scales[: row_gains.size] *= _checked_gains(row_gains, scales.size)
    return scales


def _checked_gains(row_gains: NDArray[np.floating[Any]], most: int) -> NDArray[np.float32]:
    if row_gains.ndim != 1 or row_gains.size > most or not np.all(row_gains > 0):
        raise InputError(f"expected up to {most} positive gains; got {row_gains}")
    return row_gains.astype(np.float32)


def _fitting_scales(real: NDArray[np.floating[Any]], present: NDArray[np.float32]) -> NDArray[np.float32]:
    largest = np.maximum(real.max(axis=1), -real.min(axis=1)) / INT8_MAX
    # Just above, so that rounding to float32 clips nothing.
    scales = np.nextafter(largest.astype(np.float32), np.float32(np.inf))
    return np.where(largest > _SMALLEST_SCALE, scales, present).astype(np.float32)


def _not_finite(array: NDArray[Any]) -> str:
    nan, infinite = int(np.isnan(array).sum()), int(np.isinf(array).sum())
    return " and ".join(f"{count} {what}" for count, what in ((nan, "NaN"), (infinite, "infinite")) if count)
