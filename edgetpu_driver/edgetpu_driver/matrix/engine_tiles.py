"""The tiles of a planned matrix on engines in this process, which execute the plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from numpy.typing import NDArray

from edgetpu_driver.engines.divisible_work import Pieces, run_pieces
from edgetpu_driver.engines.protocol import SwappableEngine
from edgetpu_driver.matrix.product_passes import ProductBatch, Products, Requests, TileRequest
from edgetpu_driver.matrix.tile_plan import MatrixPlan, Tile
from edgetpu_driver.weights.weight_request import WeightRequest, WeightResult


class EngineTiles:
    """Engines of one Dense model that hold the tiles of a plan.

    If there are fewer engines than tiles, and no factory makes more, tiles take turns on an engine. Nothing
    else may set the weights of the engines. loaded: the tile whose weights the first engine was loaded with,
    if any.
    """

    def __init__(
        self,
        engines: Sequence[SwappableEngine],
        engine_factory: Callable[[], SwappableEngine] | None = None,
        loaded: Tile | None = None,
    ) -> None:
        self.engines = list(engines)
        self._engine_factory = engine_factory
        self._held: list[Tile | None] = [loaded, *[None] * (len(self.engines) - 1)]

    def hold(self, plan: MatrixPlan) -> list[tuple[Tile, WeightResult]]:
        """Do all pieces of `holding`."""
        return run_pieces(self.holding(plan))

    def run(self, products: Products) -> ProductBatch:
        """Do all pieces of `running`."""
        return run_pieces(self.running(products))

    def holding(self, plan: MatrixPlan) -> Pieces[list[tuple[Tile, WeightResult]]]:
        """Set the weights of as many tiles as there are engines; returns each tile set, and its result.

        Tiles that are already held are left alone. Raises what SwappableEngine.set_weights raises.
        """
        if self._engine_factory is not None:
            while len(self.engines) < len(plan.tiles):
                self.engines.append((yield self._engine_factory))
                self._held.append(None)
        swaps = []
        # The first tile comes last: until then its engine alone still holds the weights of the file.
        for tile in reversed(plan.tiles[: len(self.engines)]):
            if self._held[tile.index] is not tile:
                swaps.append((tile, (yield from self._set(tile))))
                yield None
        return swaps

    def running(self, products: Products, *, large: bool = True) -> Pieces[ProductBatch]:
        """Run the requests of `product_passes.multiply`. Raises DeviceError.

        large: do the arithmetic between rounds in pieces of its own, because it takes long.
        """
        outputs: list[NDArray[Any]] | None = None
        while True:
            requests = (yield partial(_advance, products, outputs)) if large else _advance(products, outputs)
            if isinstance(requests, ProductBatch):
                return requests
            outputs = []
            for request in requests:
                if outputs:
                    yield None
                outputs.append((yield from self._output(request)))

    def _output(self, request: TileRequest) -> Pieces[NDArray[Any]]:
        tile, dense = request.tile, request.tile.dense
        if self._held[tile.index % len(self.engines)] is not tile:
            yield from self._set(tile)
        engine = self.engines[tile.index % len(self.engines)]
        return engine.run({dense.input.name: request.inputs})[dense.output.name]

    def _set(self, tile: Tile) -> Pieces[WeightResult]:
        """Set a tile's weights on its engine."""
        index = tile.index % len(self.engines)
        commit = yield partial(_prepare, self.engines[index], tile.request)
        swap: WeightResult = commit()
        self._held[index] = tile
        return swap


def _prepare(engine: SwappableEngine, request: WeightRequest) -> Callable[[], WeightResult]:
    """Prepare weights as AttachedEngine does; other engines do all the work when the result is called."""
    prepare = getattr(engine, "prepare_weights", None)
    return partial(engine.set_weights, request) if prepare is None else prepare(request)


def _advance(products: Products, outputs: list[NDArray[Any]] | None) -> Requests | ProductBatch:
    """The next requests, or the result."""
    try:
        return next(products) if outputs is None else products.send(outputs)
    except StopIteration as finished:
        batch: ProductBatch = finished.value
        return batch
