"""Counting the multiplications of a graph."""

from __future__ import annotations

import numpy as np
import pytest

from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.tflite.model_reader import Operator, Subgraph, Tensor, parse_model
from edgetpu_driver.tflite.multiplications import multiplications, operator_multiplications


def test_layers_with_weights_count_and_others_do_not() -> None:
    builder = GraphBuilder()
    x = builder.input("x", (1, 8, 6, 2), np.int8, scale=1, zero_point=0)
    full = builder.conv_2d(x, np.zeros((5, 3, 3, 2), np.int8), 1, stride=2, scale=1, zero_point=0)
    depth = builder.depthwise_conv_2d(full, np.zeros((1, 3, 3, 5), np.int8), 1, scale=1, zero_point=0)
    flat = builder.reshape(builder.add(depth, depth, scale=1, zero_point=0), (1, 60))
    builder.output(builder.fully_connected(flat, np.zeros((7, 60), np.int8), 1, scale=1, zero_point=0))
    graph = parse_model(builder.build()).subgraphs[0]
    counts = [operator_multiplications(graph, operator) for operator in graph.operators]
    assert counts == [4 * 3 * 5 * 3 * 3 * 2, 4 * 3 * 5 * 3 * 3, 0, 0, 7 * 60]
    assert multiplications(graph) == sum(counts)


@pytest.mark.parametrize(
    ("shapes", "count"),
    [([(2, 3), (3, 5), (2, 5)], 30), ([(0, 3), (3, 5), (0, 5)], 0), ([(2, 3), (3, 5)], 0)],
)
def test_product_of_matrices_may_have_no_rows_and_no_result(
    shapes: list[tuple[int, ...]], count: int
) -> None:
    tensors = tuple(Tensor(f"t{index}", shape, np.dtype(np.float32)) for index, shape in enumerate(shapes))
    operator = Operator("BATCH_MATMUL", "", (0, 1), tuple(range(2, len(shapes))))
    graph = Subgraph("", tensors, (0, 1), operator.outputs, (operator,))
    assert operator_multiplications(graph, operator) == count
