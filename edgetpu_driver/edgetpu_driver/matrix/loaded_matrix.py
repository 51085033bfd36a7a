"""The matrix of a loaded model, by which the driver's ~/matmul multiplies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.engines.divisible_work import Pieces
from edgetpu_driver.engines.protocol import SwappableEngine
from edgetpu_driver.errors import InputError
from edgetpu_driver.matrix.matmul import MatMul, Product
from edgetpu_driver.weights.weight_request import WeightRequest, WeightResult


def needs_tiles(engine: SwappableEngine, request: WeightRequest) -> bool:
    """Whether the weights are a matrix larger than the Dense model's own; raises as `weight_tensor` does."""
    if request.weights.ndim != 2:
        return False
    tensor = engine.weight_tensor(request.tensor)
    rows, columns = request.weights.shape
    return tensor.is_pure_matmul and (rows > tensor.shape[0] or columns > tensor.shape[1])


@dataclass(frozen=True)
class ProductRequest:
    """What to multiply by the weights of a model; see MatMul.multiply."""

    inputs: NDArray[np.floating[Any]]
    """[columns], or [batch, columns] in any shape."""
    batch: int = 1
    """Number of vectors."""
    input_scale: float | None = None
    accept_clipping: bool = False
    passes: int = 1

    def applying(self, matmul: MatMul) -> Pieces[Product]:
        """Multiply. Raises InputError if the number of values is not a multiple of the batch."""
        if not self.inputs.size or self.inputs.size % self.batch:
            raise InputError(
                f"expected inputs for a batch of {self.batch} vectors; got {self.inputs.size} values"
            )
        return (
            yield from matmul.multiplying(
                self.inputs if self.batch == 1 else self.inputs.reshape(self.batch, -1),
                input_scale=self.input_scale,
                accept_clipping=self.accept_clipping,
                passes=self.passes,
            )
        )


class LoadedMatrix:
    """The matrix of one loaded model, until the device is closed.

    Products with replaced weights run on separate engines: MatMul applies a gain to every row, while
    inferences of the model itself return outputs without gains.
    """

    def __init__(self, engine: SwappableEngine, engine_factory: Callable[[], SwappableEngine]) -> None:
        """engine_factory: makes more engines. Raises ModelUnsupportedError if the model is not Dense."""
        self.engine = engine
        self._of_file = MatMul(engine)
        self._engine_factory = engine_factory
        self._replaced: MatMul | None = None
        self._request: WeightRequest | None = None
        """The weights that `_replaced` multiplies by."""

    def setting_weights(self, request: WeightRequest) -> Pieces[WeightResult]:
        """Set weights on the separate engines, in as many tiles as needed; see MatMul.set_weights."""
        if self._replaced is None:
            engine = yield self._engine_factory
            self._replaced = MatMul(engine, engine_factory=self._engine_factory)
        result = yield from self._replaced.setting_weights(
            request.weights, accept_clipping=request.accept_clipping, rescale_rows=request.rescale_rows
        )
        self._request = request
        return result

    def holds(self, weights: WeightRequest | None) -> bool:
        """Whether `multiplying` by these weights needs no `holding` before."""
        return weights is None or self._request is weights

    def holding(self, weights: WeightRequest | None) -> Pieces[None]:
        """Set weights unless they are held already; raises as MatMul.set_weights."""
        if weights is not None and self._request is not weights:
            yield from self.setting_weights(weights)

    def multiplying(self, product: ProductRequest, weights: WeightRequest | None) -> Pieces[Product]:
        """Multiply by weights that are held; None: by the weights of the file."""
        matmul = self._of_file if weights is None else self._replaced
        assert matmul is not None
        return (yield from product.applying(matmul))
