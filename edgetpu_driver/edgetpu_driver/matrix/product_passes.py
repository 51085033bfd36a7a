"""Products of a planned matrix and vectors: the inputs of the tiles, and real values from their outputs.

Each vector gets an input scale, so fine that typical outputs fill their range. If an output reaches the end
of its range, the product is repeated with a coarser scale.

Passes after the first repeat a product with another input scale and with the previous rounding error added to
the inputs, so that the rounding of inputs and of outputs averages out. The rounding of weights remains.
(Splitting numbers into high and low bytes does not help: each product is rounded to 8 bits.)

`multiply` is a generator: it yields requests, expects the raw outputs of all of them to be sent back, in the
same order, and returns the products. An executor runs the requests wherever its tiles are.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import InputError, ModelUnsupportedError
from edgetpu_driver.matrix.dense_model import DenseModel
from edgetpu_driver.matrix.tile_plan import MatrixPlan, Tile

MAX_PASSES = 64
"""Most repetitions of a product: beyond 8 little is left to gain, see docs/weights.md."""

DITHER = 0.25
"""Largest relative difference between the input scales of passes, so that outputs are not rounded alike.

Coarser scales round more coarsely, equal ones round alike; with 0.25 the rows "product, N = ..., 8 passes" of
`make bench` are at 0.57 of ideal 8 bits.
"""

_GOLDEN_RATIO = (sqrt(5) - 1) / 2  # multiples of it, modulo 1, are spread evenly, however many there are
_COARSER = 1.5  # factor between the input scales of two attempts: at most half a bit too coarse
_ATTEMPTS = 80  # 1.5^80 = 10^14: from the finest scale to one at which no float32 input has any effect
_ROUND = 256  # vectors times passes that are asked for at once; bounds memory, and uploads of swapped tiles

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TileRequest:
    """One inference of a tile's model."""

    tile: Tile
    inputs: NDArray[Any]
    """The model's input tensor."""


Requests: TypeAlias = Sequence[TileRequest]
Products: TypeAlias = Generator[Requests, Sequence[NDArray[Any]], "ProductBatch"]


