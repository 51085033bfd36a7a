"""How a real matrix and its products are fitted into the eight bits of a Dense model, and brought back.

A compiled Dense model has a fixed range for everything: its inputs, its weights (row by row) and its outputs.
Each row of a matrix is therefore multiplied by a gain that makes it fill its range, and each product is
asked for with an input scale that keeps the outputs inside theirs; both are undone on the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgetpu_driver.errors import InputError, ModelUnsupportedError
from edgetpu_driver.tensor import TensorSpec

INT8_MAX = 127
"""Quantisation steps on either side of zero that weights and inputs use."""

_FEWEST_STEPS = 32  # of outputs

TYPICAL = 0.3
"""Root mean square of a typical input over its largest value; that of Gaussian values."""


@dataclass(frozen=True)
class DenseModel:
    """What a model of one Dense layer multiplies, and what its inputs and outputs span."""

    rows: int
    columns: int
    input_scale: float
    """Real value of one input step, as the model was built."""
    output_scale: float
    """Real value of one output step."""
    output_limit: float
    """Largest output of either sign that is certainly not clipped."""

    @classmethod
    def of(cls, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> DenseModel:
        """Recognise it by its inputs and outputs; ModelUnsupportedError when it is something else."""
        if len(inputs) != 1 or len(outputs) != 1:
            raise ModelUnsupportedError(
                f"expected a Dense model of one input and one output; got {len(inputs)} and {len(outputs)}"
            )
        (given,), (result,) = inputs, outputs
        if given.symmetric_steps < INT8_MAX or result.symmetric_steps < _FEWEST_STEPS:
            raise ModelUnsupportedError(
                f"expected a Dense model with 8-bit tensors around zero; got {given} and {result}"
            )
        limit = result.symmetric_steps * result.scale
        return cls(prod(result.shape), prod(given.shape), given.scale, result.scale, limit)

    @property
    def any_weights(self) -> NDArray[np.float32]:
        """Weights for every row, [rows, 1], to be set only to learn from the swap what one step is worth."""
        return np.zeros((self.rows, 1), np.float32)


@dataclass(frozen=True)
class FittedMatrix:
    """A real matrix as the weights of a Dense model."""

    weights: NDArray[np.float32]
    """[rows, columns], to be set: whole numbers of quantisation steps, so that nothing is rounded again."""
    gains: NDArray[np.float64]
    """[rows]: what each row of the real matrix has become times, as it was rounded."""
    dense: DenseModel
    reach: float
    """Largest |output| in the model's units that a vector of length 1 in its units can cause."""
    lost: NDArray[np.float64]
    """[rows]: length of the difference between the real row and the one in force."""

    @property
    def effective(self) -> NDArray[np.float64]:
        """The real matrix that the model multiplies by after rounding, [rows, columns]."""
        return self.weights / self.gains[:, None]

    def outputs(self, products: NDArray[np.floating]) -> NDArray[np.float64]:
        """Bring what the model gave back to the real matrix."""
        return np.asarray(products, np.float64) / self.gains

    def output_step(self, input_scale: float) -> NDArray[np.float64]:
        """Real value of one step of each output, [rows], in products asked for with that input scale."""
        step: NDArray[np.float64] = (
            self.dense.output_scale * input_scale / self.dense.input_scale / self.gains
        )
        return step


def quantise(
    inputs: NDArray[np.float64], dense: DenseModel, reach: float, coarser: float = 1.0
) -> tuple[NDArray[np.float64], float]:
    """Round inputs, [columns], to whole steps, and say what a step is worth.

    It is the finest step that clips neither inputs nor, for matrices of that reach, outputs; times `coarser`.
    """
    largest = float(np.abs(inputs).max(initial=0.0))
    if largest == 0.0:
        return np.zeros_like(inputs), dense.input_scale
    length_to_scale = reach / dense.output_limit * dense.input_scale
    scale = coarser * max(largest / INT8_MAX, length_to_scale * float(np.linalg.norm(inputs)))
    while True:
        steps = np.rint(inputs / scale)
        # Rounding may have made the vector longer.
        needed = length_to_scale * float(np.linalg.norm(steps))
        if needed <= 1.0:
            return steps, scale
        scale *= 1.001 * needed


