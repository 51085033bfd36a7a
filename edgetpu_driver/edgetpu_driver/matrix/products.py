"""Products of a planned matrix and vectors: what the tiles are to run, and what comes of their outputs.

Each vector gets an input scale, so fine that typical outputs fill their range. Where an output reaches the
end of its range, the product is repeated with a coarser scale.

Passes beyond the first repeat a product with another input scale, after adding to the inputs what rounding
took from them before, so that the rounding of inputs and of outputs averages out. That of weights remains.
(Splitting numbers into high and low bytes does not help: each product is rounded to 8 bits.)

`multiply` is a generator: it yields requests, expects the raw outputs of all of them to be sent back, in the
same order, and returns the products. An executor runs the requests wherever its tiles are.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.matrix.plan import MatrixPlan, Tile

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
class RealProduct:
    """The matrix times one vector, in real units."""

    outputs: Array
    """[rows]"""
    sigma: Array
    """[rows]: one standard deviation of what the rounding of outputs and weights adds."""
    bound: Array
    """[rows]: most that the rounding of outputs adds, one step of difference between devices included."""
    inputs: Array
    """[columns]: the vector after rounding."""


@dataclass(frozen=True, eq=False)
class ProductBatch:
    """The means of all passes, vector by vector."""

    plan: MatrixPlan
    outputs: Array
    """[B, rows], in real units."""
    inputs: Array
    """[B, columns]: the vectors after rounding."""
    scales: Array
    """[B, column blocks]: real value of one input step in the first pass."""
    changes: Array
    """[B, passes]: mean square of what each pass changed in the outputs."""
    clipped: NDArray[np.int64]
    """[B]: inputs beyond the range of the first pass."""
    saturated: NDArray[np.int64]
    """[B]: outputs at the end of their range, in the worst pass."""

    def replace(self, which: NDArray[np.bool_], other: ProductBatch) -> None:
        """Take those vectors from another batch."""
        for name in ("outputs", "inputs", "scales", "changes", "clipped", "saturated"):
            getattr(self, name)[which] = getattr(other, name)

    @cached_property
    def only(self) -> RealProduct:
        """The product of a batch of one vector."""
        dense, passes = self.plan.dense, self.changes.shape[1]
        output_unit = dense.output.scale / dense.input.scale
        coarseness = 1 + DITHER * _dither(passes)
        variance, bound = np.zeros((2, self.plan.shape[0]))
        for tile in self.plan.tiles:
            block = tile.columns.start // dense.columns
            step = output_unit * self.scales[0, block] * coarseness
            steps = step / tile.gains[:, np.newaxis]  # [rows, passes]
            variance[tile.rows] += (steps**2).sum(axis=1) / 12 / passes**2
            rounded = self.inputs[0, tile.columns]
            variance[tile.rows] += tile.rounding_lengths**2 * np.dot(rounded, rounded) / len(rounded)
            # Half a step of rounding, and the one step by which two implementations may differ.
            bound[tile.rows] += 1.5 * steps.mean(axis=1)
        return RealProduct(self.outputs[0], np.sqrt(variance), bound, self.inputs[0])


def multiply(plan: MatrixPlan, batch: Array, passes: int = 1, input_scale: float | None = None) -> Products:
    """Multiply the planned matrix by vectors, [B, columns], finite as float32.

    input_scale: real value of one input step for all of them; inputs and outputs that it does not hold are
    counted then. By default it is chosen for every vector. Raises ModelUnsupportedError for a model whose
    outputs are at the end of their range for any input.
    """
    blocks = plan.column_blocks
    if input_scale is not None:
        return (
            yield from _mean_of_passes(plan, batch, np.full((len(batch), len(blocks)), input_scale), passes)
        )
    scales, safe = _fitting_scales(plan, batch)
    products = yield from _mean_of_passes(plan, batch, scales, passes)
    for _ in range(_ATTEMPTS):
        again = products.saturated > 0
        if not again.any():
            return products
        coarser = products.scales[again] * _COARSER
        # With the safe scale nothing saturates but by the rounding of weights: then it gets coarser still.
        limit = np.where(products.scales[again] < safe[again], safe[again], np.inf)
        scales = np.minimum(coarser, limit)
        products.replace(again, (yield from _mean_of_passes(plan, batch[again], scales, passes)))
    raise ModelUnsupportedError("expected a Dense model; outputs are at the end of their range for any input")


def _fitting_scales(plan: MatrixPlan, batch: Array) -> tuple[Array, Array]:
    """[B, blocks] each: the finest scales that clip no input and no typical output; those that clip none."""
    dense, blocks = plan.dense, plan.column_blocks
    fine, safe = np.zeros((2, len(batch), len(blocks)))
    # One step less than the range: an output at its end counts as saturated.
    certain_range = dense.output.scale * (dense.output.symmetric_steps - 1)
    for index, columns in enumerate(blocks):
        vectors = batch[:, columns]
        longest = max(tile.longest for tile in plan.tiles if tile.columns == columns)
        largest_output = longest * np.linalg.norm(vectors, axis=1) * dense.input.scale  # by Cauchy-Schwarz
        safe[:, index] = largest_output / certain_range
        share = plan.options.headroom / sqrt(vectors.shape[1])
        fine[:, index] = share * largest_output / dense.output_range if share < 1 else safe[:, index]
        largest = np.abs(vectors).max(axis=1)
        clipping = largest / dense.input.symmetric_steps
        np.maximum(fine[:, index], clipping, out=fine[:, index])
        np.maximum(safe[:, index], clipping, out=safe[:, index])
        fine[largest == 0.0, index] = safe[largest == 0.0, index] = dense.input.scale
    return fine, safe


def _mean_of_passes(plan: MatrixPlan, batch: Array, scales: Array, passes: int) -> Products:
    """Multiply with these input scales, [B, blocks], whatever saturates."""
    products = _empty(plan, len(batch), scales, passes)
    at_once = max(1, _ROUND // passes)
    for start in range(0, len(batch), at_once):
        part = slice(start, start + at_once)
        yield from _round(plan, batch[part], _part(products, part))
    return products


def _empty(plan: MatrixPlan, count: int, scales: Array, passes: int) -> ProductBatch:
    rows, columns = plan.shape
    return ProductBatch(
        plan,
        np.zeros((count, rows)),
        np.zeros((count, columns)),
        scales,
        np.zeros((count, passes)),
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
    )


def _part(products: ProductBatch, part: slice) -> ProductBatch:
    """Views of some of the vectors."""
    return ProductBatch(
        products.plan,
        products.outputs[part],
        products.inputs[part],
        products.scales[part],
        products.changes[part],
        products.clipped[part],
        products.saturated[part],
    )


def _round(
    plan: MatrixPlan, batch: Array, products: ProductBatch
) -> Generator[Requests, Sequence[NDArray[Any]], None]:
    """Fill in the products of some vectors: all their passes on all tiles in one round of requests."""
    dense, passes = plan.dense, products.changes.shape[1]
    steps = products.scales * (1 + DITHER * _dither(passes)[:, np.newaxis, np.newaxis])  # [passes, B, blocks]
    tensors = []
    for index, columns in enumerate(plan.column_blocks):
        rounded = _rounded_inputs(batch[:, columns], steps[..., index], dense.input.symmetric_steps, products)
        products.inputs[:, columns] = (rounded * steps[..., index, np.newaxis]).mean(axis=0)
        tensor = np.full((passes * len(batch), dense.columns), dense.input.zero_point, dense.input.dtype)
        tensor[:, : rounded.shape[2]] = rounded.reshape(len(tensor), -1) + dense.input.zero_point
        tensors.append(tensor.reshape(-1, *dense.input.shape))
    raw = yield [
        TileRequest(tile, inputs)
        for tile in plan.tiles
        for inputs in tensors[tile.columns.start // dense.columns]
    ]
    outputs = _real_outputs(plan, raw, steps, products)
    for index, each in enumerate(outputs):
        change = (each - products.outputs) / (index + 1)
        np.add(products.outputs, change, out=products.outputs)
        products.changes[:, index] = np.mean(change**2, axis=1)


def _rounded_inputs(vectors: Array, steps: Array, limit: int, products: ProductBatch) -> Array:
    """Whole input steps of each pass, [passes, B, columns], each with what those of the one before lacked."""
    rounded = np.empty((len(steps), *vectors.shape))
    lacking = np.zeros_like(vectors)
    for index, each in enumerate(steps):
        step = each[:, np.newaxis]
        target = vectors + lacking
        np.rint(target / step, out=rounded[index])
        if index == 0:
            products.clipped[:] += np.count_nonzero(np.abs(rounded[index]) > limit, axis=1)
        np.clip(rounded[index], -limit, limit, out=rounded[index])
        lacking = np.clip(target - rounded[index] * step, -step, step)
    return rounded


def _real_outputs(
    plan: MatrixPlan, raw: Sequence[NDArray[Any]], steps: Array, products: ProductBatch
) -> Array:
    """Sum what the tiles gave, in real units: [passes, B, rows]; counts the outputs that are saturated."""
    output, count = plan.dense.output, steps.shape[0] * steps.shape[1]
    units = steps * (output.scale / plan.dense.input.scale)
    real = np.zeros((*steps.shape[:2], plan.shape[0]))
    for index, tile in enumerate(plan.tiles):
        rows = tile.rows.stop - tile.rows.start
        arrays = [array.reshape(-1)[:rows] for array in raw[index * count : (index + 1) * count]]
        whole = (np.stack(arrays).astype(np.int32) - output.zero_point).reshape(*steps.shape[:2], rows)
        at_end = np.count_nonzero(np.abs(whole) >= output.symmetric_steps, axis=2).max(axis=0)
        products.saturated[:] += at_end
        block = tile.columns.start // plan.dense.columns
        real[..., tile.rows] += whole * units[..., block, np.newaxis] / tile.gains
    return real


def _dither(passes: int) -> Array:
    """[passes]: numbers from 0 to 1, 0 for the first pass."""
    return np.asarray(np.arange(passes) * _GOLDEN_RATIO % 1.0)
