"""How a real matrix and its products are fitted into the eight bits of a Dense model, and brought back.

A compiled Dense model has a fixed range for everything: its inputs, its weights (row by row) and its outputs.
Each row of a matrix is therefore multiplied by a gain that makes it fill its range, and each product is
asked for with an input scale that keeps the outputs inside theirs; both are undone on the host.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgetpu_driver.errors import InputError
from edgetpu_driver.tensor import TensorSpec

STEPS = 127
"""Quantisation steps on either side of zero that weights and inputs use."""


@dataclass(frozen=True)
class DenseRange:
    """What the inputs and outputs of a Dense model span."""

    input_scale: float
    """Real value of one input step, as the model was built."""
    output_scale: float
    """Real value of one output step."""
    output_limit: float
    """Largest output of either sign that is certainly not clipped."""

    @classmethod
    def of(cls, inputs: TensorSpec, outputs: TensorSpec) -> DenseRange:
        """Read it from a model's input and output; InputError when they are not 8-bit quantised."""
        for spec in (inputs, outputs):
            if spec.dtype not in (np.uint8, np.int8) or not spec.scale > 0:
                raise InputError(f"expected a model with 8-bit quantised tensors; got {spec}")
        limits = np.iinfo(outputs.dtype)
        steps = min(limits.max - outputs.zero_point, outputs.zero_point - limits.min)
        return cls(inputs.scale, outputs.scale, steps * outputs.scale)


@dataclass(frozen=True)
class FittedMatrix:
    """A real matrix as the weights of a Dense model."""

    weights: NDArray[np.float32]
    """[rows, columns], to be set: whole numbers of quantisation steps, so that nothing is rounded again."""
    gains: NDArray[np.float64]
    """[rows]: what each row of the real matrix was multiplied by."""
    range: DenseRange
    reach: float
    """Largest |output| in the model's units that a vector of length 1 in its units can cause."""

    @property
    def in_force(self) -> NDArray[np.float64]:
        """The real matrix that the model multiplies by after rounding, [rows, columns]."""
        return self.weights / self.gains[:, None]

    def scaled(self, factor: float) -> FittedMatrix:
        """The same weights standing for a matrix that is larger by `factor`."""
        return replace(self, gains=self.gains / factor)

    def input_scale(self, inputs: NDArray[np.float64]) -> float:
        """Real value of one input step, the finest that clips neither inputs nor outputs."""
        largest = float(np.abs(inputs).max(initial=0.0))
        if largest == 0.0:
            return self.range.input_scale
        for_outputs = self.reach * float(np.linalg.norm(inputs)) / self.range.output_limit
        return max(largest / STEPS, for_outputs * self.range.input_scale)

    def outputs(self, products: NDArray[np.floating]) -> NDArray[np.float64]:
        """Bring what the model gave back to the real matrix."""
        return np.asarray(products, np.float64) / self.gains

    def output_step(self, input_scale: float) -> NDArray[np.float64]:
        """Real value of one step of each output, [rows], in products asked for with that input scale."""
        step: NDArray[np.float64] = (
            self.range.output_scale * input_scale / self.range.input_scale / self.gains
        )
        return step


def fit(
    matrix: ArrayLike,
    dense: DenseRange,
    row_scales: NDArray[np.floating] | None = None,
    crest: float | None = None,
) -> FittedMatrix:
    """Fit a real matrix, float [rows, columns], into a Dense model.

    row_scales: real value of one weight step of the model, per row, as a weight swap reports it; None for
    weights whose multipliers are rewritten with them (`rescale_rows`).
    crest: the largest output as a multiple of the root mean square over all directions of the input. By
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
    spread = 1.0 if crest is None else min(crest / sqrt(columns), 1.0)
    largest = np.abs(real).max(axis=1)
    largest[largest == 0.0] = 1.0
    if row_scales is None:
        # Any scale will do where the multipliers follow: an input that uses half its range fills the outputs.
        lengths = np.linalg.norm(real / largest[:, None], axis=1) * spread * sqrt(columns) / 2
        steps = dense.output_limit / np.maximum(lengths, 1.0) / STEPS
    else:
        steps = np.asarray(row_scales[:rows], np.float64)
    gains = steps * STEPS / largest
    lengths = np.linalg.norm(real, axis=1) * gains
    # The longest row decides how coarse the input is; rows shortened to the median lose less than all gain.
    gains *= (
        np.minimum(1.0, np.median(lengths[lengths > 0]) / np.maximum(lengths, 1e-300))
        if lengths.any()
        else 1.0
    )
    weights = (np.rint(real * (gains / steps)[:, None]) * steps[:, None]).astype(np.float32)
    reach = float(np.linalg.norm(weights, axis=1).max()) * spread
    return FittedMatrix(weights, gains, dense, reach)
