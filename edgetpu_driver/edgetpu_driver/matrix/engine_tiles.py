"""The executor of plans on engines of this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import NDArray

from edgetpu_driver.engines.protocol import SwappableEngine
from edgetpu_driver.matrix.plan import MatrixPlan, Tile
from edgetpu_driver.matrix.products import ProductBatch, Products, TileRequest
from edgetpu_driver.weights.weight_request import WeightResult


class EngineTiles:
    """Engines of one Dense model that hold the tiles of a plan.

    Where there are fewer engines than tiles, and no factory makes more, tiles take turns on an engine.
    The engines are its own: nothing else may set their weights. loaded: the tile whose weights the first
    engine was loaded with, if any.
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
        """Set the weights of as many tiles as have an engine; those that were set, and what that did.

        Tiles that are held already are left alone. Raises what SwappableEngine.set_weights raises.
        """
        if self._engine_factory is not None:
            while len(self.engines) < len(plan.tiles):
                self.engines.append(self._engine_factory())
                self._held.append(None)
        # The first comes last: until then its engine holds the weights of the file, which nothing else does.
        swaps = [(tile, self._set(tile)) for tile in reversed(plan.tiles[: len(self.engines)])]
        return [(tile, swap) for tile, swap in swaps if swap is not None]

    def run(self, products: Products) -> ProductBatch:
        """Run the requests of `products.multiply`. Raises DeviceError."""
        outputs: list[NDArray[Any]] | None = None
        while True:
            try:
                requests = next(products) if outputs is None else products.send(outputs)
            except StopIteration as finished:
                batch: ProductBatch = finished.value
                return batch
            outputs = [self._output(request) for request in requests]

    def _output(self, request: TileRequest) -> NDArray[Any]:
        tile, dense = request.tile, request.tile.dense
        if self._held[tile.index % len(self.engines)] is not tile:
            self._set(tile)
        engine = self.engines[tile.index % len(self.engines)]
        return engine.run({dense.input.name: request.inputs})[dense.output.name]

    def _set(self, tile: Tile) -> WeightResult | None:
        """Have the engine of a tile hold its weights; None where it does already."""
        index = tile.index % len(self.engines)
        if self._held[index] is tile:
            return None
        swap = self.engines[index].set_weights(tile.request)
        self._held[index] = tile
        return swap
