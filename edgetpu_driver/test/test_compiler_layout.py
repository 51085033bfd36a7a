"""Whole parameter blobs: from the graph's weights to the bytes of Google's compiler, and back."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.compiled_model import CompiledModel, Parameters
from edgetpu_driver.errors import ModelFormatError, ModelUnsupportedError
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.tflite.model_reader import Model, parse_model
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_driver.weights.compiler_layout import decode_parameters, encode_parameters
from testdata import ModelFolder

KNOWN = (
    "bright_64x64",
    "color_red_64x64",
    "dense_256",
    "gabor_64x64_7k_4o_2s",
    "gabor_64x64_p4",
    "looming_64x64_3x3",
)


def source(golden: ModelFolder, name: str) -> Model:
    return parse_model(golden.model(f"{name}.tflite").read_bytes())


def compiled(golden: ModelFolder, name: str) -> Parameters:
    model = CompiledModel.load(golden.model(f"{name}_edgetpu.tflite"))
    return model.parameters


def spot(side: int, channels: int, *, kernel: int = 1, x_zero_point: int = 0) -> Model:
    """A spot tracker over a square image; with a convolution if it has three channels."""
    graph = GraphBuilder("spot")
    image = graph.input("image", (1, side, side, channels), np.uint8, scale=1.0, zero_point=0)
    tensor = graph.quantize(image, np.int8, scale=1.0, zero_point=-128)
    if channels == 3:
        tensor = graph.conv_2d(
            tensor,
            np.full((1, kernel, kernel, 3), 5),
            weight_scale=0.01,
            scale=1.0,
            zero_point=-128,
        )
    flat = graph.softmax(graph.reshape(tensor, (1, side * side)))
    rows: list[TensorSpec] = [
        graph.fully_connected(
            flat, np.full((1, side * side), value), weight_scale=0.1, scale=0.1, zero_point=x_zero_point
        )
        for value in (3, 4)
    ]
    graph.output(graph.concatenation(rows, axis=1))
    return parse_model(graph.build())


@pytest.mark.parametrize("name", KNOWN)
def test_encoding_reproduces_the_compilers_bytes(golden: ModelFolder, name: str) -> None:
    assert encode_parameters(source(golden, name)) == compiled(golden, name)


@pytest.mark.parametrize("name", KNOWN)
def test_decoding_gives_the_weights_of_the_source_graph(golden: ModelFolder, name: str) -> None:
    model = source(golden, name)
    decoded = decode_parameters(model, compiled(golden, name))
    tensors = model.subgraphs[0].tensors
    weights = {
        operator.inputs[1]
        for operator in model.subgraphs[0].operators
        if operator.name in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
    }
    assert {layer.tensor for layer in decoded.layers} == weights
    for layer in decoded.layers:
        assert layer.weights.shape == tensors[layer.tensor].shape
        assert layer.weights.tobytes() == tensors[layer.tensor].data


def test_decoding_gives_the_multipliers_of_dense_layers_only(golden: ModelFolder) -> None:
    dense = source(golden, "dense_256")
    (layer,) = decode_parameters(dense, compiled(golden, "dense_256")).layers
    assert layer.multipliers is not None
    operator = dense.subgraphs[0].operators[1]
    tensors = dense.subgraphs[0].tensors
    scales = [tensors[index].quantization.scales for index in (*operator.inputs[:2], operator.outputs[0])]
    np.testing.assert_allclose(layer.multipliers, scales[0] * scales[1] / scales[2], rtol=1.2e-7)
    looming = decode_parameters(source(golden, "looming_64x64_3x3"), compiled(golden, "looming_64x64_3x3"))
    assert [layer.multipliers for layer in looming.layers] == [None, None]


@pytest.mark.parametrize(
    ("side", "channels", "caching", "execution"),
    [
        (16, 1, 8_384, 0),
        (64, 1, 131_264, 0),
        (128, 1, 192, 524_288),
        (64, 3, 132_416, 0),
        (128, 3, 1_344, 524_288),
    ],
)
def test_spot_trackers_have_the_published_sizes(
    side: int, channels: int, caching: int, execution: int
) -> None:
    blobs = encode_parameters(spot(side, channels))
    assert (len(blobs.cached), len(blobs.streamed)) == (caching, execution)


def test_large_spot_trackers_send_their_coordinate_rows_with_every_inference() -> None:
    blobs = encode_parameters(spot(128, 1))
    rows = np.frombuffer(blobs.streamed, np.uint8).reshape(2, 4096, 64)
    np.testing.assert_array_equal(rows[0, :, :4], np.full((4096, 4), 0x83))
    np.testing.assert_array_equal(rows[1, :, :4], np.full((4096, 4), 0x84))


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (spot(32, 1), r"input \[1, 32, 32, 1\] is not known; expected 16x16x1, 64x64x1, 128x128x1"),
        (spot(16, 3), r"input \[1, 16, 16, 3\] is not known; expected 64x64x3, 128x128x3"),
        (spot(64, 3, kernel=3), "only the byte offsets of the kernel's weights are known"),
    ],
)
def test_sizes_that_were_never_seen_are_refused(model: Model, reason: str) -> None:
    with pytest.raises(ModelUnsupportedError, match=reason):
        encode_parameters(model)


def test_pattern_models_are_refused_with_the_reason(golden: ModelFolder) -> None:
    with pytest.raises(ModelUnsupportedError, match="of pattern trackers only the byte offsets"):
        encode_parameters(source(golden, "pattern_64x64_8x8_1ch"))


def test_other_graphs_are_refused_by_their_operators(golden: ModelFolder) -> None:
    with pytest.raises(
        ModelUnsupportedError, match=r"a graph of CONV_2D, DEPTHWISE_CONV_2D, .* is not known"
    ):
        encode_parameters(source(golden, "deeplabv3_mnv2_pascal_quant"))


def dense(rows: int, columns: int, scales: NDArray[np.float64] | float, bias: int | None) -> Model:
    graph = GraphBuilder("dense")
    image = graph.input("x", (1, columns), np.uint8, scale=0.1, zero_point=128)
    inner = graph.quantize(image, np.int8, scale=0.1, zero_point=0)
    result = graph.fully_connected(
        inner,
        np.ones((rows, columns), np.int8),
        weight_scale=scales,
        bias=None if bias is None else np.full(rows, bias),
        scale=0.5,
        zero_point=0,
    )
    graph.output(graph.quantize(result, np.uint8, scale=0.5, zero_point=128))
    return parse_model(graph.build())


SCALES = np.linspace(0.01, 0.02, 64)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (dense(64, 64, 0.01, None), "a separate scale for every row"),
        (dense(64, 64, np.full(64, 0.01), None), "a separate scale for every row"),
        (dense(64, 128, SCALES, None), "a square matrix"),
        (dense(64, 64, SCALES, 7), "no bias other than zero"),
    ],
)
def test_dense_layers_that_were_never_seen_are_refused(model: Model, reason: str) -> None:
    with pytest.raises(ModelUnsupportedError, match=reason):
        encode_parameters(model)


def test_blobs_of_another_size_are_malformed(golden: ModelFolder) -> None:
    blobs = compiled(golden, "looming_64x64_3x3")
    with pytest.raises(ModelFormatError, match="expected 1024 cached parameter bytes, got 1023"):
        decode_parameters(source(golden, "looming_64x64_3x3"), Parameters(blobs.cached[:-1], b""))
    with pytest.raises(ModelFormatError, match="expected 0 streamed parameter bytes, got 1"):
        decode_parameters(source(golden, "looming_64x64_3x3"), Parameters(blobs.cached, b"\0"))


def test_blobs_of_another_model_are_malformed_where_they_first_differ(golden: ModelFolder) -> None:
    blobs = compiled(golden, "looming_64x64_3x3")
    damaged = bytearray(blobs.cached)
    damaged[500] = 1
    with pytest.raises(ModelFormatError, match=r"cached parameters from byte 384: .* routing rows"):
        decode_parameters(source(golden, "looming_64x64_3x3"), Parameters(bytes(damaged), b""))
