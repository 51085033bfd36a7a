"""MatMul: a real matrix times vectors on engines of this process, as the driver's ~/matmul computes it.

`edgetpu_matrix.EngineMatrix` multiplies like the matrix nodes: it adds the principal directions, which the
host multiplies. Both execute the plans of `matrix.plan`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import isqrt, prod, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgetpu_driver.compiled_model import PARAMETER_MEMORY_BYTES
from edgetpu_driver.darwinn.parameters.dense_layout import DenseLayout
from edgetpu_driver.engines.divisible_work import Pieces, run_pieces
from edgetpu_driver.engines.protocol import SwappableEngine
from edgetpu_driver.errors import ClippingError, InputError
from edgetpu_driver.matrix import product_passes
from edgetpu_driver.matrix.dense_model import DenseModel
from edgetpu_driver.matrix.engine_tiles import EngineTiles
from edgetpu_driver.matrix.product_passes import ProductBatch
from edgetpu_driver.matrix.scaling import RowGains
from edgetpu_driver.matrix.tile_plan import MatrixPlan, PlanOptions, Tile, make_plan, plan_of_file
from edgetpu_driver.weights.quantisation import clipping_error
from edgetpu_driver.weights.real_arrays import array_of, real_array
from edgetpu_driver.weights.weight_request import WeightResult

_SMALL_PRODUCT = 16384
"""Inputs times passes up to which the arithmetic takes less than about a millisecond."""


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
    """RMS of the change that each pass makes to the mean outputs, [passes]."""
    weights_version: int
    """Version of the weights; see WeightResult."""
    saturated: int = 0
    """Number of outputs at the end of their range, whose true values may be beyond it; 0 unless accepted."""


class MatMul:
    """A matrix that can be replaced at any time, on one Dense model or several of the same size.

        product = MatMul(engine)
        product.set_weights(matrix)
        y = product.multiply(x).outputs

    engine: runs a Dense model, on a stick or on the CPU; by default the suite's model of `size` rows and
    columns runs on the CPU. engine_factory: makes engines for the tiles of a larger matrix; without it a
    larger matrix is refused. Until weights are set, the model's own apply. Calls from several threads are
    serialised. Raises ModelUnsupportedError for a model that does more than multiply by one matrix, such as
    adding a bias, and for one without an 8-bit input and output that take both signs.
    """

    def __init__(
        self,
        engine: SwappableEngine | None = None,
        *,
        size: int = 256,
        engine_factory: Callable[[], SwappableEngine] | None = None,
    ) -> None:
        if engine is None:
            engine_factory = engine_factory or _cpu_engines(size)
            engine = engine_factory()
        self._dense = DenseModel.of_engine(engine)
        self.tile_shape = self._dense.rows, self._dense.columns
        """Rows and columns of the model."""
        self._plan = plan_of_file(self._dense)
        self._tiles = EngineTiles([engine], engine_factory, loaded=self._plan.tiles[0])
        self._takes_tiles = engine_factory is not None
        self._lock = threading.Lock()
        self._version = 0
        self._matrix: NDArray[np.float32] | None = None
        self._without_gains: MatrixPlan | None = None
        """See `_plan_without_gains`; None until a product needs it. Its tiles stay set for the next one."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows M and columns K of the present matrix."""
        return self._plan.shape

    @property
    def most_tiles(self) -> int:
        """Largest number of tiles of a matrix: as many as fit into the chip's parameter memory."""
        fit = PARAMETER_MEMORY_BYTES // DenseLayout.bytes_of(*self.tile_shape)
        return max(1, fit) if self._takes_tiles else 1

    @property
    def largest_shape(self) -> tuple[int, int]:
        """The largest matrix, with as many rows of tiles as columns of tiles."""
        side = isqrt(self.most_tiles)
        return side * self.tile_shape[0], side * self.tile_shape[1]

    def set_weights(
        self, matrix: ArrayLike, *, accept_clipping: bool = False, rescale_rows: bool = False
    ) -> WeightResult:
        """Set the matrix to multiply by: [M, K], finite.

        accept_clipping: clip values beyond the model's range instead of refusing them. A row within the range
        is multiplied by the gain of least rounding error, and its outputs are divided by that gain.
        rescale_rows: rewrite the model's multipliers, so that every row uses all of int8 and all of the
        outputs' range, whatever its values. Raises InputError, ClippingError, ModelUnsupportedError like
        SwappableEngine.set_weights, and DeviceError; the previous matrix then stays in effect.
        """
        with self._lock:
            setting = self.setting_weights(matrix, accept_clipping=accept_clipping, rescale_rows=rescale_rows)
            return run_pieces(setting)

    def setting_weights(
        self, matrix: ArrayLike, *, accept_clipping: bool = False, rescale_rows: bool = False
    ) -> Pieces[WeightResult]:
        """Do what `set_weights` does, in pieces; no other call may be made between them."""
        values = yield partial(_real, matrix, "a matrix")
        if values.ndim != 2 or 0 in values.shape:
            raise InputError(f"expected a matrix [M, K]; got shape {list(np.shape(matrix))}")
        self._check_fits((values.shape[0], values.shape[1]))
        options = PlanOptions(rescale_rows, RowGains.IN_RANGE, accept_clipping=accept_clipping)
        if not (accept_clipping or rescale_rows) and np.any(np.array(values.shape) > self.tile_shape):
            yield partial(_refuse_clipping, self._dense, values)
        plan = yield partial(make_plan, values, self._dense, options)
        swaps = yield from self._tiles.holding(plan)
        self._plan, self._matrix, self._without_gains = plan, values, None
        self._version += 1
        return self._total(plan, swaps)

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
        inputs nor outputs. accept_clipping: clip values beyond a given scale instead of refusing them.
        passes: repetitions that average out rounding, at most 64. Raises InputError, ClippingError,
        DeviceError.
        """
        with self._lock:
            return run_pieces(
                self.multiplying(
                    inputs, input_scale=input_scale, accept_clipping=accept_clipping, passes=passes
                )
            )

    def multiplying(
        self,
        inputs: ArrayLike,
        *,
        input_scale: float | None = None,
        accept_clipping: bool = False,
        passes: int = 1,
    ) -> Pieces[Product]:
        """Do what `multiply` does, in pieces; meanwhile other products may be made, but no weights set."""
        large = array_of(inputs, "inputs").size * passes > _SMALL_PRODUCT
        check = partial(self._vectors, inputs, input_scale)
        vectors = (yield check) if large else check()
        batch, plan = np.atleast_2d(vectors), self._plan
        if input_scale and self._without_gains is not None:
            saturates = yield partial(product_passes.surely_saturates, plan, batch, input_scale)
            plan = self._without_gains if saturates else plan
        result = yield from self._tiles.running(
            product_passes.multiply(plan, batch, passes, input_scale), large=large
        )
        if input_scale and result.saturated.any():
            without_gains = yield self._plan_without_gains
            if without_gains is not plan:
                again = product_passes.multiply(without_gains, batch, passes, input_scale)
                result = yield from self._tiles.running(again, large=large)
        finish = partial(self._product, result, vectors.shape, input_scale, accept_clipping)
        return (yield finish) if large else finish()

    def _product(
        self,
        result: ProductBatch,
        shape: tuple[int, ...],
        input_scale: float | None,
        accept_clipping: bool,
    ) -> Product:
        """The result for inputs of `shape`. Raises ClippingError, and InputError beyond float32's range."""
        if not accept_clipping:
            _refuse_clipped(result, input_scale)
        largest = float(np.abs(result.outputs).max(initial=0.0))
        if largest > float(np.finfo(np.float32).max):
            raise InputError(f"expected a product that float32 can represent; it is up to {largest:.3g}")
        return Product(
            result.outputs.astype(np.float32).reshape((*shape[:-1], self.shape[0])),
            int(result.clipped.sum()),
            float(result.scales.max()),
            np.sqrt(result.changes.mean(axis=0)).astype(np.float32),
            self._version,
            int(result.saturated.sum()),
        )

    def _check_fits(self, shape: tuple[int, int]) -> None:
        count = prod(-(-size // most) for size, most in zip(shape, self.tile_shape, strict=True))
        if count > self.most_tiles:
            rows, columns = self.tile_shape
            limit = f"{rows} x {columns}"
            if self._takes_tiles:
                limit = f"{self.most_tiles} tiles of {limit}, such as {list(self.largest_shape)}"
            raise InputError(f"expected a matrix of at most {limit}; got {list(shape)}")

    def _total(self, plan: MatrixPlan, swaps: list[tuple[Tile, WeightResult]]) -> WeightResult:
        """Combine the results of setting all tiles, in the unit of the matrix."""
        scales = np.zeros(plan.shape[0], np.float32)
        squares = 0.0
        for tile, swap in swaps:
            scales[tile.rows] = np.maximum(scales[tile.rows], swap.row_scales)
            squares += swap.rms_error**2 * tile.part.size
        return WeightResult(
            version=self._version,
            row_scales=scales,
            clipped=sum(swap.clipped for _, swap in swaps),
            worst_error=max(swap.worst_error for _, swap in swaps),
            rms_error=sqrt(squares / prod(plan.shape)),
            shape=self.largest_shape,
            is_pure_matmul=True,
            dtype=self._dense.tensor.dtype,
            zero_point=self._dense.tensor.zero_point,
        )

    def _plan_without_gains(self) -> MatrixPlan:
        """A plan of the same matrix with gains of 1, for which an input scale covers the usual outputs.

        Returns `_plan` itself if that has no such gains. Other products keep `_plan`.
        """
        options = self._plan.options
        if self._matrix is None or options.rescale_rows:
            return self._plan
        if self._without_gains is None:
            options = replace(options, gains=RowGains.ONE)
            self._without_gains = make_plan(self._matrix, self._dense, options)
        return self._without_gains

    def _vectors(self, inputs: ArrayLike, input_scale: float | None) -> NDArray[np.float64]:
        vectors = _real(inputs, "inputs").astype(np.float64)
        if vectors.ndim not in (1, 2) or vectors.shape[-1] != self.shape[1] or not vectors.size:
            raise InputError(
                f"expected inputs [{self.shape[1]}] or a batch of them; got shape {list(vectors.shape)}"
            )
        if not np.all(np.isfinite(vectors)):
            raise InputError(
                "expected inputs that are finite as float32; got NaN, infinity or values beyond float32"
            )
        if input_scale is not None and not 0 < input_scale < np.inf:
            raise InputError(f"expected an input scale above 0; got {input_scale}")
        return vectors


def _refuse_clipping(dense: DenseModel, matrix: NDArray[np.float32]) -> None:
    """Raise ClippingError, for the matrix as a whole, if any weight is beyond the model's range."""
    scales, (least, most) = np.resize(dense.tensor.scales, len(matrix)), dense.tensor.limits
    steps = scales[:, np.newaxis]
    excess = np.maximum(matrix - most * steps, least * steps - matrix)
    clipped = int(np.count_nonzero(excess >= steps / 2))
    if clipped and np.isfinite(matrix).all():  # the engine refuses others
        raise clipping_error(scales, clipped, matrix.size, float(excess.max()), (least, most))


def _refuse_clipped(result: ProductBatch, input_scale: float | None) -> None:
    """Raise ClippingError if a given input scale clipped inputs or saturated outputs."""
    clipped, saturated = int(result.clipped.sum()), int(result.saturated.sum())
    if clipped or saturated:
        raise ClippingError(
            f"expected an input scale that covers inputs and outputs; with {input_scale:g}, {clipped} "
            f"inputs are out of range, and {saturated} outputs",
            clipped + saturated,
        )


def _real(values: ArrayLike, what: str) -> NDArray[np.float32]:
    """Copy to a float32 array, with values beyond float32 as infinity; InputError unless they are real."""
    array = real_array(values, what)
    with np.errstate(over="ignore"):
        return array.astype(np.float32)


def _cpu_engines(size: int) -> Callable[[], SwappableEngine]:
    from edgetpu_driver.engines.cpu_engine import CpuEngine
    from edgetpu_driver.toolchain import dense_graph as dense

    graph = dense.build(size)
    return lambda: CpuEngine(graph)
