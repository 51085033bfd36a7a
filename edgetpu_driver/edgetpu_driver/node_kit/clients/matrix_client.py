"""A real matrix on a driver, for one node; executes plans by asynchronous requests."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from math import inf, prod

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rclpy.node import Node

from edgetpu_driver.errors import EdgeTpuError, InputError, ModelUnsupportedError, UnavailableError
from edgetpu_driver.host.models.inference_result import InferenceResult
from edgetpu_driver.matrix import product_passes
from edgetpu_driver.matrix.dense_model import DenseModel, check_tensors
from edgetpu_driver.matrix.product_passes import TileRequest
from edgetpu_driver.matrix.scaling import OUTPUT_HEADROOM
from edgetpu_driver.matrix.tile_plan import MatrixPlan, PlanOptions, Tile, make_plan
from edgetpu_driver.node_kit.clients.matmul_in_progress import ProductInProgress, ProductResult
from edgetpu_driver.node_kit.clients.model_client import ModelClient
from edgetpu_driver.node_kit.executor.steady_timers import create_steady_timer
from edgetpu_driver.weights.replaceable_weights import WeightTensor
from edgetpu_driver.weights.weight_request import WeightRequest, WeightResult

MOST_TILES = 256
"""Largest number of copies of the model for one matrix: a matrix of 4096 x 4096 on dense_256."""

AT_ONCE = 4
"""Requests in flight at a time: enough that the device never waits for the next one."""

RETRY_PERIOD = 1.0
"""Seconds between two checks whether weights are still to be set. Uncritical."""


REFUSAL_PERIOD = 10.0
"""Seconds after which weights that the driver refused are sent again; a missing stick may have returned.
Uncritical."""


class MatrixState(Enum):
    """The states of a MatrixClient."""

    LOADING = "waiting for the driver to load the model"
    PROBING = "asking how the model's weights are quantised"
    IDLE = "waiting for a matrix"
    SETTING = "setting the weights of the tiles"
    READY = "ready to multiply"
    MULTIPLYING = "multiplying"
    REFUSED = "the model or the matrix was refused"
    CLOSED = "closed"


@dataclass
class _Copy:
    """A copy of the model, for one tile."""

    client: ModelClient
    tile: Tile | None = None
    """The tile whose weights the driver holds for it."""
    ignored: str = ""
    """The initial problem of its client, "looking for the driver", which another copy has already found."""

    @property
    def problem(self) -> str:
        """Why the model cannot run; empty if it can, as far as is known."""
        return "" if self.client.problem == self.ignored else self.client.problem

    def holds(self, tile: Tile) -> bool:
        """Whether it is ready to multiply by this tile."""
        return self.tile is tile and self.client.ready


@dataclass
class _Change:
    """A matrix that is still to be planned."""

    matrix: NDArray[np.floating]
    rows: set[int] | None
    """Rows that differ from the planned matrix; None for all."""


@dataclass(frozen=True)
class _Refusal:
    """An error of the driver, or of the plan, that would recur if the matrix were set again at once."""

    error: EdgeTpuError
    until: float = inf
    """Monotonic time, s, at which the matrix is sent again."""


class MatrixClient:
    """One matrix on one driver: a copy of a Dense model, with its own name, for each of its tiles.

    Whenever the driver has lost the models, they are loaded and their weights set again; no call blocks. All
    calls and callbacks belong to the thread of the node's executor.

    model: as for ~/load_model. name: of the copies on the driver, each followed by its number.
    headroom: see `matrix.scaling`. passes: repetitions that average out rounding. on_ready: called each time
    the matrix has been set.
    """

    def __init__(
        self,
        node: Node,
        model: str,
        *,
        name: str,
        driver: str | Sequence[str] = "edgetpu",
        headroom: float = OUTPUT_HEADROOM,
        rescale_rows: bool = False,
        passes: int = 1,
        on_ready: Callable[[], None] | None = None,
    ) -> None:
        self._node, self._model, self._name, self._driver = node, model, name, driver
        self._options, self._passes = PlanOptions(rescale_rows, headroom=headroom), passes
        self._on_ready = on_ready
        self.state = MatrixState.LOADING
        self._dense: DenseModel | None = None
        self._probed = False
        """Whether it is known how the weights of the present copies are quantised."""
        self._plan: MatrixPlan | None = None
        self._change: _Change | None = None
        self._matrix: NDArray[np.floating] | None = None
        self._product: ProductInProgress | None = None
        self._finished: Callable[[], None] | None = None
        """Passes the result of a product that has just ended to the caller."""
        self._refusal: _Refusal | None = None
        self._logged = ""
        """The refusal that was logged last."""
        self._stepping = False
        self._copies: list[_Copy] = []
        self._add_copy()
        # Simulated time may stand still; a lost device is a matter of real time.
        self._timer = create_steady_timer(node, RETRY_PERIOD, self._step)

    @property
    def ready(self) -> bool:
        """Whether the matrix is set, as far as known, and no product is in progress."""
        return self.state is MatrixState.READY and self._next_state() is MatrixState.READY

    @property
    def refusal(self) -> EdgeTpuError | None:
        """Why the model or the matrix was refused; setting it again at once would not help."""
        return None if self._refusal is None else self._refusal.error

    @property
    def problem(self) -> str:
        """Why the matrix cannot be set at present, in one line; else empty."""
        if self._refusal is not None:
            return str(self._refusal.error)
        # Copies that only a larger matrix needed get no requests, which would show that they work again.
        needed = len(self._copies) if self._plan is None else max(1, len(self._plan.tiles))
        return next((copy.problem for copy in self._copies[:needed] if copy.problem), "")

    @property
    def effective(self) -> NDArray[np.float64]:
        """The matrix after rounding, [rows, columns]; [0, 0] until it has been planned for the model."""
        return self._plan.effective if self._plan is not None else np.zeros((0, 0))

    def set_matrix(self, matrix: NDArray[np.floating], changed: Collection[int] | None = None) -> None:
        """Multiply by this matrix, float [rows, columns], as soon as it is set.

        changed: the rows that differ from the previous matrix; None for all.
        """
        rows = None if changed is None else set(changed)
        if self._change is not None:
            rows = None if rows is None or self._change.rows is None else rows | self._change.rows
        self._matrix, self._change = matrix, _Change(matrix, rows)
        if self._dense is not None:
            self._refusal = None
        self._step()

    def multiply(self, vector: ArrayLike, done: Callable[[ProductResult], None]) -> bool:
        """Multiply the matrix by a vector, float [columns]; `done` gets the product or the error, once.

        Returns False, and never calls `done`, unless the client is `ready`; `done` is called by the node's
        executor. Raises InputError for anything but a vector of finite numbers.
        """
        if not self.ready or self._plan is None:
            return False
        values = self._plan.checked_vector(vector)
        computation = product_passes.multiply(self._plan, values[np.newaxis], self._passes)
        self._product = ProductInProgress(computation, done, next(computation))
        self._step()
        return True

    def close(self) -> None:
        """Stop looking for the driver; a product in progress ends with an error."""
        if self.state is MatrixState.CLOSED:
            return
        self._node.destroy_timer(self._timer)
        for copy in self._copies:
            copy.client.close()
        self.state = MatrixState.CLOSED

    def _step(self) -> None:
        """Act on the present state until nothing more can be done, and make the callbacks that are due."""
        if self._refusal is not None and time.monotonic() >= self._refusal.until:
            self._refusal = None
        while not self._stepping and (callback := self._advance()) is not None:
            callback()

    def _advance(self) -> Callable[[], None] | None:
        """Enter the state that follows from what is known, and act in it, over and over.

        Returns the first callback that is due, which may call this client again; None if none is due.
        """
        actions = {
            MatrixState.PROBING: self._probe,
            MatrixState.SETTING: self._set_tiles,
            MatrixState.MULTIPLYING: self._send_requests,
        }
        self._stepping = True
        try:
            while True:
                previous, self.state = self.state, self._next_state()
                if self._finished is not None:
                    finished, self._finished = self._finished, None
                    return finished
                ready_again = previous not in (MatrixState.READY, MatrixState.MULTIPLYING)
                if self.state is MatrixState.READY and ready_again and self._on_ready is not None:
                    return self._on_ready
                acted = actions[self.state]() if self.state in actions else False
                if not acted and self._next_state() is self.state:
                    return None
        finally:
            self._stepping = False

    def _next_state(self) -> MatrixState:
        if self.state is MatrixState.CLOSED:
            return MatrixState.CLOSED
        if self._product is not None:
            return MatrixState.MULTIPLYING
        if self._refusal is not None:
            return MatrixState.REFUSED
        if not self._copies[0].client.ready:
            return MatrixState.LOADING
        if not self._probed:
            return MatrixState.PROBING
        if self._matrix is None:
            return MatrixState.IDLE
        return MatrixState.READY if self._all_set() else MatrixState.SETTING

    def _all_set(self) -> bool:
        """Whether every tile is set, on a driver that can be reached."""
        if self._change is not None or self._plan is None:
            return False
        tiles = self._plan.tiles
        return len(tiles) <= len(self._copies) and all(self._copies[tile.index].holds(tile) for tile in tiles)

    def _add_copy(self) -> None:
        index = len(self._copies)
        client = ModelClient(
            self._node,
            self._model,
            name=f"{self._name}/{index}",
            driver=self._driver,
            on_ready=functools.partial(self._on_loaded, index),
        )
        self._copies.append(_Copy(client, ignored=client.problem if index else ""))

    def _on_loaded(self, index: int) -> None:
        """Note that a model has been loaded, perhaps again: it may have lost the weights that were set."""
        copy = self._copies[index]
        copy.tile = None
        if index == 0:
            self._refusal, self._probed = None, False
            try:
                check_tensors(copy.client.inputs, copy.client.outputs)
            except ModelUnsupportedError as error:
                self._refuse(ModelUnsupportedError(f"model '{self._model}': {error}"))
        self._step()

    def _probe(self) -> bool:
        """Set zeros on the first copy, to learn from the answer how its weights are quantised."""
        client = self._copies[0].client
        weights = np.zeros((prod(client.outputs[0].shape), 1), np.float32)
        client.set_weights(WeightRequest(weights), self._on_probed)
        return False

    def _on_probed(self, result: WeightResult | EdgeTpuError) -> None:
        copy = self._copies[0]
        copy.tile = None
        if isinstance(result, EdgeTpuError):
            self._on_error(copy, result)
            return
        tensor = WeightTensor(
            "",
            "FULLY_CONNECTED",
            result.shape,
            result.row_scales,
            is_pure_matmul=result.is_pure_matmul,
            dtype=result.dtype,
            zero_point=result.zero_point,
        )
        try:
            dense = DenseModel.of(copy.client.inputs, copy.client.outputs, tensor)
        except ModelUnsupportedError as error:
            self._refuse(ModelUnsupportedError(f"model '{self._model}': {error}"))
            return
        if self._dense is None or not self._dense.multiplies_like(dense):
            self._dense, self._plan = dense, None
            if self._matrix is not None:
                self._change = _Change(self._matrix, None)
        self._probed = True
        self._step()

    def _set_tiles(self) -> bool:
        """Plan a new matrix, and send the weights of one tile; returns whether there may be more to send."""
        if self._change is not None and not self._make_plan(self._change):
            return False
        assert self._plan is not None
        tiles = self._plan.tiles
        if len(self._copies) < len(tiles) and sum(not copy.client.ready for copy in self._copies) < AT_ONCE:
            self._add_copy()
            return True
        for tile in tiles[: len(self._copies)]:
            copy = self._copies[tile.index]
            if sum(each.client.busy for each in self._copies) >= AT_ONCE:
                return False
            if copy.holds(tile) or copy.client.busy:
                continue
            answered = functools.partial(self._on_weights, copy, tile)
            request = WeightRequest(tile.model_weights, rescale_rows=self._options.rescale_rows)
            if copy.client.set_weights(request, answered):
                return copy.holds(tile) or copy.client.busy
        return False

    def _make_plan(self, change: _Change) -> bool:
        assert self._dense is not None
        try:
            plan = make_plan(change.matrix, self._dense, self._options, self._plan, change.rows)
            if len(plan.tiles) > MOST_TILES:
                raise InputError(
                    f"expected a matrix of at most {MOST_TILES} tiles of the size of model '{self._model}', "
                    f"{self._dense.rows} x {self._dense.columns}; got {plan.shape[0]} x {plan.shape[1]}"
                )
        except InputError as error:
            self._refuse(error)
            return False
        self._plan, self._change = plan, None
        return True

    def _on_weights(self, copy: _Copy, tile: Tile, result: WeightResult | EdgeTpuError) -> None:
        if isinstance(result, EdgeTpuError):
            copy.tile = None
            self._on_error(copy, result)
        else:
            copy.tile = tile
            self._step()

    def _on_error(self, copy: _Copy, error: EdgeTpuError) -> None:
        """Wait before repeating what was refused; after other errors, repeat it soon."""
        if copy.client.ready and isinstance(error, (InputError, ModelUnsupportedError)):
            self._refuse(error, time.monotonic() + REFUSAL_PERIOD)

    def _refuse(self, error: EdgeTpuError, until: float = inf) -> None:
        self._refusal = _Refusal(error, until)
        if str(error) != self._logged:
            self._logged = str(error)
            self._node.get_logger().error(f"the matrix cannot be set: {error}")

    def _send_requests(self) -> bool:
        """Send requests of the product in progress; return whether a round, or all of it, has ended."""
        product = self._product
        assert product is not None
        while product.in_flight < AT_ONCE and (request := product.next) is not None:
            copy = self._copies[request.tile.index]
            if copy.client.busy:
                break  # with another request of this round
            answered = functools.partial(self._on_output, product, product.sent, request)
            product.sent += 1
            inputs = {request.tile.dense.input.name: request.inputs}
            if not copy.holds(request.tile) or not copy.client.invoke(inputs, answered):
                reason = copy.client.problem or "the driver has lost the weights"
                answered(InferenceResult(error=UnavailableError(reason)))
        if not product.round_ended:
            return False
        if (result := product.end_round()) is not None:
            self._product = None
            self._finished = functools.partial(product.done, result)
        return True

    def _on_output(
        self, product: ProductInProgress, index: int, request: TileRequest, result: InferenceResult
    ) -> None:
        product.answered += 1
        if result.error is not None:
            product.error = product.error or result.error
        else:
            product.outputs[index] = result.outputs[request.tile.dense.output.name]
        self._step()
