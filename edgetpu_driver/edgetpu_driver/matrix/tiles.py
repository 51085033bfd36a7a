"""The tiles of a matrix: how it is cut for Dense models, and how each fills the range of its output."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.engines.protocol import SwappableEngine
from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.tensor import TensorSpec
from edgetpu_driver.weights.quantisation import INT8_MAX, clipping_error

INPUT_CREST = 3.5
"""Range of the inputs over their root mean square for which rows are scaled."""

OUTPUT_HEADROOM = 4.2
"""Range of the outputs over their root mean square, for inputs that know nothing of the rows."""

_FEWEST_STEPS = 32  # five bits
_SMALLEST_ROW = 1e-26  # in length; what is below has outputs of 0
_SMALL_SQUARE = 1e-30  # below it float32 loses digits


@dataclass(frozen=True, eq=False)
class Tile:
    """What one model multiplies by."""

    engine: SwappableEngine
    rows: slice
    columns: slice
    gains: NDArray[np.float64] | None
    """What outputs come multiplied by, per row; None for 1."""
    reach: float
    """Largest root mean square of an output, over random inputs of length 1; 0 if unknown."""


def cut(shape: tuple[int, ...], tile: tuple[int, int]) -> Iterator[tuple[slice, slice]]:
    """Rows and columns of each tile."""
    for row in range(0, shape[0], tile[0]):
        for column in range(0, shape[1], tile[1]):
            yield (
                slice(row, min(row + tile[0], shape[0])),
                slice(column, min(column + tile[1], shape[1])),
            )


def refuse_clipping(engine: SwappableEngine, matrix: NDArray[np.float32]) -> None:
    """ClippingError, for the matrix as a whole, where the model's range does not hold all of its tiles."""
    scales = np.resize(engine.weight_tensor().scales, len(matrix))
    limits, sizes = INT8_MAX * scales[:, np.newaxis], np.abs(matrix)
    clipped = int(np.count_nonzero(sizes >= limits * ((INT8_MAX + 0.5) / INT8_MAX)))
    if clipped and np.isfinite(matrix).all():  # the engine refuses others
        raise clipping_error(scales, clipped, matrix.size, float((sizes - limits).max()))


def tile_as_compiled(
    engine: SwappableEngine, rows: slice, columns: slice, part: NDArray[np.floating[Any]], *, filled: bool
) -> Tile:
    """One with the multipliers of the model.

    filled: rows have gains that make them use more of the range of the weights, as far as that of the output
    allows for random inputs; otherwise, and where they are beyond it, they are set as they are.
    """
    width, lengths = sqrt(part.shape[1]), _row_lengths(part)
    limits = INT8_MAX * engine.weight_tensor().scales[: len(part)].astype(float)
    gains = np.ones_like(lengths)
    usable = lengths > _SMALLEST_ROW
    if filled:
        largest = np.maximum(part.max(axis=1), -part.min(axis=1))
        np.divide(limits, largest, out=gains, where=usable)
        fitting = np.divide(_fitting_length(engine), lengths, out=gains.copy(), where=usable)
        np.minimum(gains, fitting, out=gains)
        np.maximum(gains, 1.0, out=gains)
    reach = float(np.minimum(lengths * gains, limits * width).max()) / width
    return Tile(engine, rows, columns, gains, reach)


def rescaled_tile(
    engine: SwappableEngine, rows: slice, columns: slice, part: NDArray[np.floating[Any]]
) -> Tile:
    """One whose rows each have the gain that makes random inputs use the range of the output."""
    lengths = _row_lengths(part)
    gains = np.ones_like(lengths)
    np.divide(_fitting_length(engine), lengths, out=gains, where=lengths > _SMALLEST_ROW)
    with np.errstate(invalid="ignore"):  # the engine refuses NaN and infinity
        reach = float((lengths * gains).max()) / sqrt(part.shape[1])
    return Tile(engine, rows, columns, gains, reach)


def _fitting_length(engine: SwappableEngine) -> float:
    """Length of a row whose output random inputs make fill its range."""
    (source,), (result,) = engine.inputs, engine.outputs
    typical = source.scale * checked_steps(source) / INPUT_CREST
    return result.scale * checked_steps(result) / OUTPUT_HEADROOM / typical


def checked_steps(spec: TensorSpec) -> int:
    """Steps on either side of zero; ModelUnsupportedError where they are too few to multiply with."""
    steps = spec.symmetric_steps
    if steps < _FEWEST_STEPS:
        raise ModelUnsupportedError(
            f"expected a model with 8-bit tensors of at least {_FEWEST_STEPS} steps on either side of zero; "
            f"{spec} has {steps}"
        )
    return steps


def _row_lengths(matrix: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    with np.errstate(over="ignore"):
        squares = np.einsum("ij,ij->i", matrix, matrix, dtype=np.float32)
    if squares.min() > _SMALL_SQUARE and np.isfinite(squares.max()):
        return np.asarray(np.sqrt(squares.astype(np.float64)))
    return np.asarray(np.linalg.norm(matrix.astype(np.float64), axis=1))
