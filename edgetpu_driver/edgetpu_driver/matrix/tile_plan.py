"""The plan of a matrix on a Dense model: tiles of the model's size, and the gain of every row.

A plan holds numbers only. An executor sets the weights of its tiles on copies of the model and runs the
requests of `product_passes.multiply`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgetpu_driver.errors import InputError
from edgetpu_driver.matrix import scaling
from edgetpu_driver.matrix.dense_model import DenseModel
from edgetpu_driver.matrix.scaling import OUTPUT_HEADROOM, RowGains
from edgetpu_driver.weights.quantisation import WeightQuantiser
from edgetpu_driver.weights.real_arrays import real_array
from edgetpu_driver.weights.weight_request import WeightRequest

_LARGEST = float(np.finfo(np.float32).max)
"""Largest magnitude of a value: quantisation computes in float32, in which larger values are infinite."""


@dataclass(frozen=True)
class PlanOptions:
    """How a matrix is fitted into a Dense model.

    rescale_rows: rewrite the multiplier of every row with its weights.
    gains: which gains rows may get if multipliers are not rewritten; with `RowGains.ANY` gains are also
    corrected for the rounding of weights, so that a vector along a row has its exact product.
    headroom: output range over the RMS of outputs, see scaling.OUTPUT_HEADROOM; with scaling.ALWAYS no input
    saturates an output.
    accept_clipping: clip weights beyond the model's range.
    """

    rescale_rows: bool = False
    gains: RowGains = RowGains.ANY
    headroom: float = OUTPUT_HEADROOM
    accept_clipping: bool = False


@dataclass(frozen=True, eq=False)
class Tile:
    """The part of a matrix that one copy of the model multiplies by."""

    index: int
    rows: slice
    columns: slice
    dense: DenseModel
    options: PlanOptions
    part: NDArray[np.float32]
    """[rows, columns]: this part of the matrix, each row divided by its `unit`."""
    row_gains: NDArray[np.float64]
    """[rows]: factors of the weights (or, if rescaled, of the outputs) on the model."""
    unit: NDArray[np.float64]
    """Divisors of the rows of `part`, powers of two, [rows]."""
    longest: float
    """Length of the longest row on the model, in the model's unit."""

    @property
    def request(self) -> WeightRequest:
        """The request that sets the weights on an engine, which applies the gains itself."""
        return WeightRequest(
            self.part,
            accept_clipping=self.options.accept_clipping,
            rescale_rows=self.options.rescale_rows,
            row_gains=self.row_gains,
        )

    @cached_property
    def model_weights(self) -> NDArray[np.float32]:
        """[rows, columns]: whole quantisation steps in the model's unit.

        Set without gains, they become the same int8 as `request` sets.
        """
        quantiser = WeightQuantiser(self.dense.tensor)
        row_scales = quantiser.quantise(self.request).row_scales
        rows, columns = self.part.shape
        scales = self.dense.tensor.scales[:rows]
        if self.options.rescale_rows:
            scales = row_scales * self.row_gains.astype(np.float32)
        values = quantiser.values[:rows, :columns].astype(np.float32) - self.dense.tensor.zero_point
        return np.asarray(values * scales[:, np.newaxis])

    @cached_property
    def gains(self) -> NDArray[np.float64]:
        """Divisors of the outputs on the host, [rows]."""
        gains = self.row_gains / self.unit
        return gains if self.options.gains is not RowGains.ANY else self._corrected(gains)

    @cached_property
    def effective(self) -> NDArray[np.float64]:
        """The effective matrix, after rounding, [rows, columns]."""
        return self.model_weights / self.gains[:, np.newaxis]

    @cached_property
    def rounding_lengths(self) -> NDArray[np.float64]:
        """Length of the rounding error of each row, [rows]."""
        lost = self.effective - self.part * self.unit[:, np.newaxis]
        return np.asarray(np.linalg.norm(lost, axis=1))

    def _corrected(self, gains: NDArray[np.float64]) -> NDArray[np.float64]:
        """Least-squares gains: the effective row times the real row becomes the real row squared."""
        squares = np.einsum("ij,ij->i", self.part, self.part, dtype=np.float64)
        along = np.einsum("ij,ij->i", self.model_weights, self.part, dtype=np.float64)
        corrected = np.divide(along, squares, out=self.row_gains.copy(), where=squares > 0)
        return np.where(corrected > 0, corrected / self.unit, gains)


@dataclass(frozen=True)
class ColumnBlock:
    """Columns of one tile, and the input scales that vectors of length 1 need there."""

    columns: slice
    typical_scale: float
    """Input scale at which typical outputs, times the plan's headroom, fill their range."""
    safe_scale: float
    """Input scale at which no output leaves its range, by the Cauchy-Schwarz inequality."""


