"""Graphs that are refused before LiteRT sees them: each has one change made after it was built."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import numpy as np
import pytest

from edgetpu_driver.errors import ModelFormatError
from edgetpu_driver.files.flatbuffer import Fields, Table
from edgetpu_driver.tflite.checks.file_checks import LARGEST_FILE, read_model_file
from edgetpu_driver.tflite.checks.graph_checks import check_graph
from edgetpu_driver.tflite.file_tables import (
    OPERATOR,
    OPERATOR_CODE,
    QUANTIZATION,
    SUBGRAPH,
    TENSOR,
    option_table,
    read_model_table,
)
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.tflite.model_reader import Tensor
from edgetpu_driver.tflite.model_writer import OperatorRecord, write_model
from edgetpu_driver.tflite.schema.tflite_enums_generated import BuiltinOperator
from edgetpu_driver.tflite.tensor import TensorSpec
from testdata import ModelFolder

POOL, CONV, SOFTMAX = (option_table(name) for name in ("AVERAGE_POOL_2D", "CONV_2D", "SOFTMAX"))


def small_graph() -> bytes:
    """QUANTIZE, CONV_2D, AVERAGE_POOL_2D, RESHAPE, SOFTMAX, FULLY_CONNECTED, QUANTIZE."""
    graph = GraphBuilder("small")
    image = graph.input("image", (1, 8, 8, 1), np.uint8, scale=1.0, zero_point=0)
    grey = graph.quantize(image, np.int8, scale=1.0, zero_point=-128, name="grey")
    edges = graph.conv_2d(grey, np.ones((2, 3, 3, 1), np.int8), 0.5, scale=4.0, zero_point=-7, name="edges")
    pooled = graph.average_pool_2d(edges, 2, stride=2, name="pooled")
    row = graph.reshape(pooled, (1, 32), name="row")
    weight = graph.softmax(row, name="weight")
    y = graph.fully_connected(weight, np.ones((3, 32), np.int8), 0.1, scale=0.1, zero_point=0, name="y")
    graph.output(graph.quantize(y, np.uint8, scale=0.1, zero_point=128, name="out"))
    return graph.build()


GRAPH = small_graph()
OPERATORS = ("QUANTIZE", "CONV_2D", "AVERAGE_POOL_2D", "RESHAPE", "SOFTMAX", "FULLY_CONNECTED")
TENSORS = [tensor.name for tensor in check_graph(GRAPH).subgraphs[0].tensors]


def subgraph(data: bytes) -> Table:
    return read_model_table(data).tables("subgraphs", SUBGRAPH)[0]


def operator(data: bytes, name: str) -> Table:
    return subgraph(data).tables("operators", OPERATOR)[OPERATORS.index(name)]


def tensor(data: bytes, name: str) -> Table:
    return subgraph(data).tables("tensors", TENSOR)[TENSORS.index(name)]


def write(data: bytes, offset: int, form: str, value: float) -> bytes:
    """The file with one number replaced."""
    assert offset
    edited = bytearray(data)
    struct.pack_into(f"<{form}", edited, offset, value)
    return bytes(edited)


def with_option(name: str, fields: Fields, field: str, value: float, form: str = "i") -> bytes:
    """The graph with another value in the options of an operator."""
    options = operator(GRAPH, name).table("builtin_options", fields)
    assert options is not None
    return write(GRAPH, options.field_offset(field), form, value)


def with_operand(name: str, side: str, position: int, index: int) -> bytes:
    """The graph with another tensor among the inputs or outputs of an operator."""
    return write(GRAPH, operator(GRAPH, name).data_offset(side) + 4 * position, "i", index)


def with_extent(name: str, dimension: int, extent: int) -> bytes:
    """The graph with another extent in the shape of a tensor."""
    return write(GRAPH, tensor(GRAPH, name).data_offset("shape") + 4 * dimension, "i", extent)


def refusal(data: bytes) -> str:
    with pytest.raises(ModelFormatError) as caught:
        check_graph(data)
    return str(caught.value)


def test_a_graph_as_built_passes() -> None:
    assert [each.name for each in check_graph(GRAPH).subgraphs[0].operators][:6] == list(OPERATORS)


def test_every_real_model_passes(golden: ModelFolder) -> None:
    for file in golden.models():
        check_graph(file.read_bytes())


@pytest.mark.parametrize(
    ("edited", "message"),
    [
        (with_option("CONV_2D", CONV, "stride_w", 0), "CONV_2D has stride_w 0; expected 1 to 4096"),
        (with_option("CONV_2D", CONV, "stride_h", -1), "CONV_2D has stride_h -1; expected 1 to 4096"),
        (
            with_option("AVERAGE_POOL_2D", POOL, "filter_w", 1 << 30),
            "filter_w 1073741824; expected 1 to 4096",
        ),
        (with_option("AVERAGE_POOL_2D", POOL, "filter_h", 100), "a window of 100 for an input [1, 8, 8, 2]"),
        (with_option("SOFTMAX", SOFTMAX, "beta", float("nan"), "f"), "SOFTMAX has beta nan"),
        (
            write(GRAPH, operator(GRAPH, "CONV_2D").field_offset("builtin_options_type"), "B", 5),
            "CONV_2D has options of type 5; expected 1",
        ),
    ],
)
def test_options_that_no_kernel_expects_are_refused(edited: bytes, message: str) -> None:
    assert message in refusal(edited)


@pytest.mark.parametrize(
    ("edited", "message"),
    [
        (with_operand("CONV_2D", "inputs", 0, 99), "tensor 99 of"),
        (with_operand("CONV_2D", "inputs", 0, -1), "CONV_2D has an operand is absent"),
        (with_operand("CONV_2D", "inputs", 2, -1), "CONV_2D has no bias"),
        (
            with_operand("SOFTMAX", "inputs", 0, TENSORS.index("y")),
            f"model.subgraphs[0].operators[4] (SOFTMAX).inputs: tensor {TENSORS.index('y')} 'y' is used "
            "before it is computed",
        ),
        (
            with_operand("CONV_2D", "outputs", 0, TENSORS.index("edges/weights")),
            "'edges/weights' has a value already",
        ),
        (with_operand("SOFTMAX", "outputs", 0, TENSORS.index("row")), "'row' has a value already"),
        (
            write(GRAPH, operator(GRAPH, "SOFTMAX").data_offset("inputs") - 4, "I", 0),
            "SOFTMAX has 0 inputs; expected 1",
        ),
    ],
)
def test_operands_that_are_missing_or_not_computed_are_refused(edited: bytes, message: str) -> None:
    assert message in refusal(edited)


@pytest.mark.parametrize(
    ("edited", "message"),
    [
        (with_extent("image", 1, 4_194_368), "an output [1, 8, 8, 1]; expected [1, 4194368, 8, 1]"),
        (with_extent("edges", 3, 3), "CONV_2D has an output [1, 8, 8, 3]; expected [1, 8, 8, 2]"),
        (with_extent("edges/weights", 3, 0), "takes 0 bytes, got 18"),
        (with_extent("row", 1, 33), "RESHAPE has an output [1, 33] for an input [1, 4, 4, 2]"),
        (with_extent("y", 1, 4), "an output [1, 4] of 1 times 3 values"),
        (with_extent("image", 1, -1), "has the shape [1, -1, 8, 1]"),
        (with_extent("image", 1, 1 << 30), "is larger than 2 GiB"),
    ],
)
def test_shapes_that_do_not_belong_together_are_refused(edited: bytes, message: str) -> None:
    assert message in refusal(edited)


def test_an_8_bit_result_without_a_scale_is_refused() -> None:
    quantization = tensor(GRAPH, "edges").table("quantization", QUANTIZATION)
    assert quantization is not None
    edited = write(GRAPH, quantization.data_offset("scale") - 4, "I", 0)
    edited = write(edited, quantization.data_offset("zero_point") - 4, "I", 0)
    assert refusal(edited).endswith("CONV_2D has 'edges' int8[1, 8, 8, 2] without a scale")


def test_an_operator_code_for_another_kernel_is_refused() -> None:
    code = read_model_table(GRAPH).tables("operator_codes", OPERATOR_CODE)[4]
    edited = write(GRAPH, code.field_offset("deprecated_builtin_code"), "b", BuiltinOperator.FAKE_QUANT)
    edited = write(edited, code.field_offset("builtin_code"), "i", BuiltinOperator.FAKE_QUANT)
    assert refusal(edited).endswith("FAKE_QUANT has options of type 9; expected 58")


def test_tensors_that_take_too_much_memory_together_are_refused() -> None:
    graph = GraphBuilder()
    x = graph.input("x", (1, 600 << 20), np.int8, scale=1, zero_point=0)
    graph.output(graph.softmax(x))
    assert refusal(graph.build()) == (
        "model.subgraphs[0].tensors: 1200 MB besides the constants; expected at most 1024 MB"
    )


def test_operators_that_are_not_known_are_left_to_litert() -> None:
    graph = GraphBuilder()
    x = graph.input("x", (1,), np.int8, scale=1, zero_point=0)
    graph.output(*graph.custom("Mystery", [x], [TensorSpec("y", (7,), np.dtype(np.int8), 1, 0)]))
    assert check_graph(graph.build()).subgraphs[0].operators[0].custom_code == "Mystery"


def test_a_table_that_ends_behind_the_file_is_refused() -> None:
    root = struct.unpack_from("<I", GRAPH)[0]
    vtable = root - struct.unpack_from("<i", GRAPH, root)[0]
    assert "is outside" in refusal(write(GRAPH, vtable + 2, "H", 0xFFFF))


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "large.tflite"
    file.touch()
    os.truncate(file, LARGEST_FILE + (1 << 20))
    with pytest.raises(ModelFormatError, match=f"{file} has 257 MB; expected a model of at most 256 MB"):
        read_model_file(file)


def test_graph_of_many_small_operators_is_accepted() -> None:
    graph = GraphBuilder()
    tensor = graph.input("x", (1, 8), np.int8, scale=0.1, zero_point=0)
    for _ in range(3000):
        tensor = graph.quantize(tensor, np.int8, scale=0.1, zero_point=0, name=f"y{len(graph.tensors)}")
    graph.output(tensor)
    assert len(check_graph(graph.build()).subgraphs[0].operators) == 3000


def test_graph_of_many_operators_without_names_and_scales_is_accepted() -> None:
    count = 4000
    tensors = [Tensor(f"{index:x}", (), np.dtype(np.float32)) for index in range(count + 1)]
    operators = [
        OperatorRecord("ADD", 2, (index, index), (index + 1,), "AddOptions") for index in range(count)
    ]
    data = write_model("", tensors, operators, [0], [count])
    assert len(check_graph(data).subgraphs[0].operators) == count
