"""Reading .tflite files: real ones, and files that are damaged in many ways."""

from __future__ import annotations

import random
import time
import tracemalloc
from contextlib import suppress

import flatbuffers
import numpy as np
import pytest

from edgetpu_driver.errors import ModelFormatError
from edgetpu_driver.tflite import model_reader
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.tflite.model_reader import (
    ABSENT,
    Model,
    Subgraph,
    each_parsed_once,
    operand_specs,
    parse_model,
)
from edgetpu_driver.tflite.schema import tflite_enums_generated as enums
from edgetpu_driver.tflite.schema import tflite_generated as schema
from edgetpu_driver.tflite.tensor import TensorSpec
from testdata import ModelFolder

SPOT_OPERATORS = "RESHAPE SOFTMAX FULLY_CONNECTED FULLY_CONNECTED CONCATENATION"


def spec(name: str, shape: tuple[int, ...], dtype: type, scale: float, zero_point: int) -> TensorSpec:
    return TensorSpec(name, shape, np.dtype(dtype), float(np.float32(scale)), zero_point)


def small_graph() -> bytes:
    graph = GraphBuilder("small")
    image = graph.input("image", (1, 4, 4, 1), np.uint8, scale=1.0, zero_point=0)
    grey = graph.quantize(image, np.int8, scale=1.0, zero_point=-128)
    edges = graph.conv_2d(
        grey, np.ones((2, 3, 3, 1), np.int8), [0.5, 0.25], scale=4.0, zero_point=-7, name="edges"
    )
    graph.output(edges)
    return graph.build()


def parse_golden(golden: ModelFolder, name: str) -> Model:
    return parse_model(golden.model(f"{name}.tflite").read_bytes())


@pytest.mark.parametrize(
    ("name", "shape", "in_scale", "in_zero", "out_shape", "out_dtype", "out_scale", "out_zero"),
    [
        ("dense_256", (1, 256), 0.00784302782, 127, (1, 256), np.uint8, 0.0190488584, 129),
        ("bright_64x64", (1, 64, 64, 1), 1.0, 0, (1, 2), np.int8, 0.107687525, -47),
        ("color_red_64x64", (1, 64, 64, 3), 1.0, 0, (1, 2), np.int8, 0.116397679, -42),
        ("looming_64x64_3x3", (1, 64, 64, 1), 1.0, 0, (1, 9), np.uint8, 71.6335754, 0),
        ("gabor_64x64_p4", (1, 64, 64, 1), 1 / 255, 0, (1, 16, 16, 8), np.uint8, 0.00226956932, 0),
    ],
)
@pytest.mark.parametrize("suffix", ["", "_edgetpu"])
def test_inputs_and_outputs_of_a_real_graph_and_its_compiled_form(
    golden: ModelFolder, name: str, suffix: str, shape: tuple[int, ...], in_scale: float, in_zero: int,
    out_shape: tuple[int, ...], out_dtype: type, out_scale: float, out_zero: int,
) -> None:  # fmt: skip
    graph = parse_golden(golden, name + suffix).subgraphs[0]
    (image,), (result,) = graph.input_specs, graph.output_specs
    assert image == spec(image.name, shape, np.uint8, in_scale, in_zero)
    assert result == spec(result.name, out_shape, out_dtype, out_scale, out_zero)


@pytest.mark.parametrize(
    ("name", "operators"),
    [
        ("dense_256", "QUANTIZE FULLY_CONNECTED QUANTIZE"),
        ("bright_64x64", f"QUANTIZE {SPOT_OPERATORS}"),
        ("pattern_64x64_8x8_1ch", f"QUANTIZE CONV_2D {SPOT_OPERATORS}"),
        ("looming_64x64_3x3", "QUANTIZE CONV_2D MUL CONV_2D MUL ADD AVERAGE_POOL_2D RESHAPE QUANTIZE"),
        ("gabor_64x64_p4", "QUANTIZE DEPTHWISE_CONV_2D AVERAGE_POOL_2D QUANTIZE"),
        ("dense_256_edgetpu", "edgetpu-custom-op"),
        ("posenet_mobilenet_v1_075_353_481_16_quant_decoder_edgetpu", "edgetpu-custom-op PosenetDecoderOp"),
    ],
)
def test_operators_of_a_real_model_in_the_order_they_run(
    golden: ModelFolder, name: str, operators: str
) -> None:
    graph = parse_golden(golden, name).subgraphs[0]
    assert [each.custom_code or each.name for each in graph.operators] == operators.split()


def test_every_real_model_parses(golden: ModelFolder) -> None:
    for file in golden.models():
        model = parse_model(file.read_bytes())
        assert model.version == 3
        assert model.subgraphs[0].operators


def test_per_channel_weights_have_a_scale_for_each_output(golden: ModelFolder) -> None:
    weights = parse_golden(golden, "dense_256").subgraphs[0].tensors[1]
    assert weights.shape == (256, 256)
    assert len(weights.data) == 65536
    assert weights.quantization.axis == 0
    assert weights.quantization.scales.shape == (256,)
    assert weights.spec.scale == weights.quantization.scales[0]


def test_an_operand_that_is_left_out_is_absent(golden: ModelFolder) -> None:
    fully_connected = parse_golden(golden, "dense_256").subgraphs[0].operators[1]
    assert fully_connected.inputs == (2, 1, ABSENT)


