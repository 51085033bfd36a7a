"""A real matrix of any size on Dense models of one size: cut into tiles, multiplied tile by tile, summed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgetpu_driver.errors import InputError
from edgetpu_driver.tensor import TensorSpec
from edgetpu_matrix.scaling import DenseModel, FittedMatrix, fit, quantise

DITHER = 0.25
"""By how much the input scales of passes differ, so that outputs are not rounded alike."""

GOLDEN_RATIO = 0.618034
"""Multiples of it, modulo 1, are spread evenly however many there are."""

_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Tile:
    """One part of the matrix, for one model."""

    index: int
    rows: slice
    columns: slice
    fitted: FittedMatrix


@dataclass(frozen=True)
class TileRequest:
    """What the model of a tile is to multiply."""

    tile: int
    steps: NDArray[np.float64]
    """[columns of the tile]: the inputs in whole steps, -127..127."""
    input_scale: float
    """Real value of one input step."""

    def tensor(self, spec: TensorSpec) -> NDArray[Any]:
        """The inputs as the model's input tensor, padded with zeros."""
        tensor = np.full(prod(spec.shape), spec.zero_point, spec.dtype)
        tensor[: len(self.steps)] = self.steps + spec.zero_point
        return tensor.reshape(spec.shape)

    def outputs(self, array: NDArray[Any], inputs: TensorSpec, outputs: TensorSpec) -> NDArray[np.float64]:
        """The real values of the model's output tensor, which counts on inputs of its own scale."""
        real = outputs.dequantise(array).ravel().astype(np.float64)
        return real * (self.input_scale / inputs.scale)


@dataclass(frozen=True)
class RealProduct:
    """The matrix times a vector, in real units."""

    outputs: NDArray[np.float64]
    """[rows]"""
    sigma: NDArray[np.float64]
    """[rows]: one standard deviation of what rounding outputs and weights to eight bits adds."""
    bound: NDArray[np.float64]
    """[rows]: most that rounding outputs adds, and that devices differ by in doing so."""
    inputs: NDArray[np.float64]
    """[columns]: the vector as it was rounded."""