@dataclass(frozen=True, eq=False)
class MatrixPlan:
    """A matrix, float [rows, columns], as tiles in row-major order."""

    dense: DenseModel
    options: PlanOptions
    shape: tuple[int, int]
    tiles: tuple[Tile, ...]

    @cached_property
    def effective(self) -> NDArray[np.float64]:
        """The effective matrix, after rounding, [rows, columns]."""
        whole = np.zeros(self.shape)
        for tile in self.tiles:
            whole[tile.rows, tile.columns] = tile.effective
        return whole

    def checked_vector(self, vector: ArrayLike) -> NDArray[np.float64]:
        """A vector as float64 [columns]; InputError for another shape or values beyond float32."""
        values = real_array(vector, "a vector").astype(np.float64, copy=False)
        if values.shape != (self.shape[1],):
            raise InputError(f"expected a vector of {self.shape[1]} values; got shape {list(values.shape)}")
        if not np.all(np.abs(values) <= _LARGEST):
            raise InputError(
                "expected a vector that is finite as float32; got NaN, infinity or values beyond float32"
            )
        return values

    @cached_property
    def column_blocks(self) -> tuple[ColumnBlock, ...]:
        """The columns of each tile of the first row of tiles."""
        return tuple(self._column_block(tile.columns) for tile in self.tiles if tile.rows.start == 0)

    def _column_block(self, columns: slice) -> ColumnBlock:
        dense = self.dense
        unit = dense.input.scale * max(tile.longest for tile in self.tiles if tile.columns == columns)
        # One step less than the range: an output at its end counts as saturated.
        safe = unit / (dense.output_range - dense.output.scale)
        share = self.options.headroom / sqrt(columns.stop - columns.start)
        typical = share * unit / dense.output_range if share < 1 else safe
        return ColumnBlock(columns, typical, safe)


def make_plan(
    matrix: ArrayLike,
    dense: DenseModel,
    options: PlanOptions,
    before: MatrixPlan | None = None,
    changed: Collection[int] | None = None,
) -> MatrixPlan:
    """Plan a matrix, float [rows, columns], finite.

    before: the plan that this one replaces; its unchanged tiles are kept. changed: the rows that differ from
    it; None for all. Raises InputError for any other array.
    """
    real = real_array(matrix, "a matrix")
    if real.ndim != 2 or 0 in real.shape:
        raise InputError(f"expected a matrix [rows, columns]; got shape {list(real.shape)}")
    rows, columns = real.shape
    kept: dict[int, Tile] = {}
    if before is not None and changed is not None and before.shape[1] == columns:
        touched = {row // dense.rows for row in changed}
        kept = {tile.index: tile for tile in before.tiles if tile.rows.start // dense.rows not in touched}
    tiles = []
    for index, part in enumerate(tile_slices((rows, columns), (dense.rows, dense.columns))):
        tile = kept.get(index)
        if tile is None or tile.rows != part[0]:
            tile = _make_tile(index, *part, real, dense, options)
        tiles.append(tile)
    return MatrixPlan(dense, options, (rows, columns), tuple(tiles))


def plan_of_file(dense: DenseModel) -> MatrixPlan:
    """Plan the weights that a model was loaded with."""
    rows, columns = dense.rows, dense.columns
    options = PlanOptions(gains=RowGains.ONE)
    part, ones = np.zeros((rows, columns), np.float32), np.ones(rows)
    tile = Tile(0, slice(0, rows), slice(0, columns), dense, options, part, ones, ones, longest=0.0)
    return MatrixPlan(dense, options, (rows, columns), (tile,))


def tile_slices(shape: tuple[int, int], tile: tuple[int, int]) -> Iterator[tuple[slice, slice]]:
    """Rows and columns of each tile."""
    for row in range(0, shape[0], tile[0]):
        for column in range(0, shape[1], tile[1]):
            yield (
                slice(row, min(row + tile[0], shape[0])),
                slice(column, min(column + tile[1], shape[1])),
            )


def _make_tile(
    index: int,
    rows: slice,
    columns: slice,
    real: NDArray[np.floating],
    dense: DenseModel,
    options: PlanOptions,
) -> Tile:
    part, unit = _normalised(real[rows, columns], options.gains)
    width = part.shape[1]
    with np.errstate(invalid="ignore"):  # the engine refuses NaN and infinity
        lengths = scaling.row_lengths(part)
        if options.rescale_rows:
            gains = scaling.rescaling_gains(dense, lengths, width, options.headroom)
            on_model = lengths * gains
        else:
            gains = scaling.compiled_gains(dense, part, lengths, options.headroom, options.gains)
            most = max(map(abs, dense.tensor.limits))
            limits = most * dense.tensor.scales[: len(part)].astype(np.float64) * sqrt(width)
            on_model = np.minimum(lengths * gains, limits)  # a clipped row is no longer than its limit
    return Tile(index, rows, columns, dense, options, part, gains, unit, float(on_model.max()))


def _normalised(
    real: NDArray[np.floating], gains: RowGains
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """The rows as float32, and the powers of two that they were divided by to fit its range, [rows]."""
    if gains is not RowGains.ANY:
        with np.errstate(over="ignore"):
            return real.astype(np.float32, copy=False), np.ones(len(real))
    if not np.isfinite(real).all():
        raise InputError("expected a matrix of finite numbers; got NaN or infinity")
    exponents = np.frexp(np.abs(real).max(axis=1))[1] - 1
    part = np.ldexp(real, -exponents[:, np.newaxis]).astype(np.float32)
    return part, np.asarray(np.ldexp(1.0, exponents))
