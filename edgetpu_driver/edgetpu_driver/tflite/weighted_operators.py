"""Finds the weights of a graph's matrices and convolutions."""

from __future__ import annotations

from collections.abc import Iterator

from edgetpu_driver.tflite.model_reader import Subgraph, Tensor

WEIGHTED = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
_WEIGHT_OPERANDS = slice(1, 3)  # weights, bias


def weights_and_biases(graph: Subgraph) -> Iterator[Tensor]:
    """The constant weights and biases of a graph's operators, in order; shared ones are repeated."""
    for operator in graph.operators:
        if operator.name in WEIGHTED:
            for index in operator.inputs[_WEIGHT_OPERANDS]:
                if index >= 0 and graph.tensors[index].data:
                    yield graph.tensors[index]
