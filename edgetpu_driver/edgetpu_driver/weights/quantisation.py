"""Real weights as the int8 of a model's weight tensor, and what was lost on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import ClippingError, InputError, ModelUnsupportedError
from edgetpu_driver.tflite.model_reader import ABSENT, Model, Operator, Subgraph, Tensor

INT8_MAX = 127
"""Quantisation steps on either side of zero; TFLite leaves -128 unused in weights."""

_KINDS = ("CONV_2D", "FULLY_CONNECTED", "DEPTHWISE_CONV_2D")
_BLOCK_VALUES = 1 << 16  # what is worked on at once fits into the processor's cache
_SMALLEST_SCALE = 1e-30
_LARGE_ERROR = 1e15  # beyond it squares, and values in steps, may be more than float32 holds


@dataclass(frozen=True)
class WeightSwap:
    """What replacing the values of a weight tensor did."""

    version: int
    """Counts the swaps of this model, from 1; 0 stands for the weights it was loaded with."""
    row_scales: NDArray[np.float32]
    """Real value of one step, float32[rows], for the rows that the weights had; a row is what belongs to one
    output channel."""
    clipped: int
    """Number of values that were clipped."""
    worst_error: float
    """Largest quantisation error, in the unit of the weights."""
    rms_error: float
    """Root mean square of the quantisation error."""
    shape: tuple[int, ...] = ()
    """Of the tensor: the largest shape that it takes."""


@dataclass(frozen=True, eq=False)
class WeightTensor:
    """A constant tensor of weights whose values can be replaced."""

    name: str
    operator: str
    """What uses it, e.g. "CONV_2D"."""
    shape: tuple[int, ...]
    scales: NDArray[np.float32]
    """float32[rows]: real value of one step."""
    has_row_scales: bool = False
    """Whether every row may have a scale of its own."""
    is_pure_matmul: bool = False
    """Whether the model does nothing but multiply by it: no bias, no activation, no other layer."""

    @property
    def is_matrix(self) -> bool:
        """Whether it is [rows, columns], so that smaller matrices can be padded."""
        return self.operator == "FULLY_CONNECTED"

    @property
    def rows_last(self) -> bool:
        """Whether output channels run along the last dimension, not the first."""
        return self.operator == "DEPTHWISE_CONV_2D"


@dataclass(frozen=True, eq=False)
class QuantisedWeights:
    """Weights as they are to be stored."""

    values: NDArray[np.int8]
    """Of the tensor's shape; overwritten by the next use of the quantiser they come from."""
    scales: NDArray[np.float32]
    """Real value of one step in every row of the tensor; a smaller matrix leaves the others' as they are."""
    swap: WeightSwap
    """With version 0: who stores them counts."""


def weight_tensors(model: Model) -> tuple[WeightTensor, ...]:
    """The weights of a plain graph whose values can be replaced: symmetric int8 with data of their own."""
    graph = model.subgraphs[0]
    users = [tensor.buffer for tensor in graph.tensors]
    found: dict[str, WeightTensor] = {}
    for operator in graph.operators:
        if operator.name in _KINDS:
            tensor = graph.tensors[operator.inputs[1]]
            if _is_replaceable(tensor) and users.count(tensor.buffer) == 1:
                found[tensor.name] = weight_tensor(
                    operator, tensor, is_pure_matmul=_only_multiplies(graph, operator)
                )
    return tuple(found.values())


def _is_replaceable(tensor: Tensor) -> bool:
    quantisation = tensor.quantization
    symmetric = quantisation.scales.size > 0 and not np.any(quantisation.zero_points)
    return bool(tensor.data) and tensor.dtype == np.int8 and symmetric


def _only_multiplies(graph: Subgraph, operator: Operator) -> bool:
    others = {each.name for each in graph.operators if each is not operator}
    biases = (graph.tensors[index] for index in operator.inputs[2:] if index != ABSENT)
    without_bias = all(bias.data and not bias.data.strip(b"\0") for bias in biases)
    matrix = operator.name == "FULLY_CONNECTED" and not operator.activates
    return matrix and without_bias and others <= {"QUANTIZE", "RESHAPE"}


def weight_tensor(operator: Operator, tensor: Tensor, *, is_pure_matmul: bool) -> WeightTensor:
    """Describe the weights of an operator."""
    rows = tensor.shape[-1] if operator.name == "DEPTHWISE_CONV_2D" else tensor.shape[0]
    scales = tensor.quantization.scales
    return WeightTensor(
        tensor.name,
        operator.name,
        tensor.shape,
        np.broadcast_to(scales, rows),
        has_row_scales=scales.size == rows > 1,
        is_pure_matmul=is_pure_matmul,
    )