@dataclass(frozen=True, eq=False)
class RoundingErrors:
    """Error bounds of the product of one vector, from rounding."""

    plan: MatrixPlan
    inputs: Array
    """The vector after rounding, [columns]."""
    scales: Array
    """Real value of one input step in the first pass, [column blocks]."""
    passes: int

    @cached_property
    def sigma(self) -> Array:
        """One standard deviation, from the rounding of outputs and weights, [rows]."""
        variance = np.zeros(self.plan.shape[0])
        for tile, steps in self._output_steps():
            variance[tile.rows] += (steps**2).sum(axis=1) / 12 / self.passes**2
            rounded = self.inputs[tile.columns]
            variance[tile.rows] += tile.rounding_lengths**2 * np.dot(rounded, rounded) / len(rounded)
        return np.sqrt(variance)

    @cached_property
    def bound(self) -> Array:
        """[rows]: largest error from rounding outputs, including one step of difference between devices."""
        bound = np.zeros(self.plan.shape[0])
        for tile, steps in self._output_steps():
            bound[tile.rows] += 1.5 * steps.mean(axis=1)  # half a step of rounding, and a step of difference
        return bound

    def _output_steps(self) -> Iterator[tuple[Tile, Array]]:
        """Each tile, and the real values of its output steps, [rows, passes]."""
        dense = self.plan.dense
        coarseness = (1 + DITHER * _dither(self.passes)) * dense.output.scale / dense.input.scale
        for tile in self.plan.tiles:
            step = self.scales[tile.columns.start // dense.columns] * coarseness
            yield tile, step / tile.gains[:, np.newaxis]


@dataclass(frozen=True, eq=False)
class RealProduct:
    """The matrix times one vector, in real units."""

    outputs: Array
    """Outputs, [rows]."""
    inputs: Array
    """The vector after rounding, [columns]."""
    errors: RoundingErrors


@dataclass(frozen=True, eq=False)
class ProductBatch:
    """The means over all passes, for each vector of a batch."""

    plan: MatrixPlan
    outputs: Array
    """Outputs in real units, [B, rows]."""
    inputs: Array
    """The vectors after rounding, [B, columns]."""
    scales: Array
    """Real value of one input step in the first pass, [B, column blocks]."""
    changes: Array
    """Mean square of the change that each pass makes to the mean outputs, [B, passes]."""
    clipped: NDArray[np.int64]
    """Number of inputs beyond the range of the first pass, [B]."""
    saturated: NDArray[np.int64]
    """Number of outputs at the end of their range, in the worst pass, [B]."""

    @property
    def only(self) -> RealProduct:
        """The product of a batch of one vector."""
        errors = RoundingErrors(self.plan, self.inputs[0], self.scales[0], self.changes.shape[1])
        return RealProduct(self.outputs[0], self.inputs[0], errors)

    def replace(self, which: NDArray[np.bool_], other: ProductBatch) -> None:
        """Replace the given vectors by those of another batch."""
        for name in _BY_VECTOR:
            getattr(self, name)[which] = getattr(other, name)


_BY_VECTOR = ("outputs", "inputs", "scales", "changes", "clipped", "saturated")


def multiply(plan: MatrixPlan, batch: Array, passes: int = 1, input_scale: float | None = None) -> Products:
    """Multiply the planned matrix by vectors, [B, columns], finite as float32.

    input_scale: real value of one input step for all vectors; inputs and outputs beyond its range are then
    counted. By default it is chosen for every vector. Raises InputError unless there are 1 to MAX_PASSES
    passes, and ModelUnsupportedError for a model whose outputs are at the end of their range for any input.
    """
    if not 1 <= passes <= MAX_PASSES:
        raise InputError(f"expected 1 to {MAX_PASSES} passes; got {passes}")
    if input_scale is not None:
        given = np.full((len(batch), len(plan.column_blocks)), input_scale)
        return (yield from _mean_of_passes(plan, batch, given, passes))
    products = yield from _mean_of_passes(plan, batch, _typical_scales(plan, batch), passes)
    for _ in range(_ATTEMPTS):
        if not products.saturated.any():
            return products
        again = products.saturated > 0
        scales, safe = products.scales[again], _safe_scales(plan, batch[again])
        # With the safe scale only the rounding of weights can saturate outputs: then it gets coarser still.
        scales = np.minimum(scales * _COARSER, np.where(scales < safe, safe, np.inf))
        products.replace(again, (yield from _mean_of_passes(plan, batch[again], scales, passes)))
    raise ModelUnsupportedError("expected a Dense model; outputs are at the end of their range for any input")


def surely_saturates(plan: MatrixPlan, batch: Array, input_scale: float) -> bool:
    """Whether an output of the first vectors, with this input scale, saturates on any device.

    The host computes what the tiles would, which takes less time than setting their weights to find out.
    """
    dense, batch = plan.dense, batch[:_ROUND]  # more would hold up other work
    steps, clipped = np.full((1, len(batch), 1), input_scale), np.zeros(len(batch), np.int64)
    rounded = _rounded_inputs(batch, steps, dense.input_steps, clipped)[0].astype(np.float32)
    # One step more than the range: devices differ by a step.
    limit = (dense.output_steps + 1) * dense.output.scale / dense.input.scale
    return any(np.abs(rounded[:, tile.columns] @ tile.model_weights.T).max() >= limit for tile in plan.tiles)


def _typical_scales(plan: MatrixPlan, batch: Array) -> Array:
    """[B, blocks]: the finest scales that clip no input and no typical output."""
    return _fitting_scales(plan, batch, [block.typical_scale for block in plan.column_blocks])


def _safe_scales(plan: MatrixPlan, batch: Array) -> Array:
    """[B, blocks]: the finest scales that clip no input and no output."""
    return _fitting_scales(plan, batch, [block.safe_scale for block in plan.column_blocks])


def _fitting_scales(plan: MatrixPlan, batch: Array, scales: Sequence[float]) -> Array:
    """[B, blocks]: the finest scales that clip no input. scales: those that vectors of length 1 need."""
    fitting = np.empty((len(batch), len(scales)))
    for index, (block, scale) in enumerate(zip(plan.column_blocks, scales, strict=True)):
        vectors = batch[:, block.columns]
        lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
        largest = np.abs(vectors).max(axis=1)
        np.maximum(scale * lengths, largest / plan.dense.input_steps, out=fitting[:, index])
        if not largest.all():
            fitting[largest == 0.0, index] = plan.dense.input.scale
    return fitting


def _mean_of_passes(plan: MatrixPlan, batch: Array, scales: Array, passes: int) -> Products:
    """Multiply with these input scales, [B, blocks], even if outputs saturate."""
    at_once = max(1, _ROUND // passes)
    if len(batch) <= at_once:
        return (yield from _round(plan, batch, scales, passes))
    parts = []
    for start in range(0, len(batch), at_once):
        part = slice(start, start + at_once)
        parts.append((yield from _round(plan, batch[part], scales[part], passes)))
    return ProductBatch(
        plan, *(np.concatenate([getattr(part, name) for part in parts]) for name in _BY_VECTOR)
    )


def _round(plan: MatrixPlan, batch: Array, scales: Array, passes: int) -> Products:
    """Multiply some vectors: all their passes on all tiles in one round of requests."""
    steps = scales[np.newaxis]  # [passes, B, blocks]
    if passes > 1:
        steps = steps * (1 + DITHER * _dither(passes)[:, np.newaxis, np.newaxis])
    inputs, clipped = np.empty(batch.shape), np.zeros(len(batch), np.int64)
    tensors = []
    for index, block in enumerate(plan.column_blocks):
        step = steps[..., index, np.newaxis]
        rounded = _rounded_inputs(batch[:, block.columns], step, plan.dense.input_steps, clipped)
        real = rounded * step
        inputs[:, block.columns] = real[0] if passes == 1 else real.mean(axis=0)
        tensors.append(_input_tensors(plan.dense, rounded))
    raw = yield [
        TileRequest(tile, tensor)
        for tile in plan.tiles
        for tensor in tensors[tile.columns.start // plan.dense.columns]
    ]
    by_pass, saturated = _real_outputs(plan, raw, steps)
    outputs, changes = by_pass[0], np.empty((len(batch), passes))
    for index, each in enumerate(by_pass):
        change = (each - outputs) / (index + 1) if index else each
        if index:
            outputs = outputs + change
        changes[:, index] = np.einsum("ij,ij->i", change, change) / change.shape[1]
    return ProductBatch(plan, outputs, inputs, scales, changes, clipped, saturated)


def _rounded_inputs(vectors: Array, steps: Array, limit: int, clipped: NDArray[np.int64]) -> Array:
    """Whole input steps of each pass, [passes, B, columns], corrected by the rounding of the pass before.

    steps: [passes, B, 1]. clipped: [B]; the number of values that the first pass clips is added to it.
    """
    rounded = np.empty((len(steps), *vectors.shape))
    target = vectors
    for index, step in enumerate(steps):
        each = np.rint(target / step, out=rounded[index])
        if max(each.max(), -each.min()) > limit:
            if index == 0:
                clipped += np.count_nonzero(np.abs(each) > limit, axis=1)
            np.clip(each, -limit, limit, out=each)
        if index < len(steps) - 1:
            target = vectors + np.clip(target - each * step, -step, step)
    return rounded


def _input_tensors(dense: DenseModel, rounded: Array) -> NDArray[Any]:
    """The model's input tensors for whole steps, [passes, B, columns], one after the other."""
    vectors = rounded.reshape(-1, rounded.shape[2]) + dense.input.zero_point
    tensors = vectors.astype(dense.input.dtype)
    if vectors.shape[1] < dense.columns:
        tensors = np.full((len(vectors), dense.columns), dense.input.zero_point, dense.input.dtype)
        tensors[:, : vectors.shape[1]] = vectors
    return tensors.reshape(-1, *dense.input.shape)


def _real_outputs(
    plan: MatrixPlan, raw: Sequence[NDArray[Any]], steps: Array
) -> tuple[Array, NDArray[np.int64]]:
    """Sum the outputs of the tiles in real units, [passes, B, rows]; count the saturated outputs, [B]."""
    output, (passes, vectors) = plan.dense.output, steps.shape[:2]
    units = steps * (output.scale / plan.dense.input.scale)
    real, saturated = np.zeros((passes, vectors, plan.shape[0])), np.zeros(vectors, np.int64)
    count = passes * vectors
    for index, tile in enumerate(plan.tiles):
        arrays = raw[index * count : (index + 1) * count]
        rows = tile.rows.stop - tile.rows.start
        whole = np.array(arrays).reshape(passes, vectors, -1)[..., :rows].astype(np.float64)
        whole -= output.zero_point
        if max(whole.max(), -whole.min()) >= plan.dense.output_steps:
            at_end = np.count_nonzero(np.abs(whole) >= plan.dense.output_steps, axis=2)
            saturated += at_end.max(axis=0)
        whole *= units[..., tile.columns.start // plan.dense.columns, np.newaxis]
        whole /= tile.gains
        real[..., tile.rows] += whole
    return real, saturated


def _dither(passes: int) -> Array:
    """[passes]: numbers from 0 to 1, 0 for the first pass."""
    return np.asarray(np.arange(passes) * _GOLDEN_RATIO % 1.0)
