"""Graphs of one matrix, and the results of the chip and of LiteRT for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.darwinn.instructions.operations import split
from edgetpu_driver.darwinn.instructions.tensor_operation import read_requantisation, requantises
from edgetpu_driver.darwinn.parameters.dense_layout import DenseLayout
from edgetpu_driver.darwinn.requantisation import Requantisation
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.toolchain.dense_compiler import compile_dense

INPUT_SCALE, OUTPUT_SCALE = 1 / 128, 1 / 16


def matrix_graph(
    rows: int,
    columns: int,
    *,
    bias: NDArray[np.int32] | None = None,
    activation: str = "NONE",
    from_uint8: bool = True,
    to_uint8: bool = True,
    input_zero_point: int = 0,
    output_zero_point: int = 0,
) -> bytes:
    """A graph with random weights and a scale for each row. Zero points are those of int8."""
    rng = np.random.default_rng(rows + columns)
    weights = rng.integers(-127, 128, (rows, columns))
    scales = rng.uniform(0.5, 1.0, rows) / 127
    graph = GraphBuilder("matrix")
    unsigned = input_zero_point + 128
    if from_uint8:
        x = graph.input("x", (1, columns), np.uint8, scale=INPUT_SCALE, zero_point=unsigned)
        x = graph.quantize(x, np.int8, scale=INPUT_SCALE, zero_point=input_zero_point)
    else:
        x = graph.input("x", (1, columns), np.int8, scale=INPUT_SCALE, zero_point=input_zero_point)
    y = graph.fully_connected(
        x,
        weights,
        scales,
        bias=bias,
        scale=OUTPUT_SCALE,
        zero_point=output_zero_point,
        activation=activation,  # type: ignore[arg-type]
        name="product",
    )
    if to_uint8:
        y = graph.quantize(y, np.uint8, scale=OUTPUT_SCALE, zero_point=output_zero_point + 128, name="y")
    graph.output(y)
    return graph.build()


def compiled(graph: bytes) -> CompiledModel:
    """The graph, compiled by the suite."""
    return CompiledModel.parse(compile_dense(graph).file, "matrix")


def requantisation(model: CompiledModel) -> Requantisation:
    """The requantisation that the program of a model applies to its sums."""
    (chunk,) = split([model.execution.bitstreams[0].data])
    assert not chunk.obstacle
    (found,) = (read_requantisation(each) for each in chunk.operations if requantises(each))
    return found


def chip_product(model: CompiledModel, values: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The chip's outputs for input bytes, by the documented arithmetic from the bytes of the file."""
    size = model.execution.inputs[0].size_bytes
    layout, blob = DenseLayout(size), np.frombuffer(model.parameters.cached, np.uint8)
    wire = np.zeros(size, np.int64)
    sent = values.tobytes() + model.input_padding
    wire[: len(sent)] = np.frombuffer(sent, np.uint8)
    program = requantisation(model)
    sums = layout.decode(blob).astype(np.int64) @ (wire - program.input_zero_point)
    steps = np.clip(layout.decode_multipliers(blob) * sums, program.minimum, program.maximum)
    result: NDArray[np.uint8] = np.clip(np.rint(steps) + program.output_zero_point, 0, 255).astype(np.uint8)
    return result[: model.outputs[0].shape[1]]


def litert_product(graph: bytes, values: NDArray[Any]) -> NDArray[Any]:
    """LiteRT's outputs of a graph for these inputs."""
    pytest.importorskip("ai_edge_litert", reason="needs LiteRT")
    from edgetpu_driver.engines.cpu_engine import CpuEngine

    (result,) = CpuEngine(graph).run({"x": values.reshape(1, -1)}).values()
    return result.reshape(-1)


def difference(left: NDArray[Any], right: NDArray[Any]) -> int:
    """The largest difference between two results, in steps."""
    return int(np.abs(left.astype(int) - right.astype(int)).max())


def two_layers() -> bytes:
    """A graph of two layers instead of a single matrix."""
    graph = GraphBuilder("two")
    x = graph.input("x", (1, 4), np.int8, scale=1.0, zero_point=0)
    for _ in range(2):
        x = graph.fully_connected(x, np.ones((4, 4), int), 1.0, scale=1.0, zero_point=0)
    graph.output(x)
    return graph.build()