def choose(tensors: Sequence[WeightTensor], name: str) -> WeightTensor:
    """The tensor of that name; without one, that of the only convolution, else matrix, else depthwise one.

    InputError for an unknown name and where an empty one could mean several; ModelUnsupportedError where
    there are no tensors.
    """
    if not tensors:
        raise ModelUnsupportedError("the model has no weights whose values can be replaced")
    names = ", ".join(f"'{tensor.name}'" for tensor in tensors)
    if name:
        for tensor in tensors:
            if tensor.name == name:
                return tensor
        raise InputError(f"expected one of the weight tensors {names}; got '{name}'")
    for kind in _KINDS:
        candidates = [tensor for tensor in tensors if tensor.operator == kind]
        if len(candidates) == 1:
            return candidates[0]
        if candidates:
            break
    raise InputError(f"expected the name of one of the weight tensors {names}; got none")


class WeightQuantiser:
    """Turns real weights into the int8 of one tensor, again and again; one thread at a time."""

    def __init__(self, tensor: WeightTensor) -> None:
        self.tensor = tensor
        rows = tensor.scales.size
        self._size = rows, prod(tensor.shape) // rows
        self._values = np.zeros(self._size, np.int8)
        self._filled = self._size
        block = max(1, min(rows, _BLOCK_VALUES // self._size[1]))
        self._block = block
        self._scratch = np.empty((3, block * self._size[1]), np.float32)

    def quantise(
        self,
        weights: NDArray[np.floating[Any]],
        *,
        accept_clipping: bool,
        rescale_rows: bool,
        row_gains: NDArray[np.floating[Any]] | None = None,
    ) -> QuantisedWeights:
        """Round to the nearest step, to even where two are as near; clip to -127..127 steps.

        weights: finite, of the tensor's shape; a matrix may be smaller. rescale_rows: with the finest scale
        per row that clips nothing, not the tensor's. row_gains: [rows]; else what the tensor's scales are
        divided by, positive. Raises InputError, or ClippingError where clipping is needed and not accepted.
        """
        real = self._rows(weights)
        rows, columns = real.shape
        scales = self.tensor.scales.copy()
        if rescale_rows:
            scales[:rows] = _fitting_scales(real, scales[:rows])
        elif row_gains is not None:
            scales[:rows] /= _checked_gains(row_gains, rows)
        if (rows, columns) != self._filled:
            self._values[:] = 0
            self._filled = rows, columns
        clipped, worst, squares = 0, 0.0, 0.0
        for start in range(0, rows, self._block):
            part = slice(start, min(start + self._block, rows))
            lost = self._quantise_block(real[part], scales[part], self._values[part, :columns])
            clipped, worst, squares = clipped + lost[0], max(worst, lost[1]), squares + lost[2]
        if clipped and not accept_clipping:
            raise clipping_error(self.tensor.scales, clipped, real.size, worst)
        scales.setflags(write=False)
        rms = float(np.sqrt(squares / real.size))
        swap = WeightSwap(0, scales[:rows], clipped, worst, rms, self.tensor.shape)
        return QuantisedWeights(self._shaped(), scales, swap)

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
        """Fill `out`; how many values were clipped, the worst error and the sum of squared ones."""
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

    def _shaped(self) -> NDArray[np.int8]:
        if self.tensor.rows_last:
            return np.ascontiguousarray(self._values.T).reshape(self.tensor.shape)
        return self._values.reshape(self.tensor.shape)


def clipping_error(scales: NDArray[np.float32], clipped: int, size: int, worst: float) -> ClippingError:
    """The error for `clipped` of `size` weights that rows of these scales do not hold, by up to `worst`."""
    finest, coarsest = INT8_MAX * float(scales.min()), INT8_MAX * float(scales.max())
    limits = f"{finest:g}" if finest == coarsest else f"{finest:g} to {coarsest:g}, by row,"
    return ClippingError(
        f"expected weights of at most {limits} on either side of zero; {clipped} of {size} are beyond, by up "
        f"to {worst:g}",
        clipped,
    )


def effective_scales(
    quantised: QuantisedWeights, row_gains: NDArray[np.floating[Any]] | None
) -> NDArray[np.float32]:
    """The scales of all rows that make outputs come multiplied by gains, as many as the weights had rows.

    InputError for gains that are not positive, or of another number.
    """
    scales = quantised.scales.copy()
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
