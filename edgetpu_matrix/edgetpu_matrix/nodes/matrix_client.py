"""A real matrix on the driver, for one node: weights of models of its own, multiplied asynchronously."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from rclpy.node import Node

from edgetpu_driver.errors import EdgeTpuError, InputError, ModelUnsupportedError, UnavailableError
from edgetpu_driver.host.inference_result import InferenceResult
from edgetpu_driver.node_kit.model_client import ModelClient
from edgetpu_driver.weights.replacement import WeightResult
from edgetpu_matrix.scaling import DenseModel
from edgetpu_matrix.tiles import RealProduct, Tile, TiledMatrix, TileRequest

MOST_TILES = 256
"""Copies of the model that one matrix may take."""

AT_ONCE = 4
"""Requests under way at a time: a service queues ten, those of all nodes, and loses what comes then."""

RETRY_PERIOD = 1.0
"""Seconds between two looks at whether weights are still to be set."""


@dataclass(frozen=True)
class ProductResult:
    """The product of one request, or why there is none."""

    product: RealProduct | None = None
    error: EdgeTpuError | None = None


@dataclass
class _Copy:
    """The model of one tile."""

    client: ModelClient
    tile: Tile | None = None
    """Whose weights are in force."""
    excused: str = ""
    """The problem that its client has before it has looked for the driver; the first one has found it."""

    @property
    def problem(self) -> str:
        """What keeps the model from running; empty when nothing is known to."""
        return "" if self.client.problem == self.excused else self.client.problem

    def holds(self, tile: Tile) -> bool:
        """Whether it is ready to multiply by this tile."""
        return self.tile is tile and self.client.ready


@dataclass
class _Product:
    requests: list[TileRequest]
    done: Callable[[ProductResult], None]
    begun: int = 0
    """Requests that were sent."""
    outputs: dict[int, NDArray[Any]] = field(default_factory=dict)
    """By the places of the requests."""
    errors: list[EdgeTpuError] = field(default_factory=list)

    @property
    def under_way(self) -> int:
        """Requests that are not answered yet."""
        return self.begun - len(self.outputs) - len(self.errors)

    @property
    def next(self) -> TileRequest | None:
        """The request to send next; None when there is none, or no sense in it."""
        if self.errors or self.begun == len(self.requests):
            return None
        return self.requests[self.begun]


class MatrixClient:
    """One matrix on one driver: a copy of a Dense model, under a name of its own, for each of its tiles.

    Whenever the driver lost the models, they are loaded and set again; nothing here ever blocks. All calls
    and callbacks belong to the thread of the node's executor.

    model: what ~/load_model takes. name: what the copies are called there, each with its number behind it.
    headroom: see `scaling.fit`. passes: see `TiledMatrix.requests`. on_ready: called each time the matrix has
    come into force.
    """

    def __init__(
        self,
        node: Node,
        model: str,
        *,
        name: str,
        driver: str = "edgetpu",
        headroom: float | None = None,
        rescale_rows: bool = False,
        passes: int = 1,
        on_ready: Callable[[], None] | None = None,
    ) -> None:
        self._node, self._model, self._name, self._driver = node, model, name, driver
        self._crest, self._rescale_rows, self._passes = headroom, rescale_rows, passes
        self._on_ready = on_ready
        self._matrix: NDArray[np.floating] | None = None
        self._assigned = False
        self._stale: set[int] | None = None
        self._row_scales: NDArray[np.floating] | None = None
        self._tiled: TiledMatrix | None = None
        self._product: _Product | None = None
        self._refusal = ""
        self._settling = self._announced = self._pumping = False
        self._copies: list[_Copy] = []
        self._add_copy()
        # A device that is gone for a moment is a matter of real time.
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._timer = node.create_timer(RETRY_PERIOD, self._settle, clock=steady)

    @property
    def ready(self) -> bool:
        """Whether the matrix is in force, as far as known, and no product is under way."""
        return self._settled() and self._product is None

    @property
    def problem(self) -> str:
        """Why the matrix cannot come into force now; one line, else empty."""
        return self._refusal or next((copy.problem for copy in self._copies if copy.problem), "")

    @property
    def effective(self) -> NDArray[np.float64]:
        """The matrix as it was rounded; empty until the model is known."""
        return self._tiled.effective if self._tiled is not None else np.zeros((0, 0))

    def set_matrix(self, matrix: NDArray[np.floating], changed: Collection[int] | None = None) -> None:
        """Multiply by this matrix, float [rows, columns], as soon as it is in force.

        changed: the rows that differ from the matrix before; None for all.
        """
        self._matrix, self._assigned = matrix, False
        if self._tiled is not None:
            self._refusal = ""
        if changed is None:
            self._stale = None
        elif self._stale is not None:
            self._stale |= {*changed}
        self._settle()

    def multiply(self, vector: ArrayLike, done: Callable[[ProductResult], None]) -> bool:
        """Multiply the matrix by a vector, float [columns]; `done` gets the product or the error, once.

        Returns False, and never calls `done`, when a product is under way or the matrix is not in force.
        With a driver in the same process `done` is called before this method returns. Raises InputError for
        what is no vector of finite numbers.
        """
        if not self.ready or self._tiled is None:
            return False
        self._product = _Product(self._tiled.requests(vector, self._passes), done)
        self._pump()
        return True

    def close(self) -> None:
        """Stop looking for the driver; a product under way ends with an error."""
        self._node.destroy_timer(self._timer)
        for copy in self._copies:
            copy.client.close()

    def _settled(self) -> bool:
        """Whether every tile is in force on a driver that is there."""
        if not self._assigned or self._tiled is None:
            return False
        tiles = self._tiled.tiles
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
        self._copies.append(_Copy(client, excused=client.problem if index else ""))

    def _on_loaded(self, index: int) -> None:
        """Learn what the model of a tile spans; whatever weights it had may be gone."""
        copy = self._copies[index]
        copy.tile = None
        self._announced = False
        if index == 0:
            try:
                dense = DenseModel.of(copy.client.inputs, copy.client.outputs)
            except ModelUnsupportedError as error:
                self._refusal = f"model '{self._model}': {error}"
                return
            self._refusal = ""
            if self._tiled is None or dense != self._tiled.dense:
                self._tiled = TiledMatrix(dense, self._crest)
                self._row_scales, self._stale, self._assigned = None, None, False
        self._settle()

    def _settle(self) -> None:
        """Do what is still to be done to have every tile in force; tell when it is."""
        if self._settling or self._product is not None:
            return  # the loop below, or the end of the product, looks at everything anyway
        self._settling = True
        try:
            while self._send():
                pass
        finally:
            self._settling = False
        if self._settled() and not self._announced:
            self._announced = True
            if self._on_ready is not None:
                self._on_ready()

    def _send(self) -> bool:
        """Send one request for weights, if one is to be sent; whether to look again at once."""
        if self._tiled is None or self._matrix is None or self._refusal:
            return False
        if self._row_scales is None and not self._rescale_rows:
            client, weights = self._copies[0].client, self._tiled.dense.any_weights
            return client.set_weights(weights, self._on_row_scales) and not client.busy
        if not self._assigned:
            self._assign(self._tiled, self._matrix)
        if len(self._copies) < len(self._tiled.tiles):
            loading = sum(not copy.client.ready for copy in self._copies)
            if loading < AT_ONCE:
                self._add_copy()
                return True
        for tile in self._tiled.tiles[: len(self._copies)]:
            copy = self._copies[tile.index]
            if sum(each.client.busy for each in self._copies) >= AT_ONCE:
                return False
            if copy.holds(tile) or copy.client.busy:
                continue
            answered = functools.partial(self._on_weights, copy, tile)
            if copy.client.set_weights(tile.fitted.weights, answered, rescale_rows=self._rescale_rows):
                return True
        return False

    def _assign(self, tiled: TiledMatrix, matrix: NDArray[np.floating]) -> None:
        tiled.assign(matrix, self._row_scales, self._stale)
        self._stale, self._assigned, self._announced = set(), True, False
        if len(tiled.tiles) > MOST_TILES:
            self._refusal = (
                f"expected a matrix of at most {MOST_TILES} tiles of the size of model '{self._model}', "
                f"{tiled.dense.rows} x {tiled.dense.columns}; got {matrix.shape[0]} x {matrix.shape[1]}"
            )

    def _on_row_scales(self, result: WeightResult | EdgeTpuError) -> None:
        if isinstance(result, EdgeTpuError):
            self._on_refused(self._copies[0], result)
        else:
            self._row_scales = result.row_scales
            self._settle()

    def _on_weights(self, copy: _Copy, tile: Tile, result: WeightResult | EdgeTpuError) -> None:
        if isinstance(result, EdgeTpuError):
            self._on_refused(copy, result)
        else:
            copy.tile = tile
            self._settle()

    def _on_refused(self, copy: _Copy, error: EdgeTpuError) -> None:
        """Try again when the model has been loaded anew, or after a while; what is refused stays so."""
        if copy.client.ready and isinstance(error, (InputError, ModelUnsupportedError)):
            self._refusal = str(error)
            self._node.get_logger().error(f"the matrix cannot be set: {error}")

    def _pump(self) -> None:
        """Send what may be sent of the product under way; end it when all is answered."""
        product = self._product
        if product is None or self._pumping:
            return  # the loop below looks at everything anyway
        self._pumping = True
        while product.under_way < AT_ONCE and (request := product.next) is not None:
            client = self._copies[request.tile].client
            if client.busy:
                break  # with the pass before
            answered = functools.partial(self._on_answer, product, product.begun)
            product.begun += 1
            inputs = {spec.name: request.tensor(spec) for spec in client.inputs}
            if not client.ready or not client.invoke(inputs, answered):
                answered(InferenceResult(error=UnavailableError(client.problem)))
        self._pumping = False
        if product.under_way or product.next is not None:
            return
        self._product = None
        assert self._tiled is not None
        if product.errors:
            product.done(ProductResult(error=product.errors[0]))
        else:
            outputs = [product.outputs[place] for place in range(len(product.requests))]
            product.done(ProductResult(self._tiled.combine(product.requests, outputs)))
        self._settle()

    def _on_answer(self, product: _Product, place: int, result: InferenceResult) -> None:
        request = product.requests[place]
        client = self._copies[request.tile].client
        if result.error is not None:
            product.errors.append(result.error)
        else:
            output = client.outputs[0]
            array = result.outputs[output.name]
            product.outputs[place] = request.outputs(array, client.inputs[0], output)
        self._pump()
