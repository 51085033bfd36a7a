"""Finds the weights of a graph's matrices and convolutions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.tflite.model_reader import ABSENT, Operator, Subgraph, Tensor

WEIGHTED = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
_WEIGHT_OPERANDS = slice(1, 3)  # weights, bias


def weights_and_biases(graph: Subgraph) -> Iterator[Tensor]:
    """The constant weights and biases of a graph's operators, in order; shared ones are repeated."""
    for operator in graph.operators:
        if operator.name in WEIGHTED:
            for index in operator.inputs[_WEIGHT_OPERANDS]:
                if index >= 0 and graph.tensors[index].data:
                    yield graph.tensors[index]


def constant_bias(graph: Subgraph, operator: Operator, channels: int) -> NDArray[np.int32] | None:
    """The bias of an operator, int32[channels]; None if absent, ModelUnsupportedError if of another form."""
    index = operator.inputs[2] if len(operator.inputs) > 2 else ABSENT
    if index == ABSENT:
        return None
    bias = graph.tensors[index]
    if bias.dtype != np.int32 or bias.shape != (channels,) or not bias.data:
        raise ModelUnsupportedError(f"expected a constant bias int32[{channels}]; got {bias.spec}")
    return np.frombuffer(bias.data, np.int32)
