"""A weight matrix as the parameter bytes of a compiled Dense model."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.darwinn.parameters.dense import DenseLayout
from edgetpu_driver.errors import ModelUnsupportedError


def dense_parameters(model: CompiledModel, weights: NDArray[Any]) -> bytes:
    """The cached parameter bytes of a Dense model with other weights and the scales it was compiled with.

    weights: int8[outputs, inputs]. Raises InputError for another dtype or shape, ModelUnsupportedError for a
    model whose parameters are not those of one matrix.
    """
    layout = _layout(model)
    blob = np.frombuffer(model.caching.parameters if model.caching else b"", np.uint8).copy()
    layout.encode(weights, blob)
    return blob.tobytes()


def _layout(model: CompiledModel) -> DenseLayout:
    size = len(model.caching.parameters) if model.caching else 0
    if len(model.inputs) == len(model.outputs) == 1:
        layout = DenseLayout(prod(model.outputs[0].shape), prod(model.inputs[0].shape))
        if layout.size == size:
            return layout
    raise ModelUnsupportedError(
        f"expected a Dense model to take a weight matrix; '{model.name}' keeps {size} parameter bytes of "
        "another layout on the chip"
    )