class TiledMatrix:
    """A matrix cut into tiles that copies of a Dense model take. headroom: see `scaling.fit`."""

    def __init__(self, dense: DenseModel, headroom: float | None = None) -> None:
        self.dense, self._crest = dense, headroom
        self._size = (0, 0)
        self._in_force: NDArray[np.float64] | None = None
        self.tiles: list[Tile] = []
        """Row of tiles by row of tiles."""

    def assign(
        self,
        matrix: ArrayLike,
        row_scales: NDArray[np.floating] | None = None,
        changed: Collection[int] | None = None,
    ) -> list[Tile]:
        """Take a matrix, float [rows, columns]; the tiles that are to be set on their models.

        row_scales: of the model, see `scaling.fit`. changed: the rows that differ from the matrix before;
        None for all. Raises InputError for what is no matrix of finite numbers.
        """
        real = np.asarray(matrix)
        if real.ndim != 2 or 0 in real.shape:
            raise InputError(f"expected a matrix [rows, columns]; got shape {list(real.shape)}")
        if changed is None or real.shape[1] != self._size[1]:
            self.tiles = []
        old = self.tiles
        touched = {row // self.dense.rows for row in changed or ()}
        tiles, fresh = [], []
        for index, (rows, columns) in enumerate(_cut(real.shape, self.dense)):
            same = (
                index < len(old) and old[index].rows == rows and rows.start // self.dense.rows not in touched
            )
            tile = old[index] if same else self._fit(index, rows, columns, real, row_scales)
            tiles.append(tile)
            if not same:
                fresh.append(tile)
        self._in_force = None
        self.tiles, self._size = tiles, (real.shape[0], real.shape[1])
        return fresh

    @property
    def effective(self) -> NDArray[np.float64]:
        """The matrix that is multiplied by after rounding, [rows, columns]."""
        if self._in_force is None:
            self._in_force = np.zeros(self._size)
            for tile in self.tiles:
                self._in_force[tile.rows, tile.columns] = tile.fitted.effective
        return self._in_force

    def requests(self, vector: ArrayLike, passes: int = 1) -> list[TileRequest]:
        """What to have multiplied for a vector, float [columns], tile by tile.

        passes: repetitions, each with what rounding took from the inputs before and with another input scale,
        so that rounding averages out. Raises InputError for any other vector, NaN and infinity.
        """
        values = self.check(vector)
        rounded: dict[int, list[tuple[NDArray[np.float64], float]]] = {}
        for tile in self.tiles:
            if tile.rows.start == 0:
                # One rounding for all tiles of these columns: there is one vector that was multiplied.
                reach = max(each.fitted.reach for each in self.tiles if each.columns == tile.columns)
                rounded[tile.columns.start] = _passes(values[tile.columns], self.dense, reach, passes)
        return [
            TileRequest(tile.index, steps, scale)
            for tile in self.tiles
            for steps, scale in rounded[tile.columns.start]
        ]

    def check(self, vector: ArrayLike) -> NDArray[np.float64]:
        """Give the vector as float64 [columns]; InputError when it is none, or not finite as float32."""
        values = np.asarray(vector, np.float64)
        if values.shape != (self._size[1],):
            raise InputError(f"expected a vector of {self._size[1]} values; got shape {list(values.shape)}")
        if not np.all(np.abs(values) <= _LARGEST):
            raise InputError("expected a vector of values that are finite as float32; got others")
        return values

    def combine(
        self, requests: Sequence[TileRequest], products: Sequence[NDArray[np.floating]]
    ) -> RealProduct:
        """Sum what the models gave for the requests of one vector, in the same order."""
        passes = len(requests) // len(self.tiles)
        outputs, variance, bound = (np.zeros(self._size[0]) for _ in range(3))
        inputs = np.zeros(self._size[1])
        for request, product in zip(requests, products, strict=True):
            tile = self.tiles[request.tile]
            step = tile.fitted.output_step(request.input_scale) / passes
            outputs[tile.rows] += tile.fitted.outputs(product[: len(step)]) / passes
            variance[tile.rows] += step**2 / 12
            vector = request.steps * request.input_scale
            variance[tile.rows] += tile.fitted.lost**2 * np.dot(vector, vector) / len(vector) / passes
            # Half a step of rounding, and the one step that two implementations may differ by.
            bound[tile.rows] += 1.5 * step
            if tile.rows.start == 0:
                inputs[tile.columns] += vector / passes
        return RealProduct(outputs, np.sqrt(variance), bound, inputs)

    def _fit(
        self,
        index: int,
        rows: slice,
        columns: slice,
        real: NDArray[np.floating],
        row_scales: NDArray[np.floating] | None,
    ) -> Tile:
        return Tile(index, rows, columns, fit(real[rows, columns], self.dense, row_scales, self._crest))


def _passes(
    inputs: NDArray[np.float64], dense: DenseModel, reach: float, passes: int
) -> list[tuple[NDArray[np.float64], float]]:
    """Steps and input scale of each pass, the mean of which is nearer to the inputs with every pass."""
    found, lacking = [], np.zeros_like(inputs)
    for index in range(passes):
        target = inputs + lacking
        steps, scale = quantise(target, dense, reach, 1 + DITHER * (index * GOLDEN_RATIO % 1.0))
        lacking = target - steps * scale
        found.append((steps, scale))
    return found


def _cut(size: tuple[int, ...], dense: DenseModel) -> Iterator[tuple[slice, slice]]:
    """Rows and columns of each tile."""
    rows, columns = size
    for row in range(0, rows, dense.rows):
        for column in range(0, columns, dense.columns):
            yield (
                slice(row, min(row + dense.rows, rows)),
                slice(column, min(column + dense.columns, columns)),
            )
