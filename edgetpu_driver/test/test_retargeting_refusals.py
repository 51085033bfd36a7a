"""Graphs and compiled files that do not belong together are refused with a reason."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.tflite.model_reader import Operator, Subgraph, Tensor, parse_model
from edgetpu_driver.tflite.operator_options import read_options
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_driver.toolchain.dense_compiler import compile_dense
from edgetpu_driver.toolchain.retargeting.border_sides import border_sides
from edgetpu_driver.toolchain.retargeting.graph_pairs import pair_graphs
from edgetpu_driver.toolchain.retargeting.graph_retargeting import retarget

SIZE = 64
UNKNOWN_SIDES = 5
"""What `border_sides` gives where it cannot tell."""


def matrix_of(inputs: tuple[str, ...], taken: str) -> bytes:
    """A matrix that multiplies one of the inputs; the others are only quantised."""
    graph = GraphBuilder("matrix")
    specs = [graph.input(name, (1, SIZE), np.uint8, scale=0.01, zero_point=128) for name in inputs]
    for spec in specs:
        steps = graph.quantize(spec, np.int8, scale=0.01, zero_point=0, name=f"{spec.name}_steps")
        if spec.name != taken:
            graph.output(graph.quantize(steps, np.uint8, scale=0.01, zero_point=128))
            continue
        weights, scales = np.arange(SIZE * SIZE).reshape(SIZE, SIZE) % 127, 0.01 + np.arange(SIZE) / 1e4
        y = graph.fully_connected(steps, weights, scales, scale=0.1, zero_point=0, name="y_steps")
        graph.output(graph.quantize(y, np.uint8, scale=0.1, zero_point=128, name="y"))
    return graph.build()


def test_a_graph_whose_part_has_other_inputs_than_the_file_is_refused() -> None:
    compiled = compile_dense(matrix_of(("z",), "z")).file
    other = matrix_of(("x", "z"), "x")
    with pytest.raises(ModelUnsupportedError, match="1 inputs and 1 outputs, that of the graph 2 inputs"):
        retarget(compiled, other, other, "matrix")


def with_inner_scale(scale: float) -> bytes:
    """Two custom operators with a tensor of that scale between them; 0: not quantised."""
    graph = GraphBuilder("inner")
    x = graph.input("x", (1, 8), np.int8, scale=0.1, zero_point=0)
    (inner,) = graph.custom("one", [x], [TensorSpec("inner", (1, 8), np.dtype(np.int8), scale, 0)])
    graph.output(graph.custom("two", [inner], [TensorSpec("y", (1, 8), np.dtype(np.int8), 0.1, 0)])[0])
    return graph.build()


def test_a_tensor_that_is_quantised_in_one_graph_only_is_named() -> None:
    with pytest.raises(ModelUnsupportedError, match="'inner' is quantised in one of them only"):
        pair_graphs(with_inner_scale(0.5), with_inner_scale(0.0))


def test_operators_without_a_result_are_paired_and_named_by_number() -> None:
    graph = GraphBuilder("sink")
    x = graph.input("x", (1, 8), np.int8, scale=0.1, zero_point=0)
    graph.custom("sink", [x], [])
    graph.output(graph.quantize(x, np.uint8, scale=0.1, zero_point=128))
    assert pair_graphs(graph.build(), graph.build()).operator_name(0) == "sink, operator 0,"


@pytest.mark.parametrize("shape", [(3,), (1, 3)])
def test_paddings_of_another_shape_are_not_known(shape: tuple[int, ...]) -> None:
    image = Tensor("x", (1, 4, 4, 1), np.dtype(np.int8))
    pads = Tensor("pads", shape, np.dtype(np.int32), data=np.ones(shape, np.int32).tobytes())
    pad = Operator("PAD", "", (0, 1), (2,))
    graph = Subgraph("", (image, pads, replace(image, name="y")), (0,), (2,), (pad,))
    assert border_sides(graph, {}, 0) == UNKNOWN_SIDES


def test_borders_of_a_convolution_without_a_declared_shape_are_not_known() -> None:
    builder = GraphBuilder()
    x = builder.input("x", (1, 8, 8, 1), np.int8, scale=1, zero_point=0)
    builder.output(builder.conv_2d(x, np.ones((1, 3, 3, 1), np.int8), 1, scale=1, zero_point=0, name="y"))
    data = builder.build()
    graph, (options,) = parse_model(data).subgraphs[0], read_options(data)
    assert border_sides(graph, options.numbers, 0) == 4
    tensors = tuple(replace(each, shape=()) if each.name == "y" else each for each in graph.tensors)
    assert border_sides(replace(graph, tensors=tensors), options.numbers, 0) == UNKNOWN_SIDES
