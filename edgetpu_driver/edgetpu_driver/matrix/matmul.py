"""A real matrix times vectors on Dense models: padded or cut into tiles, scaled into eight bits and back.

What a step of the input is worth is chosen for every vector; what one of the output is worth follows.
Passes beyond the first repeat a product with what rounding took from the inputs before added to them, at
another input scale, so that the rounding of inputs and of outputs averages out. What rounding took from the
weights remains. (Splitting numbers into high and low bytes does not help: each product is rounded to 8 bits.)
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isqrt, prod, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgetpu_driver.compiled_model import PARAMETER_MEMORY_BYTES
from edgetpu_driver.darwinn.parameters.dense import DenseLayout
from edgetpu_driver.engines.protocol import SwappableEngine
from edgetpu_driver.errors import ClippingError, EdgeTpuError, InputError, ModelUnsupportedError
from edgetpu_driver.matrix.tiles import (
    OUTPUT_HEADROOM,
    Tile,
    checked_steps,
    cut,
    refuse_clipping,
    rescaled_tile,
    tile_as_compiled,
)
from edgetpu_driver.weights.replacement import WeightRequest, WeightResult

MAX_PASSES = 64

_COARSER = 1.5  # scale of the next attempt where outputs left their range
_ATTEMPTS = 80  # from the finest scale there is to one at which no input has any effect
_DITHER = 0.25  # by how much input scales of later passes differ
_GOLDEN_RATIO = (sqrt(5) - 1) / 2


@dataclass(frozen=True)
class Product:
    """The product of a matrix and one vector, or a batch of them."""

    outputs: NDArray[np.float32]
    """[M], or [B, M] for a batch; real values."""
    clipped: int
    """Number of input values that were clipped."""
    input_scale: float
    """Real value of one input step in the first pass; the coarsest of a batch."""
    pass_rms: NDArray[np.float32]
    """[passes]: root mean square of what each pass changed in the outputs."""
    weights_version: int
    """Of the weights; see WeightResult."""
    saturated: int = 0
    """Number of outputs that reached the end of their range, and may be farther out; 0 unless accepted."""


class _Flags(NamedTuple):
    accept_clipping: bool
    rescale_rows: bool
    fill_rows: bool = True


@dataclass(frozen=True, eq=False)
class _Sums:
    """The means of all passes, vector by vector."""

    outputs: NDArray[np.float64]
    """[B, M]"""
    added: NDArray[np.float64]
    """[B, passes]: mean square of what each pass changed."""
    clipped: NDArray[np.int64]
    saturated: NDArray[np.int64]

    def replace(self, which: NDArray[np.bool_], other: _Sums) -> None:
        """Take those vectors from another product."""
        self.outputs[which], self.added[which] = other.outputs, other.added
        self.clipped[which], self.saturated[which] = other.clipped, other.saturated


class MatMul:
    """A matrix that can be swapped at any time, on one Dense model or several of the same size.

        product = MatMul(engine)
        product.set_weights(matrix)
        y = product.multiply(x).outputs

    engine: runs a Dense model, on a stick or on the CPU; none: the suite's own of `size` rows, on the CPU.
    another: makes engines for the tiles of a larger matrix; without it no larger matrix is taken.
    Until weights are set, the model's own are multiplied by. Calls from several threads are serialised.
    Raises ModelUnsupportedError for a model that does anything but multiply by one matrix, such as to add a
    bias, and for one without an 8-bit input and output of either sign.
    """

    def __init__(
        self,
        engine: SwappableEngine | None = None,
        *,
        size: int = 256,
        another: Callable[[], SwappableEngine] | None = None,
    ) -> None:
        if engine is None:
            another = another or _cpu_engines(size)
            engine = another()
        if len(engine.inputs) != 1 or len(engine.outputs) != 1:
            raise ModelUnsupportedError("expected a Dense model, with one input and one output")
        tensor = engine.weight_tensor()
        if (
            tensor.shape != (prod(engine.outputs[0].shape), prod(engine.inputs[0].shape))
            or not tensor.is_pure_matmul
        ):
            raise ModelUnsupportedError(
                "expected a Dense model, which only multiplies by a matrix of outputs by inputs; got one "
                f"that does something else too, or other weights: {tensor.operator} {list(tensor.shape)}"
            )
        (self._input,), (self._output,) = engine.inputs, engine.outputs
        self._in_steps, self._out_steps = (checked_steps(spec) for spec in (self._input, self._output))
        self.tile_shape = prod(self._output.shape), prod(self._input.shape)
        """Rows and columns of the model."""
        self._engines = [engine]
        self._another = another
        self._lock = threading.Lock()
        self._version = 0
        rows, columns = self.tile_shape
        self._tiles: tuple[Tile, ...] = (Tile(engine, slice(0, rows), slice(0, columns), None, 0.0),)
        self._matrix: NDArray[np.float32] | None = None
        self._flags = _Flags(accept_clipping=False, rescale_rows=False)
        self._stale = False
        self.shape = self.tile_shape
        """Rows M and columns K of the matrix in force."""

    @property
    def most_tiles(self) -> int:
        """How many tiles a matrix may have."""
        fit = PARAMETER_MEMORY_BYTES // DenseLayout.bytes_of(*self.tile_shape)
        return max(1, fit) if self._another is not None else 1

    @property
    def largest_shape(self) -> tuple[int, int]:
        """The largest matrix that is taken, of as many tiles in height as in width."""
        side = isqrt(self.most_tiles)
        return side * self.tile_shape[0], side * self.tile_shape[1]

    def set_weights(
        self, matrix: ArrayLike, *, accept_clipping: bool = False, rescale_rows: bool = False
    ) -> WeightResult:
        """Multiply by this matrix from now on: [M, K], finite.

        accept_clipping: clip values beyond the model's range, not refuse them. Weights within it are
        multiplied row by row to use more of it, and outputs divided again. rescale_rows: rewrite the model's
        multipliers, so that every row uses all of int8 and all of the outputs' range, whatever its values.
        Raises InputError, ClippingError, ModelUnsupportedError as SwappableEngine.set_weights, and
        DeviceError; the old matrix then stays in force.
        """
        values = _real(matrix, "a matrix")
        if values.ndim != 2 or 0 in values.shape:
            raise InputError(f"expected a matrix [M, K]; got shape {list(np.shape(matrix))}")
        self._check_fits((values.shape[0], values.shape[1]))
        flags = _Flags(accept_clipping, rescale_rows)
        with self._lock:
            if not (accept_clipping or rescale_rows) and np.any(np.array(values.shape) > self.tile_shape):
                refuse_clipping(self._engines[0], values)
            try:
                tiles, swap = self._assign(values, flags)
            except EdgeTpuError:
                self._stale = True
                self._restore()
                raise
            self._matrix, self._flags, self._stale = values, flags, False
            self._tiles, self.shape = tiles, (values.shape[0], values.shape[1])
            self._version += 1
            return replace(swap, version=self._version)

    def multiply(
        self,
        inputs: ArrayLike,
        *,
        input_scale: float | None = None,
        accept_clipping: bool = False,
        passes: int = 1,
    ) -> Product:
        """Multiply by a vector [K] or a batch [B, K], finite.

        input_scale: real value of one input step; by default, for each vector, the finest that clips neither
        inputs nor outputs. accept_clipping: clip what a given scale cannot hold, not refuse it. passes:
        repetitions that average out what rounding takes, at most 64. Raises InputError, ClippingError,
        DeviceError.
        """
        vectors = self._vectors(inputs, input_scale, passes)
        batch = np.atleast_2d(vectors)
        with self._lock:
            if self._stale:
                self._restore(raising=True)
            fixed = np.full((len(batch), 1), input_scale or 0.0)
            scales = fixed if input_scale else self._fitting_scales(batch)
            sums = self._average(batch, scales, passes)
            if input_scale and sums.saturated.any() and self._unfill():
                sums = self._average(batch, scales, passes)
            if not input_scale:
                self._coarsen(batch, scales, sums)
            clipped, saturated = int(sums.clipped.sum()), int(sums.saturated.sum())
            if (clipped or saturated) and not accept_clipping:
                raise ClippingError(
                    f"expected an input scale that holds inputs and outputs; with {input_scale:g}, {clipped} "
                    f"inputs are out of range, and {saturated} outputs",
                    clipped + saturated,
                )
            largest = float(np.abs(sums.outputs).max(initial=0.0))
            if largest > float(np.finfo(np.float32).max):
                raise InputError(f"expected a product that float32 holds; it is up to {largest:.3g}")
            return Product(
                sums.outputs.astype(np.float32).reshape((*vectors.shape[:-1], self.shape[0])),
                clipped,
                float(scales.max()),
                np.sqrt(sums.added.mean(axis=0)).astype(np.float32),
                self._version,
                saturated,
            )

    def _check_fits(self, shape: tuple[int, int]) -> None:
        count = prod(-(-size // most) for size, most in zip(shape, self.tile_shape, strict=True))
        if count > self.most_tiles:
            rows, columns = self.tile_shape
            limit = (
                f"{self.most_tiles} tiles of {rows} x {columns}, such as {list(self.largest_shape)}"
                if self._another is not None
                else f"{rows} x {columns}"
            )
            raise InputError(f"expected a matrix of at most {limit}; got {list(shape)}")

    def _assign(self, matrix: NDArray[np.float32], flags: _Flags) -> tuple[tuple[Tile, ...], WeightResult]:
        tiles, swaps = [], []
        scales = np.zeros(matrix.shape[0], np.float32)
        # The first comes last: until then its engine holds the model's own weights, which nothing else does.
        for index, (rows, columns) in reversed([*enumerate(cut(matrix.shape, self.tile_shape))]):
            part = matrix[rows, columns]
            tile = self._tile(index, part, rows, columns, flags)
            swap = tile.engine.set_weights(
                WeightRequest(
                    part,
                    accept_clipping=flags.accept_clipping,
                    rescale_rows=flags.rescale_rows,
                    row_gains=tile.gains,
                )
            )
            scales[rows] = np.maximum(scales[rows], swap.row_scales)
            tiles.append(tile)
            swaps.append((swap, part.size))
        total = WeightResult(
            version=0,
            row_scales=scales,
            clipped=sum(swap.clipped for swap, _ in swaps),
            worst_error=max(swap.worst_error for swap, _ in swaps),
            rms_error=sqrt(sum(swap.rms_error**2 * size for swap, size in swaps) / matrix.size),
            shape=self.largest_shape,
        )
        return tuple(reversed(tiles)), total

    def _tile(
        self, index: int, part: NDArray[np.float32], rows: slice, columns: slice, flags: _Flags
    ) -> Tile:
        while len(self._engines) <= index:
            assert self._another is not None
            self._engines.append(self._another())
        engine = self._engines[index]
        if flags.rescale_rows:
            return rescaled_tile(engine, rows, columns, part)
        return tile_as_compiled(engine, rows, columns, part, filled=flags.fill_rows)

    def _unfill(self) -> bool:
        """Take gains back, so that a given input scale holds what it would without; whether there were any.

        Raises DeviceError.
        """
        if self._matrix is None or self._flags.rescale_rows or not self._flags.fill_rows:
            return False
        self._flags, self._stale = self._flags._replace(fill_rows=False), True
        self._restore(raising=True)
        return True

    def _restore(self, raising: bool = False) -> None:
        """Put the matrix in force on the engines again, some of which may hold parts of another one."""
        if self._matrix is None:
            self._stale = False
            return
        try:
            self._tiles, _ = self._assign(self._matrix, self._flags)
        except EdgeTpuError:
            if raising:
                raise
        else:
            self._stale = False

    def _vectors(self, inputs: ArrayLike, input_scale: float | None, passes: int) -> NDArray[np.float64]:
        vectors = _real(inputs, "inputs").astype(np.float64)
        if vectors.ndim not in (1, 2) or vectors.shape[-1] != self.shape[1] or not vectors.size:
            raise InputError(
                f"expected inputs [{self.shape[1]}] or a batch of them; got shape {list(vectors.shape)}"
            )
        if not np.all(np.isfinite(vectors)):
            raise InputError("expected inputs that are finite as float32; got others")
        if input_scale is not None and not 0 < input_scale < np.inf:
            raise InputError(f"expected an input scale above 0; got {input_scale}")
        if not 1 <= passes <= MAX_PASSES:
            raise InputError(f"expected 1 to {MAX_PASSES} passes; got {passes}")
        return vectors

    def _fitting_scales(self, batch: NDArray[np.float64]) -> NDArray[np.float64]:
        """[B, 1]: the finest scales that clip no input, and for random inputs no output."""
        largest = np.abs(batch).max(axis=1)
        needed = np.zeros(len(batch))
        for tile in self._tiles:
            lengths = np.linalg.norm(batch[:, tile.columns], axis=1)
            np.maximum(needed, tile.reach * lengths, out=needed)
        for_outputs = needed * (OUTPUT_HEADROOM * self._input.scale / (self._output.scale * self._out_steps))
        scales: NDArray[np.float64] = np.maximum(largest / self._in_steps, for_outputs)
        scales[largest == 0.0] = self._input.scale
        return scales[:, np.newaxis]

    def _average(self, batch: NDArray[np.float64], scales: NDArray[np.float64], passes: int) -> _Sums:
        """The mean of all passes, each with what the inputs of the one before lacked."""
        sums = _Sums(
            np.zeros((len(batch), self.shape[0])),
            np.zeros((len(batch), passes)),
            np.zeros(len(batch), np.int64),
            np.zeros(len(batch), np.int64),
        )
        lacking = np.zeros_like(batch)
        for index in range(passes):
            step = scales * (1 + _DITHER * (index * _GOLDEN_RATIO % 1.0))
            target = batch + lacking
            steps = np.rint(target / step)
            if index == 0:
                sums.clipped[:] = np.count_nonzero(np.abs(steps) > self._in_steps, axis=1)
            np.clip(steps, -self._in_steps, self._in_steps, out=steps)
            lacking = np.clip(target - steps * step, -step, step)
            outputs, beyond = self._run(steps, step)
            np.maximum(sums.saturated, beyond, out=sums.saturated)
            change = (outputs - sums.outputs) / (index + 1)
            np.add(sums.outputs, change, out=sums.outputs)
            sums.added[:, index] = np.mean(change**2, axis=1)
        return sums

    def _coarsen(self, batch: NDArray[np.float64], scales: NDArray[np.float64], sums: _Sums) -> None:
        """Repeat products with coarser scales until no output is at the end of its range."""
        for _ in range(_ATTEMPTS):
            again = sums.saturated > 0
            if not again.any():
                return
            scales[again] *= _COARSER
            sums.replace(again, self._average(batch[again], scales[again], sums.added.shape[1]))
        raise ModelUnsupportedError(
            "expected a Dense model; outputs are at the end of their range for any input"
        )

    def _run(
        self, steps: NDArray[np.float64], step: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Real outputs [B, M] for whole input steps [B, K], and how many reached the end of their range."""
        outputs = np.zeros((len(steps), self.shape[0]))
        beyond = np.zeros(len(steps), np.int64)
        units = self._output.scale / self._input.scale * step[:, 0]
        x = np.empty(self.tile_shape[1], self._input.dtype)
        for tile in self._tiles:
            count = tile.rows.stop - tile.rows.start
            width = tile.columns.stop - tile.columns.start
            x[width:] = self._input.zero_point
            for index, vector in enumerate(steps):
                x[:width] = vector[tile.columns] + self._input.zero_point
                raw = tile.engine.run({self._input.name: x.reshape(self._input.shape)})[self._output.name]
                y = raw.reshape(-1)[:count].astype(np.int32) - self._output.zero_point
                beyond[index] += np.count_nonzero(np.abs(y) >= self._out_steps)
                real = y * units[index]
                outputs[index, tile.rows] += real if tile.gains is None else real / tile.gains
        return outputs, beyond


def _real(values: ArrayLike, what: str) -> NDArray[np.float32]:
    """A copy; InputError for anything but real numbers. What is beyond float32 becomes infinite."""
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InputError(f"expected {what} of real numbers; {error}") from None
    if array.dtype.kind not in "fiub":
        raise InputError(f"expected {what} of real numbers; got {array.dtype.name}")
    with np.errstate(over="ignore"):
        return array.astype(np.float32)


def _cpu_engines(size: int) -> Callable[[], SwappableEngine]:
    from edgetpu_driver.engines.cpu import CpuEngine
    from edgetpu_driver.toolchain import dense_graph as dense

    graph = dense.build(size)
    return lambda: CpuEngine(graph)
