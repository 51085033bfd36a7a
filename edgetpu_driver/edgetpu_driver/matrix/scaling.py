"""Scales that fit real rows and vectors into the 8-bit ranges of a Dense model.

A compiled Dense model has a fixed range for its inputs, its weights (row by row) and its outputs. Each row of
a matrix is multiplied by a gain that lets it use its range, and each vector gets an input scale that keeps
the outputs inside theirs; the host undoes both.
"""

from __future__ import annotations

from enum import Enum
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import InputError
from edgetpu_driver.matrix.dense_model import DenseModel

OUTPUT_HEADROOM = 4.2
"""Output range over the RMS of outputs for inputs that are independent of the rows.

One Gaussian output in 37 000 is larger, so that 0.7 % of the products of 256 rows are repeated with a coarser
input scale; 10 % more headroom would make the rounding of all outputs 10 % coarser. Chosen on the rows
"product, N = ..., rows rescaled" of `make bench`: 1.0 times the error of ideal 8 bits.
"""

INPUT_HEADROOM = 3.5
"""Largest input over the RMS of inputs for which gains are chosen.

The median of the largest of 256 Gaussian values is 3.0 standard deviations; of 1024 values, 3.4.
"""

ALWAYS = float("inf")
"""Headroom with which no input saturates an output."""

_SMALLEST_ROW = 1e-26  # length; below it the quantiser's float32 scales underflow, and outputs are 0
_SMALLEST_SQUARE = 1e-30  # sum of squares below which float32 loses digits
_CAPS = 2.0 ** np.arange(0, 6.25, 0.25)
"""Row lengths that are tried, over the length with which typical inputs fill the output range."""


class RowGains(Enum):
    """The gains that the rows of a matrix may have."""

    ONE = "one"
    """No gains: weights are set unchanged."""
    IN_RANGE = "in range"
    """The best gains, but 1 for a row with weights beyond the model's range, so that they stay beyond it."""
    ANY = "any"
    """Any: rows of any size fit into the model's range."""


def effective_headroom(headroom: float, columns: int) -> float:
    """The headroom for `columns`: by the Cauchy-Schwarz inequality sqrt(columns) always suffices."""
    return min(headroom, sqrt(columns))


def row_lengths(matrix: NDArray[np.float32]) -> NDArray[np.float64]:
    """Euclidean length of each row, [rows]."""
    with np.errstate(over="ignore"):
        squares = np.einsum("ij,ij->i", matrix, matrix, dtype=np.float32)
    if squares.min() > _SMALLEST_SQUARE and np.isfinite(squares.max()):
        return np.asarray(np.sqrt(squares.astype(np.float64)))
    return np.asarray(np.linalg.norm(matrix.astype(np.float64), axis=1))


def rescaling_gains(
    dense: DenseModel, lengths: NDArray[np.float64], columns: int, headroom: float
) -> NDArray[np.float64]:
    """Gains for rows with new multipliers, [rows]: typical inputs fill the output range of each row."""
    gains = np.ones_like(lengths)
    fitting = _fitting_length(dense, columns, headroom)
    np.divide(fitting, lengths, out=gains, where=lengths > _SMALLEST_ROW)
    return gains


def compiled_gains(
    dense: DenseModel,
    part: NDArray[np.float32],
    lengths: NDArray[np.float64],
    headroom: float,
    allowed: RowGains,
) -> NDArray[np.float64]:
    """Gains for rows that keep the weight scales that the model was compiled with, [rows].

    Raises InputError if any gains are allowed and the model's weights lack the sign of a value.
    """
    if allowed is RowGains.ONE:
        return np.ones_like(lengths)
    columns, usable = part.shape[1], lengths > _SMALLEST_ROW
    steps = dense.tensor.scales[: len(part)].astype(np.float64)
    highest, lowest = part.max(axis=1), part.min(axis=1)
    least, most = dense.tensor.limits
    if allowed is RowGains.ANY:
        _refuse_missing_sign((least, most), float(lowest.min()), float(highest.max()))
    filling = np.minimum(_side_gains(most * steps, highest), _side_gains(-least * steps, -lowest))
    gains = np.where(usable & (filling > 0), filling, 1.0)
    longest = _best_longest(dense, gains * lengths, steps, columns, headroom)
    fitting = np.divide(longest, lengths, out=gains.copy(), where=usable)
    np.minimum(gains, fitting, out=gains)
    if allowed is RowGains.IN_RANGE:
        gains[(highest >= (most + 0.5) * steps) | (lowest <= (least - 0.5) * steps)] = 1.0
    return gains


def _side_gains(limits: NDArray[np.float64], largest: NDArray[np.float32]) -> NDArray[np.float64]:
    """Gains with which rows fill their range on one side of zero; infinity without values there, [rows]."""
    return np.divide(limits, largest, out=np.full_like(limits, np.inf), where=largest > 0)


def _refuse_missing_sign(limits: tuple[int, int], lowest: float, highest: float) -> None:
    """Raise InputError if `lowest` or `highest` has a sign that weights within `limits` cannot have."""
    least, most = limits
    if (lowest < 0 and not least) or (highest > 0 and not most):
        sign = "positive" if least else "negative"
        raise InputError(
            f"expected a matrix without {sign} values, as the model's weights are from {least} to {most} "
            f"steps; got one with {sign} values"
        )


def _fitting_length(dense: DenseModel, columns: int, headroom: float) -> float:
    """Length, in the model's unit, of a row whose output fills its range for typical inputs."""
    typical = dense.input_range / effective_headroom(INPUT_HEADROOM, columns)
    return dense.output_range / effective_headroom(headroom, columns) / typical


def _best_longest(
    dense: DenseModel,
    lengths: NDArray[np.float64],
    steps: NDArray[np.float64],
    columns: int,
    headroom: float,
) -> float:
    """Length to which longer rows are shortened, for the least mean square error relative to the outputs.

    Long rows need coarse inputs to keep outputs from saturating; short rows lose more to the rounding of
    weights and outputs. lengths: [rows], of rows that use all of int8; steps: [rows], of the weights.

    With the longest row shortened to L, and the fitting length f, the mean square errors in units of 1/12
    are: inputs (INPUT_HEADROOM / steps * max(1, L / f))^2, outputs (headroom / steps * max(L, f) / length)^2,
    weights columns * (step / length)^2.
    """
    lengths, steps = lengths[lengths > 0], steps[lengths > 0]
    fitting = _fitting_length(dense, columns, headroom)
    if not lengths.size or lengths.max() <= fitting:
        return fitting
    caps = fitting * _CAPS[:, np.newaxis]
    shortened = np.minimum(lengths, caps)
    of_inputs = effective_headroom(INPUT_HEADROOM, columns) / dense.input_steps * _CAPS
    of_outputs = effective_headroom(headroom, columns) / dense.output_steps * (caps / shortened)
    of_weights = sqrt(columns) * steps / shortened
    errors = of_inputs**2 + (of_outputs**2 + of_weights**2).mean(axis=1)
    return float(caps[errors.argmin(), 0])
