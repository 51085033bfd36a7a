"""Counts the multiply-accumulate operations (MACs) of a graph's layers."""

from __future__ import annotations

from math import prod

from edgetpu_driver.tflite.model_reader import Operator, Subgraph


def multiplications(graph: Subgraph) -> int:
    """Count the multiplications of all operators of a graph; see `operator_multiplications`."""
    return sum(operator_multiplications(graph, operator) for operator in graph.operators)


def operator_multiplications(graph: Subgraph, operator: Operator) -> int:
    """Count the multiplications of one operator, from its shapes; a shape missing in the file counts as 1.

    Counts convolutions, fully connected layers, products of matrices and LSTM layers; 0 for all other
    operators.
    """

    def shape(position: int) -> tuple[int, ...]:
        index = operator.inputs[position] if position < len(operator.inputs) else -1
        return graph.tensors[index].shape if index >= 0 else ()

    result = prod(graph.tensors[operator.outputs[0]].shape) if operator.outputs else 0
    if operator.name in ("CONV_2D", "CONV_3D"):
        weights = shape(1)
        return result * prod(weights[1:] if operator.name == "CONV_2D" else weights[:-1])
    if operator.name == "DEPTHWISE_CONV_2D":
        return result * prod(shape(1)[1:3])
    if operator.name == "TRANSPOSE_CONV":  # weights [out, kh, kw, in], operand 2 is the input
        return prod(shape(2)) * prod(shape(1)[:3])
    if operator.name == "FULLY_CONNECTED":
        rows, columns = (*shape(1), 1, 1)[:2]
        return prod(shape(0)) // max(columns, 1) * rows * columns
    if operator.name == "BATCH_MATMUL" and result:
        inner = prod(shape(0)[-2:]) // (graph.tensors[operator.outputs[0]].shape[-2:] or (1,))[0]
        return result * inner
    if operator.name in ("LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM"):
        matrices = sum(prod(shape(position)) for position in range(1, 9))
        steps = prod(shape(0)[:-1])
        return matrices * steps
    return 0
