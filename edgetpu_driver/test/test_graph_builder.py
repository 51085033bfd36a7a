"""Building quantised graphs: round trips, and refused arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from edgetpu_driver.errors import GraphError
from edgetpu_driver.tflite.file_tables import OPERATOR_CODE, read_model_table
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.tflite.model_reader import ABSENT, parse_model
from edgetpu_driver.tflite.schema import tflite_enums_generated as enums
from edgetpu_driver.tflite.tensor import TensorSpec
from testdata import ModelFolder


def int8_image(graph: GraphBuilder, shape: tuple[int, ...] = (1, 8, 8, 2)) -> TensorSpec:
    return graph.input("image", shape, np.int8, scale=0.5, zero_point=-3)


def operator_codes(data: bytes) -> dict[str, int]:
    """Name and version of each operator code."""
    names = {number: name for name, number in vars(enums.BuiltinOperator).items() if name.isupper()}
    codes = read_model_table(data).tables("operator_codes", OPERATOR_CODE)
    numbers = [code.scalar("builtin_code", np.int32) for code in codes]
    assert numbers == [code.scalar("deprecated_builtin_code", np.int8) for code in codes]
    versions = [code.scalar("version", np.int32, default=1) for code in codes]
    return {names[number]: version for number, version in zip(numbers, versions, strict=True)}


def every_operator() -> GraphBuilder:
    graph = GraphBuilder("every operator")
    image = graph.input("image", (1, 8, 8, 2), np.uint8, scale=1 / 255, zero_point=0)
    x = graph.quantize(image, np.int8, scale=1 / 255, zero_point=-128)
    a = graph.conv_2d(x, np.ones((4, 3, 3, 2), np.int8), 0.1, scale=0.1, zero_point=0, activation="RELU")
    b = graph.depthwise_conv_2d(x, np.ones((1, 3, 3, 4), np.int8), 0.1, scale=0.1, zero_point=0)
    c = graph.concatenation([graph.max_pool_2d(a, 2), graph.average_pool_2d(b, 2)], axis=3)
    d = graph.add(c, graph.constant([[1, 2, 3, 4] * 2], scale=0.1, zero_point=0), scale=0.1, zero_point=0)
    e = graph.mul(graph.sub(d, c, scale=0.1, zero_point=0), d, scale=0.1, zero_point=0, activation="RELU6")
    f = graph.softmax(graph.reshape(e, (1, 128)), beta=0.5)
    graph.output(graph.fully_connected(f, np.ones((3, 128), np.int8), 0.1, scale=0.1, zero_point=0, name="y"))
    return graph


def test_the_same_calls_give_the_same_bytes() -> None:
    assert every_operator().build() == every_operator().build()


def test_operators_have_the_versions_that_converters_give_them(golden: ModelFolder) -> None:
    ours = operator_codes(every_operator().build())
    real: dict[str, int] = {}
    for name in ("color_red_64x64", "looming_64x64_3x3"):
        real |= operator_codes(golden.model(f"{name}.tflite").read_bytes())
    assert {name: ours[name] for name in real} == real
    assert {name: ours[name] for name in ours.keys() - real.keys()} == {
        "DEPTHWISE_CONV_2D": 3,
        "MAX_POOL_2D": 2,
        "SUB": 2,
    }


def test_a_graph_is_read_back_as_it_was_built() -> None:
    graph = GraphBuilder("round trip")
    image = int8_image(graph)
    weights = np.arange(-36, 36, dtype=np.int8).reshape(4, 3, 3, 2)
    scales = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
    result = graph.conv_2d(
        image, weights, scales, bias=[1, -2, 300_000, 4], scale=0.25, zero_point=7, stride=2, name="y"
    )
    graph.output(result)
    model = parse_model(graph.build())
    subgraph = model.subgraphs[0]
    assert (model.description, subgraph.input_specs, subgraph.output_specs) == (
        "round trip",
        (image,),
        (TensorSpec("y", (1, 4, 4, 4), np.dtype(np.int8), 0.25, 7),),
    )
    (conv,) = subgraph.operators
    _, kernel, bias = (subgraph.tensors[index] for index in conv.inputs)
    assert (conv.name, kernel.name, bias.name) == ("CONV_2D", "y/weights", "y/bias")
    assert kernel.data == weights.tobytes()
    assert bias.data == np.array([1, -2, 300_000, 4], np.int32).tobytes()
    np.testing.assert_array_equal(kernel.quantization.scales, scales)
    np.testing.assert_array_equal(bias.quantization.scales, np.float32(0.5) * scales)


def test_a_convolution_always_has_a_bias_and_a_product_only_if_given() -> None:
    graph = GraphBuilder()
    image = int8_image(graph)
    y = graph.conv_2d(image, np.ones((1, 8, 8, 2), np.int8), 1, scale=1, zero_point=0, padding="VALID")
    vector = graph.reshape(y, (1, 1))
    graph.output(graph.fully_connected(vector, [[1]], 1.0, scale=1, zero_point=0))
    subgraph = parse_model(graph.build()).subgraphs[0]
    conv, _, product = subgraph.operators
    assert subgraph.tensors[conv.inputs[2]].data == bytes(4)
    assert product.inputs[2] == ABSENT


def test_depthwise_scales_run_along_the_last_axis() -> None:
    graph = GraphBuilder()
    y = graph.depthwise_conv_2d(
        int8_image(graph), np.ones((1, 3, 3, 4), np.int8), [1, 2, 3, 4], scale=1, zero_point=0
    )
    graph.output(y)
    subgraph = parse_model(graph.build()).subgraphs[0]
    assert subgraph.tensors[subgraph.operators[0].inputs[1]].quantization.axis == 3
    assert y.shape == (1, 8, 8, 4)


@pytest.mark.parametrize(
    ("padding", "size", "stride", "expected"),
    [
        ("SAME", 3, 1, (1, 9, 10, 1)),
        ("SAME", 3, 2, (1, 5, 5, 1)),
        ("SAME", (1, 2), (3, 4), (1, 3, 3, 1)),
        ("VALID", 3, 1, (1, 7, 8, 1)),
        ("VALID", 3, 2, (1, 4, 4, 1)),
        ("VALID", (9, 10), None, (1, 1, 1, 1)),
        ("VALID", 4, None, (1, 2, 2, 1)),
    ],
)
def test_shape_of_a_pooled_image(padding: Any, size: Any, stride: Any, expected: tuple[int, ...]) -> None:
    graph = GraphBuilder()
    pooled = graph.average_pool_2d(int8_image(graph, (1, 9, 10, 1)), size, stride=stride, padding=padding)
    assert pooled.shape == expected
    assert (pooled.scale, pooled.zero_point) == (0.5, -3)


def test_constants_and_options_start_at_multiples_of_16() -> None:
    graph = GraphBuilder()
    image = int8_image(graph)
    vector = graph.reshape(image, (1, 128))
    ones = np.ones((3, 128), np.int8)
    graph.output(graph.fully_connected(vector, ones, 1, bias=[1, 2, 3], scale=1, zero_point=0))
    graph.custom("op", [image], [TensorSpec("z", (1,), np.dtype(np.int8), 1, 0)], b"\xaa" * 21)
    data = graph.build()
    constants = [tensor for tensor in parse_model(data).subgraphs[0].tensors if tensor.data]
    assert len(constants) == 3
    assert [tensor.data_offset % 16 for tensor in constants] == [0, 0, 0]
    assert data.index(b"\xaa" * 21) % 16 == 0


def test_names_are_those_of_the_operators_and_counted() -> None:
    graph = GraphBuilder()
    x = int8_image(graph)
    names = [graph.max_pool_2d(x, 2).name, graph.max_pool_2d(x, 2).name, graph.reshape(x, (1, 128)).name]
    assert names == ["max_pool_2d", "max_pool_2d_1", "reshape"]


def test_a_custom_operator_wraps_its_options() -> None:
    graph = GraphBuilder("compiled")
    image = graph.input("image", (1, 64, 64, 1), np.uint8, scale=1.0, zero_point=0)
    results = [
        TensorSpec("position", (1, 2), np.dtype(np.int8), 0.5, -43),
        TensorSpec("score", (1,), np.dtype(np.float32), 0.0, 0),
    ]
    outputs = graph.custom("edgetpu-custom-op", [image], results, b"\0\1options")
    for output in outputs:
        graph.output(output)
    subgraph = parse_model(graph.build()).subgraphs[0]
    assert (subgraph.input_specs, subgraph.output_specs) == ((image,), tuple(results))
    (operator,) = subgraph.operators
    assert (operator.name, operator.custom_code) == ("CUSTOM", "edgetpu-custom-op")
    assert (operator.inputs, operator.outputs) == ((0,), (1, 2))
    assert operator.custom_options == b"\0\1options"


def build_with(add: Callable[[GraphBuilder, TensorSpec], object]) -> None:
    graph = GraphBuilder()
    add(graph, int8_image(graph))


ONES = np.ones((1, 3, 3, 2), np.int8)


@pytest.mark.parametrize(
    ("add", "message"),
    [
        (lambda g, x: g.conv_2d(x, ONES[0], 1, scale=1, zero_point=0), r"weights \[out, kh, kw, in\]"),
        (lambda g, x: g.conv_2d(x, ONES[..., :1], 1, scale=1, zero_point=0), "2 input channels"),
        (lambda g, x: g.conv_2d(x, ONES * 1.0, 1, scale=1, zero_point=0), "int8 values, got float64"),
        (lambda g, x: g.conv_2d(x, ONES.astype(int) * 128, 1, scale=1, zero_point=0), r"got 128\.\.128"),
        (lambda g, x: g.conv_2d(x, ONES, [1, 2], scale=1, zero_point=0), "one positive weight scale or 1"),
        (lambda g, x: g.conv_2d(x, ONES, -1, scale=1, zero_point=0), "positive weight scale"),
        (lambda g, x: g.conv_2d(x, ONES, 1, scale=-1, zero_point=0), "expected a positive scale, got -1"),
        (lambda g, x: g.conv_2d(x, ONES, 1, scale=1, zero_point=128), "a zero point within int8, got 128"),
        (lambda g, x: g.conv_2d(x, ONES, 1, scale=1, zero_point=0, bias=[1, 2]), r"bias \[1\], got \[2\]"),
        (lambda g, x: g.conv_2d(x, ONES, 1, scale=1, zero_point=0, stride=0), "positive window and stride"),
        (lambda g, x: g.conv_2d(x, ONES, 1, scale=1, zero_point=0, padding="FULL"), "SAME or VALID"),
        (lambda g, x: g.conv_2d(x, ONES, 1, scale=1, zero_point=0, activation="TANH"), "RELU6, got TANH"),
        (lambda g, x: g.depthwise_conv_2d(x, ONES[..., :1], 1, scale=1, zero_point=0), "a multiple of 2"),
        (lambda g, x: g.fully_connected(x, [[1]], 1, scale=1, zero_point=0), r"expected an input \[1, n\]"),
        (lambda g, x: g.max_pool_2d(x, 9), "is larger than 'image'"),
        (lambda g, x: g.reshape(x, (1, 129)), r"cannot reshape .* to \[1, 129\]"),
        (lambda g, x: g.reshape(x, (-1, -128)), "positive integers"),
        (lambda g, x: g.softmax(x, beta=0), "a positive beta"),
        (lambda g, _x: g.concatenation([], 0), "at least one tensor"),
        (lambda g, x: g.concatenation([x], 4), "no axis 4"),
        (lambda g, x: g.concatenation([x, g.max_pool_2d(x, 2)], 3), "cannot join"),
        (lambda g, x: g.concatenation([x, g.constant([1], scale=1, zero_point=0)], 0), "quantised like"),
        (lambda g, x: g.mul(x, g.max_pool_2d(x, 3), scale=1, zero_point=0), "do not broadcast"),
        (lambda g, x: g.quantize(x, np.float32, scale=1, zero_point=0), "expected uint8 or int8"),
        (lambda g, _x: g.input("image", (1,), np.int8), "a tensor of this name exists already"),
        (lambda g, _x: g.input("halves", (1,), np.float16), "dtype float16 are not supported"),
        (lambda g, _x: g.input("empty", (0,), np.int8), "positive integers"),
        (lambda g, x: g.output(TensorSpec("image", x.shape, x.dtype, 0.5, -3)), "not a tensor of this graph"),
        (lambda g, _x: g.build(), "the graph has no output"),
        (lambda _g, _x: GraphBuilder().build(), "the graph has no input"),
    ],
)  # fmt: skip
def test_mismatching_arguments_are_refused(
    add: Callable[[GraphBuilder, TensorSpec], object], message: str
) -> None:
    with pytest.raises(GraphError, match=message):
        build_with(add)


def test_operators_compute_on_int8_only() -> None:
    graph = GraphBuilder()
    image = graph.input("image", (1, 8, 8, 2), np.uint8, scale=1, zero_point=0)
    with pytest.raises(GraphError, match=r"expected an int8 tensor, got 'image' uint8.*quantize it first"):
        graph.softmax(image)
