"""In LiteRT, every operator of the builder computes its definition on real values.

Each test states the operator in NumPy on the dequantised inputs; the quantised result must be the nearest
value, or either of the two nearest at a tie.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.tflite.tensor import TensorSpec

pytest.importorskip("ai_edge_litert", reason="the CPU engine needs ai-edge-litert")

Real = NDArray[np.float64]
RNG = np.random.default_rng(2024)


def run(graph: GraphBuilder, output: TensorSpec, inputs: dict[TensorSpec, Any]) -> NDArray[Any]:
    graph.output(output)
    arrays = {spec.name: np.asarray(values, spec.dtype) for spec, values in inputs.items()}
    return CpuEngine(graph.build()).run(arrays)[output.name]


def real(spec: TensorSpec, values: NDArray[Any]) -> Real:
    return np.asarray((values.astype(np.float64) - spec.zero_point) * spec.scale)


def int8s(*shape: int) -> NDArray[np.int8]:
    return RNG.integers(-128, 128, shape).astype(np.int8)


def assert_nearest(actual: NDArray[Any], spec: TensorSpec, expected: Real) -> None:
    limits = np.iinfo(spec.dtype)
    steps = np.clip(expected / spec.scale + spec.zero_point, limits.min, limits.max)
    assert actual.dtype == spec.dtype
    assert actual.shape == spec.shape == steps.shape
    assert np.abs(actual - steps).max() < 0.5 + 1e-3
    assert np.unique(actual).size > 2  # not a comparison of constants


def padded(image: Real, kernel: int, stride: int, padding: str, fill: float = 0.0) -> Real:
    """The image with the border that SAME padding adds, the smaller half at the top and left."""
    if padding == "VALID":
        return image
    extra = [max((-(-n // stride) - 1) * stride + kernel - n, 0) for n in image.shape[1:3]]
    border = [(each // 2, each - each // 2) for each in extra]
    return np.pad(image, [(0, 0), *border, (0, 0)], constant_values=fill)


def windows(image: Real, kernel: int, stride: int) -> Real:
    """[1, rows, columns, channels, kernel, kernel]: the window of the operator at each position."""
    view = np.lib.stride_tricks.sliding_window_view(image, (kernel, kernel), axis=(1, 2))
    return np.asarray(view[:, ::stride, ::stride])


@pytest.mark.parametrize("weight_scale", [0.013, [0.013, 0.02, 0.007]])
@pytest.mark.parametrize(("stride", "padding"), [(1, "SAME"), (2, "SAME"), (1, "VALID"), (3, "VALID")])
@pytest.mark.parametrize(("activation", "ceiling"), [("NONE", None), ("RELU", np.inf), ("RELU6", 6.0)])
def test_conv_2d_computes_its_definition(
    weight_scale: Any, stride: int, padding: Any, activation: Any, ceiling: float | None
) -> None:
    graph = GraphBuilder()
    x = graph.input("x", (1, 9, 10, 2), np.int8, scale=0.05, zero_point=11)
    kernel, bias = int8s(3, 3, 3, 2), RNG.integers(-2000, 2000, 3)
    y = graph.conv_2d(
        x, kernel, weight_scale, bias=bias, stride=stride, padding=padding, activation=activation,
        scale=0.4, zero_point=-20,
    )  # fmt: skip
    values = int8s(*x.shape)
    per_channel = np.asarray(weight_scale, np.float32).astype(np.float64) * np.ones(3)
    seen = windows(padded(real(x, values), 3, stride, padding), 3, stride)
    weights = kernel * per_channel[:, None, None, None]
    expected = np.einsum("nrcikl,okli->nrco", seen, weights) + bias * x.scale * per_channel
    if ceiling is not None:
        expected = np.clip(expected, 0, ceiling)
    assert_nearest(run(graph, y, {x: values}), y, expected)


@pytest.mark.parametrize("weight_scale", [0.013, [0.013, 0.02, 0.007, 0.03]])
@pytest.mark.parametrize(("stride", "padding"), [(1, "SAME"), (2, "VALID")])
def test_depthwise_conv_2d_with_a_multiplier(weight_scale: Any, stride: int, padding: Any) -> None:
    graph = GraphBuilder()
    x = graph.input("x", (1, 9, 10, 2), np.int8, scale=0.05, zero_point=11)
    kernel = int8s(1, 3, 3, 4)
    y = graph.depthwise_conv_2d(
        x, kernel, weight_scale, stride=stride, padding=padding, scale=0.3, zero_point=-20, activation="RELU"
    )
    values = int8s(*x.shape)
    weights = kernel[0] * np.asarray(weight_scale, np.float32).astype(np.float64)
    seen = windows(padded(real(x, values), 3, stride, padding), 3, stride)
    # Output channel o looks at input channel o // 2.
    expected = np.einsum("nrcokl,klo->nrco", np.repeat(seen, 2, axis=3), weights)
    assert_nearest(run(graph, y, {x: values}), y, np.maximum(expected, 0))


@pytest.mark.parametrize("weight_scale", [0.002, np.linspace(0.001, 0.003, 5)])
@pytest.mark.parametrize("bias", [None, [100, -200, 300, -400, 500]])
def test_fully_connected_computes_its_definition(weight_scale: Any, bias: Any) -> None:
    graph = GraphBuilder()
    x = graph.input("x", (1, 40), np.int8, scale=0.05, zero_point=11)
    matrix = int8s(5, 40)
    y = graph.fully_connected(x, matrix, weight_scale, bias=bias, scale=0.1, zero_point=5)
    values = int8s(*x.shape)
    per_row = np.asarray(weight_scale, np.float32).astype(np.float64) * np.ones(5)
    expected = real(x, values) @ (matrix * per_row[:, None]).T
    if bias is not None:
        expected += np.array(bias) * x.scale * per_row
    assert_nearest(run(graph, y, {x: values}), y, expected)


@pytest.mark.parametrize(("stride", "padding"), [(2, "VALID"), (1, "SAME"), (3, "SAME")])
def test_max_pool_2d_computes_its_definition(stride: int, padding: Any) -> None:
    graph = GraphBuilder()
    x = graph.input("x", (1, 9, 10, 2), np.int8, scale=0.05, zero_point=11)
    y = graph.max_pool_2d(x, 2, stride=stride, padding=padding)
    values = int8s(*x.shape)
    seen = windows(padded(real(x, values), 2, stride, padding, fill=-np.inf), 2, stride)
    assert_nearest(run(graph, y, {x: values}), y, seen.max((-1, -2)))


@pytest.mark.parametrize(("size", "stride", "padding"), [(3, None, "VALID"), (3, 2, "SAME")])
def test_average_pool_2d_counts_only_values_inside_the_image(size: int, stride: Any, padding: Any) -> None:
    graph = GraphBuilder()
    x = graph.input("x", (1, 9, 10, 2), np.int8, scale=0.05, zero_point=11)
    y = graph.average_pool_2d(x, size, stride=stride, padding=padding)
    values = int8s(*x.shape)
    seen = windows(padded(real(x, values), size, stride or size, padding, fill=np.nan), size, stride or size)
    assert_nearest(run(graph, y, {x: values}), y, np.nanmean(seen, (-1, -2)))


@pytest.mark.parametrize(
    ("operator", "definition"), [("add", np.add), ("sub", np.subtract), ("mul", np.multiply)]
)
@pytest.mark.parametrize("activation", ["NONE", "RELU"])
def test_elementwise_operators_compute_their_definition(
    operator: str, definition: Any, activation: Any
) -> None:
    graph = GraphBuilder()
    a = graph.input("a", (1, 6, 7, 3), np.int8, scale=0.05, zero_point=11)
    b = graph.input("b", (1, 6, 7, 3), np.int8, scale=0.031, zero_point=-60)
    y = getattr(graph, operator)(a, b, scale=0.09, zero_point=-20, activation=activation)
    values = {a: int8s(*a.shape), b: int8s(*b.shape)}
    expected = definition(*(real(spec, each) for spec, each in values.items()))
    if activation == "RELU":
        expected = np.maximum(expected, 0)
    assert_nearest(run(graph, y, values), y, expected)


def test_an_operand_of_one_row_is_broadcast() -> None:
    graph = GraphBuilder()
    a = graph.input("a", (1, 6, 7, 3), np.int8, scale=0.05, zero_point=11)
    row = np.array([10, -20, 30])
    y = graph.mul(a, graph.constant(row, scale=0.1, zero_point=4), scale=0.2, zero_point=0)
    values = int8s(*a.shape)
    expected = real(a, values) * (row - 4) * float(np.float32(0.1))
    assert_nearest(run(graph, y, {a: values}), y, expected)


@pytest.mark.parametrize(("source", "target"), [(np.uint8, np.int8), (np.int8, np.uint8), (np.int8, np.int8)])
def test_quantize_gives_the_nearest_values(source: Any, target: Any) -> None:
    graph = GraphBuilder()
    limits = np.iinfo(source)
    x = graph.input("x", (1, 256), source, scale=0.05, zero_point=3)
    y = graph.quantize(x, target, scale=0.07, zero_point=10)
    values = np.arange(limits.min, limits.max + 1, dtype=source)[None]
    assert_nearest(run(graph, y, {x: values}), y, real(x, values))


def test_reshape_keeps_the_values() -> None:
    graph = GraphBuilder()
    x = graph.input("x", (1, 4, 6, 2), np.int8, scale=0.05, zero_point=3)
    values = int8s(*x.shape)
    np.testing.assert_array_equal(run(graph, graph.reshape(x, (2, 24)), {x: values}), values.reshape(2, 24))


def test_concatenation_joins_along_an_axis() -> None:
    graph = GraphBuilder()
    a = graph.input("a", (1, 4, 2), np.int8, scale=0.05, zero_point=3)
    b = graph.input("b", (1, 4, 3), np.int8, scale=0.05, zero_point=3)
    values = {a: int8s(*a.shape), b: int8s(*b.shape)}
    joined = run(graph, graph.concatenation([a, b], axis=2), values)
    np.testing.assert_array_equal(joined, np.concatenate(list(values.values()), axis=2))


@pytest.mark.parametrize("beta", [1.0, 0.25])
def test_softmax_computes_its_definition(beta: float) -> None:
    graph = GraphBuilder()
    x = graph.input("x", (1, 30), np.int8, scale=0.05, zero_point=3)
    y = graph.softmax(x, beta=beta)
    values = int8s(*x.shape)
    powers = np.exp(beta * real(x, values))
    assert_nearest(run(graph, y, {x: values}), y, powers / powers.sum())
