"""Whole models in any arrangement: random graphs of which random parts are compiled for the Edge TPU."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from edgetpu_driver import CpuEngine, EdgeTpu, Model, VirtualEdgeTpu
from edgetpu_driver.engines.whole_model.model_plan import EdgeTpuStep
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.tflite.subgraph_extraction import extract
from edgetpu_driver.tflite.tensor import TensorSpec
from testdata.graphs.compiled_graphs import edge_tpu_operator

pytest.importorskip("ai_edge_litert", reason="LiteRT computes the results (pip install ai-edge-litert)")

SIZE, SCALE, OPERATORS = 8, 0.5, 10


@dataclass
class Layer:
    """An operator: a matrix from one value, or the sum of two."""

    inputs: tuple[str, ...]
    output: str
    seed: int


@dataclass
class Network:
    """Layers in an order in which they can run, and which of them are compiled together."""

    layers: list[Layer] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    parts: list[tuple[bool, list[Layer]]] = field(default_factory=list)
    """Consecutive layers, and whether the Edge TPU runs them."""


def random_network(seed: int) -> Network:
    rng = np.random.default_rng(seed)
    network, values = Network(), ["x", "y"]
    for index in range(OPERATORS):
        count = int(rng.integers(1, 3))
        sources = tuple(str(each) for each in rng.choice(values[-4:], count))
        network.layers.append(Layer(sources, f"v{index}", index))
        values.append(f"v{index}")
    used = {name for layer in network.layers for name in layer.inputs}
    ends = [name for name in values[2:] if name not in used or rng.random() < 0.2]
    network.outputs = [str(each) for each in rng.permutation(ends)]
    cuts = sorted({0, OPERATORS, *rng.integers(1, OPERATORS, 4).tolist()})
    for begin, end in pairwise(cuts):
        network.parts.append((bool(rng.random() < 0.6), network.layers[begin:end]))
    return network


def build(network: Network, compiled: bool) -> bytes:
    """The graph, or the compiled file with an operator for each part that the Edge TPU runs."""
    builder = GraphBuilder("random")
    source = b"" if not compiled else build(network, compiled=False)
    tensors = {
        name: builder.input(name, (1, SIZE), np.int8, scale=SCALE, zero_point=0) for name in ("x", "y")
    }
    for number, (on_edge_tpu, layers) in enumerate(network.parts):
        made = [layer.output for layer in layers]
        if not (on_edge_tpu and compiled):
            for layer in layers:
                tensors[layer.output] = add_layer(builder, layer, tensors)
            continue
        needed = {name for other in network.layers if other not in layers for name in other.inputs}
        results = [name for name in made if name in needed or name in network.outputs]
        sources = [*dict.fromkeys(n for layer in layers for n in layer.inputs if n not in made)]
        # The compiler has an order of its own.
        results, sources = results[::-1], sources[::-1]
        part = extract(source, sources, results)
        outputs = edge_tpu_operator(builder, [tensors[each] for each in sources], part, f"part{number}")
        tensors |= {spec.name: spec for spec in outputs}
    for name in network.outputs:
        builder.output(tensors[name])
    return builder.build()


def add_layer(builder: GraphBuilder, layer: Layer, tensors: dict[str, TensorSpec]) -> TensorSpec:
    sources = [tensors[name] for name in layer.inputs]
    if len(sources) == 2:
        return builder.add(*sources, scale=SCALE, zero_point=0, name=layer.output)
    weights = np.random.default_rng(layer.seed).integers(-127, 128, (SIZE, SIZE))
    return builder.fully_connected(
        sources[0], weights, weight_scale=1 / 256, scale=SCALE, zero_point=0, name=layer.output
    )


@pytest.mark.parametrize("seed", range(12))
def test_any_arrangement_gives_what_the_graph_gives(tmp_path: Path, seed: int) -> None:
    network = random_network(seed)
    graph = build(network, compiled=False)
    path = tmp_path / "random_edgetpu.tflite"
    path.write_bytes(build(network, compiled=True))
    engine, rng = CpuEngine(graph), np.random.default_rng(seed)
    inputs = {spec.name: rng.integers(-128, 128, spec.shape, np.int8) for spec in engine.inputs}
    stick = VirtualEdgeTpu()
    if any(on_edge_tpu for on_edge_tpu, _ in network.parts):
        stick.register_model(path, graph)
    with EdgeTpu.open(usb_backend=stick) as tpu:
        model = Model.load(path, tpu)
        outputs = model.run(inputs)
    parts = sum(on_edge_tpu for on_edge_tpu, _ in network.parts)
    assert sum(isinstance(step, EdgeTpuStep) for step in model.plan.steps) == parts
    expected = engine.run(inputs)
    assert list(outputs) == network.outputs
    for name in network.outputs:
        np.testing.assert_array_equal(outputs[name], expected[name])
