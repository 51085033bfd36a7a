"""Products with the weights of a loaded model: by the model itself, or by engines of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.engines.protocol import SwappableEngine
from edgetpu_driver.errors import InputError
from edgetpu_driver.matrix.matmul import MatMul, Product
from edgetpu_driver.weights.replacement import WeightRequest, WeightResult


def needs_tiles(engine: SwappableEngine, request: WeightRequest) -> bool:
    """Whether the weights are a larger matrix than that of a Dense model; raises as `weight_tensor`."""
    if request.weights.ndim != 2:
        return False
    tensor = engine.weight_tensor(request.tensor)
    rows, columns = request.weights.shape
    return tensor.is_pure_matmul and (rows > tensor.shape[0] or columns > tensor.shape[1])


def refuse_tiles(name: str, engine: SwappableEngine, request: WeightRequest | None) -> None:
    """InputError where the weights in effect are a matrix that no single inference multiplies by."""
    if request is not None and needs_tiles(engine, request):
        raise InputError(
            f"model '{name}' holds a matrix {list(request.weights.shape)} in tiles, which only "
            "~/matmul multiplies by"
        )


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

    def apply(self, matmul: MatMul) -> Product:
        """Multiply. Raises InputError where the number of values is no multiple of the batch."""
        if not self.inputs.size or self.inputs.size % self.batch:
            raise InputError(
                f"expected inputs for a batch of {self.batch} vectors; got {self.inputs.size} values"
            )
        return matmul.multiply(
            self.inputs if self.batch == 1 else self.inputs.reshape(self.batch, -1),
            input_scale=self.input_scale,
            accept_clipping=self.accept_clipping,
            passes=self.passes,
        )


class HostedMatrix:
    """What ~/matmul multiplies by, for one model on one opening of the device.

    Weights that were set take engines of their own: MatMul gives every row a gain, while inferences of the
    model itself are to give outputs without any.
    """

    def __init__(self, engine: SwappableEngine, engine_factory: Callable[[], SwappableEngine]) -> None:
        """ModelUnsupportedError when the model is not a Dense one."""
        self.engine = engine
        self._plain = MatMul(engine)
        self._engine_factory = engine_factory
        self._own: MatMul | None = None
        self._request: WeightRequest | None = None
        """What the own engines hold."""

    def set_weights(self, request: WeightRequest) -> WeightResult:
        """Put weights on the own engines, in as many tiles as it takes; see MatMul.set_weights."""
        if self._own is None:
            self._own = MatMul(self._engine_factory(), engine_factory=self._engine_factory)
        swap = self._own.set_weights(
            request.weights, accept_clipping=request.accept_clipping, rescale_rows=request.rescale_rows
        )
        self._request = request
        return swap

    def product(self, request: WeightRequest | None) -> MatMul:
        """What multiplies by the weights in effect; None: those of the file. Raises as MatMul.set_weights."""
        if request is None:
            return self._plain
        if self._request is not request:
            self.set_weights(request)
        assert self._own is not None
        return self._own
