"""Quantises real weights to the 8-bit values of a model's weight tensor, and measures the error."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import ClippingError, InputError, ModelUnsupportedError
from edgetpu_driver.weights.real_arrays import array_of
from edgetpu_driver.weights.replaceable_weights import INT8_MAX, WeightTensor
from edgetpu_driver.weights.weight_request import WeightRequest, WeightResult

_BLOCK_VALUES = 1 << 16  # values quantised at a time, so that they fit into the processor's cache
_INT32 = np.iinfo(np.int32)
_LARGEST_RESCALED_BIAS = 2.0**30  # leaves room for the products in sums of 32 bits
_SMALLEST_SCALE = 1e-30
"""A row whose scale would be smaller counts as zeros and keeps its scale: quotients could overflow."""
_LARGE_ERROR = 1e15  # beyond it squares, and values in steps, may overflow float32


class WeightQuantiser:
    """Quantises real weights to the 8-bit values of one tensor, repeatedly. Not thread-safe."""

    def __init__(self, tensor: WeightTensor, bias: NDArray[np.int32] | None = None) -> None:
        """bias: the layer's own, int32[all rows], if its steps change with the scales of the rows."""
        self.tensor = tensor
        self._kept_bias: NDArray[np.float64] | None = None
        """The real bias in effect, for requests without a bias; None to leave the bias unchanged."""
        if bias is not None and tensor.bias_scales is not None:
            self._kept_bias = bias * tensor.bias_scales
        rows = tensor.scales.size
        self._size = rows, prod(tensor.shape) // rows
        self._values: NDArray[Any] = np.full(self._size, tensor.zero_point, tensor.dtype)
        self._bias: NDArray[np.int32] | None = None
        self._real_bias: NDArray[np.float64] | None = None
        self._filled = self._size
        self._block = max(1, min(rows, _BLOCK_VALUES // self._size[1]))

    @property
    def bias(self) -> NDArray[np.int32] | None:
        """The bias quantised last, int32[all rows]; None if none was given."""
        return self._bias

    @property
    def real_bias(self) -> NDArray[np.float64] | None:
        """`bias` before it was quantised, float64[all rows] in the unit of weights times inputs."""
        return self._real_bias

    @property
    def values(self) -> NDArray[Any]:
        """The weights quantised last, of the tensor's shape; overwritten by the next call of `quantise`."""
        if self.tensor.rows_last:
            return np.ascontiguousarray(self._values.T).reshape(self.tensor.shape)
        return self._values.reshape(self.tensor.shape)

    def keep_bias(self, real: NDArray[np.float64] | None) -> None:
        """Note that a `real_bias` is in effect, so that it can be quantised again when rows are rescaled."""
        if self._kept_bias is not None:
            self._kept_bias = real

    def quantise(self, request: WeightRequest) -> WeightResult:
        """Quantise to `values`: round to the nearest step, half to even; clip to the tensor's limits.

        The result has version 0: the caller counts versions. Raises InputError for weights that do not fit
        the tensor, ClippingError if values would be clipped and the request does not accept clipping.
        """
        real = self._rows(request.weights)
        rows, columns = real.shape
        real_bias = self._bias_of(request, rows)
        scales = self._scales_for(request, real, real_bias)
        if (rows, columns) != self._filled:
            self._values[:] = self.tensor.zero_point
            self._filled = rows, columns
        clipped, worst, squares = 0, 0.0, 0.0
        # Not kept: the buffers of many models' quantisers would take more memory than their weights.
        scratch = np.empty((3, min(self._block, rows) * columns), np.float32)
        for start in range(0, rows, self._block):
            part = slice(start, min(start + self._block, rows))
            lost = self._quantise_block(real[part], scales[part], self._values[part, :columns], scratch)
            clipped, worst, squares = clipped + lost[0], max(worst, lost[1]), squares + lost[2]
        if clipped and not request.accept_clipping:
            raise clipping_error(self.tensor.scales, clipped, real.size, worst, self.tensor.limits)
        lost_bias = self._quantise_bias(real_bias, scales if request.rescale_rows else None)
        if lost_bias[0] and not request.accept_clipping:
            raise self._bias_clipping(lost_bias[0])
        scales.setflags(write=False)
        rms = float(np.sqrt(squares / real.size))
        tensor = self.tensor
        return WeightResult(
            version=0,
            row_scales=scales,
            clipped=clipped + lost_bias[0],
            worst_error=worst,
            rms_error=rms,
            shape=tensor.shape,
            is_pure_matmul=tensor.is_pure_matmul,
            worst_bias_error=0.0 if request.bias is None else lost_bias[1],
            dtype=tensor.dtype,
            zero_point=tensor.zero_point,
        )

    def _scales_for(
        self,
        request: WeightRequest,
        real: NDArray[np.floating[Any]],
        real_bias: NDArray[np.float64] | None,
    ) -> NDArray[np.float32]:
        """The scale of each row of the weights: fitted, with gains, or the model's, as requested."""
        rows = len(real)
        scales = self.tensor.scales[:rows].copy()
        if request.rescale_rows:
            scales = _fitting_scales(real, scales)
            if real_bias is not None:
                scales = np.maximum(scales, self._scales_that_hold(real_bias[:rows]))
                if not np.all(np.isfinite(scales)):
                    raise InputError(
                        f"expected a bias small enough for rescaled rows; got {real_bias[:rows]}"
                    )
        elif request.row_gains is not None:
            scales = _with_gains(scales, request.row_gains, rows)
        return scales

    def _rows(self, weights: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """The weights as [rows, columns]."""
        tensor = self.tensor
        array = array_of(weights, "weights")
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
        if array.dtype != np.float64:
            array = single  # in int8 or float16, for example, scales would overflow or be coarse
        if tensor.is_matrix:
            return array
        return (array.reshape(-1, self._size[0]).T if tensor.rows_last else array).reshape(self._size)

    def _quantise_block(
        self,
        real: NDArray[np.floating[Any]],
        scales: NDArray[np.float32],
        out: NDArray[Any],
        scratch: NDArray[np.float32],
    ) -> tuple[int, float, float]:
        """Fill `out`; return the number of clipped values, the largest error, the sum of squared errors.

        scratch: [3, at least as many values as `real`], overwritten.
        """
        exact, rounded, error = (each[: real.size].reshape(real.shape) for each in scratch)
        column = scales[:, np.newaxis]
        with np.errstate(over="ignore"):
            np.divide(real, column, out=exact, casting="same_kind")
        np.rint(exact, out=rounded)
        clipped, (least, most) = 0, self.tensor.limits
        if rounded.max() > most or rounded.min() < least:
            clipped = int(np.count_nonzero((rounded > most) | (rounded < least)))
            np.clip(rounded, least, most, out=rounded)
        out[...] = rounded if not self.tensor.zero_point else rounded + self.tensor.zero_point
        np.subtract(exact, rounded, out=error)
        np.multiply(error, column, out=error)
        worst = float(max(error.max(), -error.min()))
        if worst < _LARGE_ERROR:
            flat = error.reshape(-1)
            return clipped, worst, float(np.dot(flat, flat))
        lost = real.astype(np.float64) - rounded * column
        return clipped, float(np.abs(lost).max()), float(np.sum(lost**2))

    def _bias_of(self, request: WeightRequest, rows: int) -> NDArray[np.float64] | None:
        """The real bias of all rows; InputError and ModelUnsupportedError if it cannot be set."""
        if request.bias is None:
            return self._kept_bias
        if self.tensor.bias_scales is None:
            raise ModelUnsupportedError(
                f"'{self.tensor.name}' belongs to a layer without a bias, and none can be added"
            )
        if request.row_gains is not None:
            raise ModelUnsupportedError(f"the rows of '{self.tensor.name}' cannot be scaled with a bias")
        real = array_of(request.bias, "a bias")
        if real.shape != (rows,) or real.dtype.kind not in "fiu" or not np.all(np.isfinite(real)):
            raise InputError(f"expected a finite bias [{rows}]; got {real.dtype.name}{list(real.shape)}")
        bias = np.zeros(self._size[0], np.float64)
        bias[:rows] = real
        return bias

    def _scales_that_hold(self, bias: NDArray[np.float64]) -> NDArray[np.float32]:
        """The finest scales of rows at which the bias, in steps, stays within _LARGEST_RESCALED_BIAS."""
        assert self.tensor.bias_scales is not None
        of_inputs = self.tensor.bias_scales[: bias.size] / self.tensor.scales[: bias.size]
        with np.errstate(over="ignore"):
            return np.asarray(np.abs(bias) / (of_inputs * _LARGEST_RESCALED_BIAS), np.float32)

    def _quantise_bias(
        self, real: NDArray[np.float64] | None, rescaled: NDArray[np.float32] | None
    ) -> tuple[int, float]:
        """Set `bias`; return the number of clipped values and the largest error of the others.

        rescaled: the scales of the first rows if they are not the tensor's own.
        """
        self._real_bias, self._bias = real, None
        scales = self.tensor.bias_scales
        if real is None or scales is None:
            return 0, 0.0
        if rescaled is not None:
            scales = scales.copy()
            scales[: rescaled.size] *= rescaled / self.tensor.scales[: rescaled.size].astype(np.float64)
        exact = real / scales
        steps = np.clip(np.rint(exact), _INT32.min, _INT32.max)
        fits = steps == np.rint(exact)
        error = np.abs(exact - steps) * scales
        self._bias = steps.astype(np.int64).astype(np.int32)
        return int(np.count_nonzero(~fits)), float(error.max(initial=0))

    def _bias_clipping(self, clipped: int) -> ClippingError:
        assert self.tensor.bias_scales is not None
        most = float(_INT32.max * self.tensor.bias_scales.min())
        return ClippingError(
            f"expected a bias of at most {most:g} on either side of zero; {clipped} of "
            f"{self._size[0]} are beyond",
            clipped,
        )


def clipping_error(
    scales: NDArray[np.float32],
    clipped: int,
    size: int,
    worst: float,
    steps: tuple[int, int] = (-INT8_MAX, INT8_MAX),
) -> ClippingError:
    """The error for `clipped` of `size` weights that exceed the range of rows with these scales.

    worst: the largest excess. steps: the least and the largest representable step.
    """
    if -steps[0] != steps[1]:
        least, most = (float(scales[0]) * end for end in steps)
        return ClippingError(
            f"expected weights from {least:g} to {most:g}; {clipped} of {size} are beyond, by up to "
            f"{worst:g}",
            clipped,
        )
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

    The scales include the row gains. Rows beyond those of the weights keep the tensor's scale. InputError
    unless there is one positive gain for each row of the weights, or if float32 cannot hold the scales.
    """
    rows = result.row_scales
    if row_gains is not None:
        with np.errstate(over="ignore", under="ignore"):
            rows = rows * _checked_gains(row_gains, rows.size)
        _check_scales(rows, result.row_scales, row_gains)
    return np.concatenate([rows, tensor.scales[rows.size :]])


def _checked_gains(row_gains: NDArray[np.floating[Any]], rows: int) -> NDArray[np.float32]:
    given = array_of(row_gains, "gains")
    fits = given.shape == (rows,) and given.dtype.kind in "fiu"
    with np.errstate(over="ignore", under="ignore"):
        gains = given.astype(np.float32) if fits else np.zeros(rows, np.float32)
    if not np.all((gains > 0) & np.isfinite(gains)):
        raise InputError(
            f"expected {rows} gains that are positive and finite as float32; got {given.dtype.name}"
            f"{list(given.shape)}: {given}"
        )
    return gains


def _check_scales(
    scaled: NDArray[np.float32], scales: NDArray[np.float32], row_gains: NDArray[np.floating[Any]]
) -> None:
    if not np.all((scaled > 0) & np.isfinite(scaled)):
        raise InputError(
            f"expected gains that keep the weight scales {scales} within float32; got {row_gains}"
        )


def _with_gains(
    scales: NDArray[np.float32], row_gains: NDArray[np.floating[Any]], rows: int
) -> NDArray[np.float32]:
    """The scales divided by the gains; InputError if float32 cannot hold the result."""
    with np.errstate(over="ignore", under="ignore"):
        divided = np.asarray(scales / _checked_gains(row_gains, rows))
    _check_scales(divided, scales, row_gains)
    return divided


def _fitting_scales(real: NDArray[np.floating[Any]], present: NDArray[np.float32]) -> NDArray[np.float32]:
    largest = np.maximum(real.max(axis=1), -real.min(axis=1)) / INT8_MAX
    # The next larger float32, so that rounding clips nothing.
    scales = np.nextafter(largest.astype(np.float32), np.float32(np.inf))
    return np.where(largest > _SMALLEST_SCALE, scales, present).astype(np.float32)


def _not_finite(array: NDArray[Any]) -> str:
    nan, infinite = int(np.isnan(array).sum()), int(np.isinf(array).sum())
    return " and ".join(f"{count} {what}" for count, what in ((nan, "NaN"), (infinite, "infinite")) if count)
