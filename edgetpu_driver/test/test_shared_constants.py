"""New weights for layers of a graph in which constants share their bytes, as converters write them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgetpu_driver.compiled_model import CompiledModel, Parameters
from edgetpu_driver.tflite.file_tables import SUBGRAPH, TENSOR, read_model_table
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.tflite.model_reader import parse_model
from edgetpu_driver.virtual.graph_packer import pack
from edgetpu_driver.weights.network_layers import encode_network
from edgetpu_driver.weights.network_weights import NetworkWeights

BIAS = np.arange(1, 9, dtype=np.int32)


def two_convolutions() -> bytes:
    """Two layers whose biases are one buffer of the file."""
    builder = GraphBuilder("two")
    y = builder.input("x", (1, 8, 8, 8), np.int8, scale=0.1, zero_point=0)
    for seed, name in enumerate("ab"):
        kernel = np.random.default_rng(seed).integers(-127, 128, (8, 1, 1, 8)).astype(np.int8)
        y = builder.conv_2d(y, kernel, 0.01, scale=0.1, zero_point=0, bias=BIAS, name=name)
    builder.output(y)
    data = bytearray(builder.build())
    graph = parse_model(bytes(data)).subgraphs[0]
    names = [each.name for each in graph.tensors]
    tables = read_model_table(bytes(data)).tables("subgraphs", SUBGRAPH)[0].tables("tensors", TENSOR)
    field = tables[names.index("b/bias")].field_offset("buffer")
    data[field : field + 4] = graph.tensors[names.index("a/bias")].buffer.to_bytes(4, "little")
    return bytes(data)


@pytest.fixture
def network() -> tuple[NetworkWeights, bytes]:
    """The network, and its parameters as edgetpu_compiler lays them out."""
    graph = two_convolutions()
    packed = CompiledModel.parse(pack(graph, name="two"), "two")
    sections, _ = encode_network(parse_model(graph).subgraphs[0])
    parameters = b"".join(section.data.tobytes() for section in sections)
    assert packed.caching is not None
    compiled = replace(packed, caching=replace(packed.caching, parameters=parameters))
    return NetworkWeights(compiled, graph), parameters


def test_weights_of_a_layer_whose_bias_is_shared_are_read(network: tuple[NetworkWeights, bytes]) -> None:
    weights, parameters = network
    (first, _), _ = encode_network(parse_model(two_convolutions()).subgraphs[0])
    layout = first.weight_layout
    changed = np.frombuffer(parameters, np.uint8).copy()
    layout.encode(np.full(layout.shape, 3, np.int8), changed[: layout.size])
    graph = weights.graph_with(Parameters(changed.tobytes(), b""))
    assert graph is not None
    constants = {each.name: each.data for each in parse_model(graph).subgraphs[0].tensors}
    assert constants["a/weights"] == 64 * b"\3"
    assert constants["a/bias"] == constants["b/bias"] == BIAS.tobytes()


def test_another_value_of_a_shared_bias_belongs_to_no_graph(network: tuple[NetworkWeights, bytes]) -> None:
    weights, parameters = network
    (first, _), _ = encode_network(parse_model(two_convolutions()).subgraphs[0])
    layout = first.weight_layout
    changed = np.frombuffer(parameters, np.uint8).copy()
    layout.encode_bias(BIAS + 1, changed[: layout.size])
    assert weights.graph_with(Parameters(changed.tobytes(), b"")) is None
