"""A real matrix on engines of this process: set once, multiplied by many vectors."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgetpu_driver.engines.protocol import SwappableEngine
from edgetpu_driver.errors import InputError
from edgetpu_driver.weights.replacement import WeightRequest
from edgetpu_matrix.reservoir.host_subspace import DIRECTIONS, HostSubspace
from edgetpu_matrix.scaling import DenseModel
from edgetpu_matrix.tiles import RealProduct, Tile, TiledMatrix


class EngineMatrix:
    """A matrix, float [rows, columns], of any size on one or more engines that run the same Dense model.

        matrix = EngineMatrix([CpuEngine("dense_256.tflite")])
        matrix.set(weights)
        outputs = matrix.multiply(vector).outputs

    The engines are its own: nobody else may set their weights. With as many of them as tiles the weights stay
    where they are; with fewer they are swapped for every product. headroom: see `scaling.fit`. rescale_rows:
    rewrite the model's multipliers with the weights. host_directions: of what the vectors have in common that
    many directions are multiplied on the host, see `HostSubspace`; 0: none. By default, with a headroom,
    which is for the states of one network, those of `HostSubspace`, else none. Raises ModelUnsupportedError
    when the model is not a Dense one.
    """

    def __init__(
        self,
        engines: Sequence[SwappableEngine],
        *,
        headroom: float | None = None,
        rescale_rows: bool = False,
        host_directions: int | None = None,
    ) -> None:
        if not engines:
            raise InputError("expected at least one engine; got none")
        self._engines = engines
        self._rescale_rows = rescale_rows
        self._directions = (DIRECTIONS if headroom else 0) if host_directions is None else host_directions
        self._common: HostSubspace | None = None
        self._tiled = TiledMatrix(DenseModel.of(engines[0].inputs, engines[0].outputs), headroom)
        self._held: list[Tile | None] = [None] * len(engines)
        self._row_scales: NDArray[np.float32] | None = None
        if not rescale_rows:
            self._row_scales = engines[0].set_weights(WeightRequest(self._tiled.dense.any_weights)).row_scales

    @property
    def effective(self) -> NDArray[np.float64]:
        """The matrix as it was rounded, [rows, columns]."""
        return self._tiled.effective

    def set(self, matrix: ArrayLike, changed: Collection[int] | None = None) -> None:
        """Multiply by this matrix from now on. changed: the rows that differ from the one before; None: all.

        Raises InputError for what is no matrix of finite numbers, DeviceError.
        """
        self._tiled.assign(matrix, self._row_scales, changed)
        for tile in self._tiled.tiles[: len(self._engines)]:
            self._hold(tile)
        self._common = HostSubspace(self.effective, self._directions) if self._directions else None

    def multiply(self, vector: ArrayLike, passes: int = 1) -> RealProduct:
        """Multiply it by a vector, float [columns]; InputError for any other, DeviceError.

        passes: repetitions that average out what rounding takes from inputs and outputs.
        """
        if self._common is None:
            return self._multiply(vector, passes)
        whole = self._tiled.check(vector)
        split = self._common.split(whole)
        product = self._multiply(split.rest, passes)
        return replace(
            product,
            outputs=product.outputs + split.product,
            inputs=product.inputs + (whole - split.rest),
        )

    def _multiply(self, vector: ArrayLike, passes: int) -> RealProduct:
        requests = self._tiled.requests(vector, passes)
        products = []
        for request in requests:
            engine = self._hold(self._tiled.tiles[request.tile])
            given, result = engine.inputs[0], engine.outputs[0]
            array = engine.run({given.name: request.tensor(given)})[result.name]
            products.append(request.outputs(array, given, result))
        return self._tiled.combine(requests, products)

    def _hold(self, tile: Tile) -> SwappableEngine:
        """Have the engine of a tile hold its weights."""
        place = tile.index % len(self._engines)
        engine = self._engines[place]
        if self._held[place] is not tile:
            self._held[place] = None
            engine.set_weights(WeightRequest(tile.fitted.weights, rescale_rows=self._rescale_rows))
            self._held[place] = tile
        return engine