def test_a_min_max_range_without_scale_is_not_a_quantisation(golden: ModelFolder) -> None:
    shape_of_reshape = parse_golden(golden, "bright_64x64").subgraphs[0].tensors[1]
    assert shape_of_reshape.quantization.scales.size == 0
    assert (shape_of_reshape.spec.scale, shape_of_reshape.spec.zero_point) == (0.0, 0)


def test_data_offset_is_where_the_data_stand_in_the_file() -> None:
    file = small_graph()
    weights = next(t for t in parse_model(file).subgraphs[0].tensors if t.name == "edges/weights")
    assert file[weights.data_offset :][: len(weights.data)] == weights.data == b"\1" * 18


def test_tensors_that_share_a_name_are_distinguished() -> None:
    tensors = parse_model(small_graph()).subgraphs[0].tensors
    graph = Subgraph("", tensors, (0, 0, 1, 0), (0,), ())
    assert [each.name for each in graph.input_specs] == ["image", "image#2", tensors[1].name, "image#3"]
    assert [each.name for each in graph.output_specs] == ["image"]


class TestOperandsAlone:
    def test_are_those_of_the_parsed_graph(self) -> None:
        graph = parse_model(small_graph()).subgraphs[0]
        assert operand_specs(small_graph(), 1) == (graph.input_specs, graph.output_specs)

    def test_are_read_without_the_other_tensors(self, monkeypatch: pytest.MonkeyPatch) -> None:
        read, described = [], model_reader._described
        monkeypatch.setattr(model_reader, "_described", lambda table: read.append(table) or described(table))
        operand_specs(small_graph(), 1)
        assert len(read) == 2

    def test_are_left_out_if_there_are_too_many(self) -> None:
        graph = GraphBuilder("two outputs")
        image = graph.input("image", (1, 4), np.uint8, scale=1.0, zero_point=0)
        for name in ("a", "b"):
            graph.output(graph.quantize(image, np.int8, scale=1.0, zero_point=-128, name=name))
        inputs, outputs = operand_specs(graph.build(), 1)
        assert ([each.name for each in inputs], outputs) == (["image"], ())

    def test_of_a_damaged_file_are_read_or_refused(self) -> None:
        data, random_ = small_graph(), random.Random(0)
        for _ in range(2000):
            damaged = bytearray(data)
            for _ in range(random_.randint(1, 4)):
                damaged[random_.randrange(len(damaged))] = random_.randrange(256)
            with suppress(ModelFormatError):
                operand_specs(bytes(damaged), 64)


@pytest.mark.parametrize("data", [b"", b"TFL3", b"\0\0\0\0TFL2" + bytes(64)])
def test_a_file_without_the_identifier_is_refused(data: bytes) -> None:
    with pytest.raises(ModelFormatError, match="expected the file identifier TFL3"):
        parse_model(data)


def test_every_truncated_file_is_refused_or_complete() -> None:
    file = small_graph()
    whole = parse_model(file).subgraphs[0]
    for size in range(len(file)):
        try:
            part = parse_model(file[:size]).subgraphs[0]
        except ModelFormatError:
            continue
        # The missing bytes can only be unreferenced ones.
        assert repr(part) == repr(whole)


def test_a_file_with_changed_bytes_gives_nothing_but_format_errors() -> None:
    file = small_graph()
    rng = random.Random(1)
    refused = 0
    for _ in range(400):
        changed = bytearray(file)
        for _ in range(rng.randrange(1, 4)):
            changed[rng.randrange(len(file))] = rng.choice([0, 1, 127, 128, 255, rng.randrange(256)])
        try:
            parse_model(bytes(changed))
        except ModelFormatError:
            refused += 1
    assert 100 < refused < 400


def test_an_error_names_the_place() -> None:
    file = bytearray(small_graph())
    name = file.index(b"edges/weights")
    file[name] = 0xFF
    with pytest.raises(ModelFormatError, match=r"model\.subgraphs\[0\]\.tensors\[\d\]\.name: not UTF-8"):
        parse_model(bytes(file))


@pytest.mark.parametrize("length", [0, 50_000])
def test_a_small_file_that_unfolds_into_a_huge_model_is_refused_at_once(length: int) -> None:
    builder = flatbuffers.Builder(0)
    text = builder.CreateString("x" * length)
    schema.OperatorCodeStart(builder)
    schema.OperatorCodeAddCustomCode(builder, text)
    schema.OperatorCodeAddBuiltinCode(builder, enums.BuiltinOperator.CUSTOM)
    code = schema.OperatorCodeEnd(builder)
    builder.StartVector(4, 20_000, 4)
    for _ in range(20_000):
        builder.PrependUOffsetTRelative(code)
    codes = builder.EndVector()
    schema.ModelStart(builder)
    schema.ModelAddVersion(builder, 3)
    schema.ModelAddOperatorCodes(builder, codes)
    builder.Finish(schema.ModelEnd(builder), file_identifier=b"TFL3")
    file = bytes(builder.Output())
    tracemalloc.start()
    started = time.thread_time()
    with pytest.raises(ModelFormatError, match="refers to the same bytes too often"):
        parse_model(file)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert time.thread_time() - started < 2.0
    assert peak < 16 * len(file)


def test_equal_files_are_parsed_once_within_the_outermost_context() -> None:
    data = small_graph()
    with each_parsed_once():
        first = parse_model(data)
        with each_parsed_once():
            assert parse_model(bytes(bytearray(data))) is first
        assert parse_model(data) is first
    assert parse_model(data) is not first