def fit(
    matrix: ArrayLike,
    dense: DenseModel,
    row_scales: NDArray[np.floating] | None = None,
    headroom: float | None = None,
) -> FittedMatrix:
    """Fit a real matrix, float [rows, columns], into a Dense model.

    row_scales: real value of one weight step of the model, per row, as a weight swap reports it; None for
    weights whose multipliers are rewritten with them (`rescale_rows`).
    headroom: the largest output as a multiple of the root mean square over all directions of the input. By
    default no input whatsoever clips an output; for inputs that know nothing of the rows 4 is enough, and
    leaves sqrt(columns) / 4 times more of the output's range.

    Raises InputError for another shape, NaN and infinity.
    """
    real = np.asarray(matrix, np.float64)
    if real.ndim != 2 or 0 in real.shape:
        raise InputError(f"expected a matrix [rows, columns]; got shape {list(real.shape)}")
    if not np.isfinite(real).all():
        raise InputError("expected a matrix of finite numbers; got NaN or infinity")
    rows, columns = real.shape
    spread = 1.0 if headroom is None else min(headroom / sqrt(columns), 1.0)
    lengths = np.linalg.norm(real, axis=1)
    largest = np.abs(real).max(axis=1)
    largest[largest == 0.0] = 1.0
    if row_scales is None:
        # The multipliers follow the weights: let a typical input fill the outputs.
        reachable = spread * TYPICAL * sqrt(columns) * np.maximum(lengths, largest)
        gains = dense.output_limit / reachable * _shortening(lengths / reachable)
        steps = gains * largest / INT8_MAX
    else:
        steps = np.asarray(row_scales[:rows], np.float64)
        gains = steps * INT8_MAX / largest
        gains *= _shortening(lengths * gains)
        gains *= _balance(dense, float((lengths * gains).max()) * spread, float(steps.mean()), columns)
    weights = (np.rint(real * (gains / steps)[:, None]) * steps[:, None]).astype(np.float32)
    reach = float(np.linalg.norm(weights, axis=1).max()) * spread
    gains = _gains_after_rounding(weights, real / largest[:, None], gains * largest) / largest
    lost = np.linalg.norm(weights / gains[:, None] - real, axis=1)
    return FittedMatrix(weights, gains, dense, reach, lost)


def _gains_after_rounding(
    weights: NDArray[np.float32], real: NDArray[np.float64], gains: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Gains with which a vector along a row has the product it is to have, although the row was rounded.

    gains: for rows of zeros.
    """
    squares = np.einsum("ij,ij->i", real, real)
    along = np.einsum("ij,ij->i", weights, real)
    return np.asarray(np.divide(along, squares, out=gains, where=squares > 0))


def _shortening(lengths: NDArray[np.float64]) -> NDArray[np.float64]:
    """Factors that shorten rows to the median length.

    The longest row decides how coarse inputs are: what the rows longer than most lose, all gain.
    """
    if not lengths.any():
        return np.ones_like(lengths)
    factors: NDArray[np.float64] = np.median(lengths[lengths > 0]) / np.maximum(lengths, 1e-300)
    return np.minimum(1.0, factors)


def _balance(dense: DenseModel, reach: float, step: float, columns: int) -> float:
    """Factor for weights that are so large that inputs must be coarse to keep the outputs in their range.

    Rounding weights then costs 1 / factor, rounding inputs costs factor: the best is where both are equal.
    """
    excess = reach * TYPICAL * sqrt(columns) * INT8_MAX * dense.input_scale / dense.output_limit
    if excess <= 1.0:
        return 1.0
    equal = sqrt(step * dense.output_limit / (reach * reach * dense.input_scale))
    return min(1.0, max(equal, 1.0 / excess))
