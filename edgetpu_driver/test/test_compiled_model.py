"""Compiled models: the TFLite container joined with the package inside."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgetpu_driver.compiled_model import CompiledModel, Parameters
from edgetpu_driver.darwinn.executable import (
    DataType,
    Description,
    Direction,
    DmaHint,
    Executable,
    ExecutableType,
    InstructionBitstream,
    InstructionHint,
    InterruptHint,
    Layer,
    Package,
)
from edgetpu_driver.darwinn.package_writer import write_package
from edgetpu_driver.errors import GraphError, ModelFormatError, ModelNotFoundError, ModelUnsupportedError
from edgetpu_driver.tflite import flexbuffer
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.tflite.model_reader import parse_model
from edgetpu_driver.tflite.subgraph_extraction import extract
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_driver.virtual.graph_packer import pack
from testdata import ModelFolder
from testdata.graphs.compiled_graphs import compiled_graph, source_graph

SPEC_IN = TensorSpec("in", (1, 8), np.dtype(np.uint8), 0.5, 3)
SPEC_OUT = TensorSpec("out", (1, 16), np.dtype(np.int8), 0.25, -1)
LAYER_IN = Layer("in", 8, (1, 1, 8), DataType.FIXED_POINT8, 3, 0.5)
LAYER_OUT = Layer("out", 16, (1, 1, 16), DataType.SIGNED_FIXED_POINT8, 127, 0.25)
CODE = (InstructionBitstream(bytes(32)),)

EXECUTION = Executable(
    type=ExecutableType.EXECUTION_ONLY,
    name="model",
    parameter_caching_token=77,
    bitstreams=CODE,
    parameters=b"",
    hints=(
        InstructionHint(0),
        DmaHint(Description.INPUT, Direction.INFEED, "in", 0, 8),
        DmaHint(Description.OUTPUT, Direction.OUTFEED, "out", 0, 16),
        InterruptHint(0),
    ),
    fully_deterministic=True,
    inputs=(LAYER_IN,),
    outputs=(LAYER_OUT,),
)
CACHING = Executable(
    type=ExecutableType.PARAMETER_CACHING,
    name="Unknown",
    parameter_caching_token=77,
    bitstreams=CODE,
    parameters=b"weights!",
    hints=(
        InstructionHint(0),
        DmaHint(Description.PARAMETER, Direction.INFEED, "", 0, 8),
        InterruptHint(0),
    ),
    fully_deterministic=True,
    inputs=(),
    outputs=(),
)
STAND_ALONE = replace(EXECUTION, type=ExecutableType.STAND_ALONE, parameter_caching_token=0)


def options(*executables: Executable, chip_id: int = 0) -> bytes:
    package = Package(executables, 14, "cl/", virtual_chip_id=chip_id)
    return flexbuffer.encode({"1": 0, "4": write_package(package), "5": -1, "6": [18], "7": []})


def container(
    custom_options: bytes, source: TensorSpec = SPEC_IN, result: TensorSpec = SPEC_OUT, parts: int = 1
) -> bytes:
    builder = GraphBuilder()
    tensor = builder.input(
        source.name, source.shape, source.dtype, scale=source.scale, zero_point=source.zero_point
    )
    for index in range(parts):
        name = result.name if index == 0 else f"{result.name}{index}"
        builder.output(
            builder.custom("edgetpu-custom-op", [tensor], [replace(result, name=name)], custom_options)[0]
        )
    return builder.build()


def compiled(*executables: Executable) -> CompiledModel:
    return CompiledModel.parse(container(options(*executables)), "sample")


def test_a_golden_model_is_read_as_its_tensors_layers_and_programs(golden: ModelFolder) -> None:
    path = golden.model("dense_256_edgetpu.tflite")
    model = CompiledModel.load(path)
    assert (model.name, model.path) == ("dense_256", path)
    assert model.sha256 == "145e02a22b0000b5844882d07442dff8e28c02afc17443a82758a31dd5c1f7db"
    assert [str(spec) for spec in model.inputs] == ["'serving_default_keras_tensor:0' uint8[1, 256]"]
    assert [str(spec) for spec in model.outputs] == ["'StatefulPartitionedCall_1:0' uint8[1, 256]"]
    assert (model.inputs[0].scale, model.inputs[0].zero_point) == (
        float(np.float32(0.00784302782267332)),
        127,
    )
    assert (model.outputs[0].scale, model.outputs[0].zero_point) == (
        float(np.float32(0.01904885843396187)),
        129,
    )
    assert model.is_cached
    assert model.parameter_caching_token == 0xFCE222D70D502FB8
    assert model.parameter_bytes == 67584
    assert model.cpu_operators == ()
    assert model.execution.type is ExecutableType.EXECUTION_ONLY
    assert model.caching is not None
    assert model.caching.type is ExecutableType.PARAMETER_CACHING
    model.check_runnable()


def test_zero_points_of_tensors_are_signed_and_those_of_layers_are_not(golden: ModelFolder) -> None:
    model = CompiledModel.load(golden.model("bright_64x64_edgetpu.tflite"))
    assert (model.outputs[0].dtype, model.outputs[0].zero_point) == (np.dtype(np.int8), -47)
    assert model.output_layers[0].zero_point == 81


def test_the_operators_left_to_the_cpu_are_named(golden: ModelFolder) -> None:
    model = CompiledModel.load(golden.model("deeplabv3_mnv2_pascal_quant_edgetpu.tflite"))
    assert [spec.shape for spec in model.outputs] == [(1, 33, 33, 256), (1, 1, 1, 256)]
    assert model.cpu_operators == (
        "RESIZE_BILINEAR",
        "QUANTIZE",
        "CONCATENATION",
        "CONV_2D",
        "CONV_2D",
        "RESIZE_BILINEAR",
        "RESIZE_BILINEAR",
        "ARG_MAX",
    )


def test_operators_before_the_edge_tpu_part_are_named_too(golden: ModelFolder) -> None:
    model = CompiledModel.load(golden.model("movenet_single_pose_lightning_ptq_edgetpu.tflite"))
    assert [spec.name for spec in model.inputs] == ["tfl.quantize"]
    assert [spec.name for spec in model.outputs[:3]] == ["Reshape_2", "Sigmoid", "Sigmoid1"]
    assert model.cpu_operators[:2] == ("CAST", "QUANTIZE")
    assert model.parameter_bytes == 2862656 + 2368


def test_custom_operators_are_named_by_their_code(golden: ModelFolder) -> None:
    name = "posenet_mobilenet_v1_075_353_481_16_quant_decoder_edgetpu.tflite"
    assert CompiledModel.load(golden.model(name)).cpu_operators == ("PosenetDecoderOp",)


def test_the_other_parts_of_a_file_are_not_named_among_those_for_the_cpu() -> None:
    operators = {part.cpu_operators for part in CompiledModel.parse_parts(compiled_graph(2))}
    assert operators == {("QUANTIZE",) * 4}


def test_several_inputs_are_in_the_order_of_the_graph(golden: ModelFolder) -> None:
    name = "ssd_mobilenet_v1_coco_quant_postprocess_segment_1_of_2_edgetpu.tflite"
    model = CompiledModel.load(golden.model(name))
    assert [spec.shape for spec in model.inputs] == [(1, 19, 19, 512), (1, 10, 10, 1024)]
    assert [layer.size_bytes for layer in model.input_layers] == [184832, 102400]


def test_a_model_with_state_keeps_its_hidden_outputs_in_the_executable(golden: ModelFolder) -> None:
    model = CompiledModel.load(golden.model("keras_lstm_mnist_ptq_edgetpu.tflite"))
    assert [spec.dtype.name for spec in model.inputs] == ["uint8", "int8", "int16"]
    assert [layer.name for layer in model.output_layers] == ["StatefulPartitionedCall:0"]
    assert len(model.execution.outputs) == 3
    with pytest.raises(ModelUnsupportedError, match=r"'keras_lstm_mnist_ptq' .* not fully deterministic"):
        model.check_runnable()


def test_a_plain_graph_is_refused_with_the_remedy(golden: ModelFolder) -> None:
    with pytest.raises(
        ModelFormatError, match=r"not compiled for the Edge TPU.*with `edgetpu models compile`"
    ):
        CompiledModel.load(golden.model("dense_256.tflite"))


def test_a_missing_file_is_reported_as_such(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match="No such file"):
        CompiledModel.load(tmp_path / "none_edgetpu.tflite")


def test_one_executable_is_a_single_part_whatever_its_type() -> None:
    model = compiled(EXECUTION)
    assert (model.execution, model.caching) == (EXECUTION, None)
    assert not model.is_cached
    assert model.parameter_bytes == 0


def test_caching_and_execution_are_found_in_any_order() -> None:
    for executables in ((EXECUTION, CACHING), (CACHING, EXECUTION)):
        model = compiled(*executables)
        assert (model.execution, model.caching) == (EXECUTION, CACHING)


def test_a_stand_alone_executable_is_preferred() -> None:
    model = compiled(EXECUTION, CACHING, STAND_ALONE)
    assert (model.execution, model.caching) == (STAND_ALONE, None)


@pytest.mark.parametrize(
    "executables",
    [(EXECUTION, EXECUTION), (EXECUTION, STAND_ALONE), (CACHING, CACHING), (EXECUTION, CACHING, CACHING)],
)
def test_other_combinations_are_refused(executables: tuple[Executable, ...]) -> None:
    with pytest.raises(ModelFormatError, match="expected one executable, or PARAMETER_CACHING and"):
        compiled(*executables)


def test_executables_of_one_model_share_a_token() -> None:
    with pytest.raises(ModelFormatError, match="tokens of its executables differ: 0x4d and 0x4e"):
        compiled(replace(EXECUTION, parameter_caching_token=78), CACHING)


def test_tensors_and_layers_of_other_names_correspond_by_place() -> None:
    layer = replace(LAYER_IN, name="other")
    hints = (InstructionHint(0), DmaHint(Description.INPUT, Direction.INFEED, "other", 0, 8))
    model = compiled(replace(EXECUTION, inputs=(layer,), hints=hints))
    assert model.inputs[0].name == "in"
    assert model.input_layers == (layer,)


@pytest.mark.parametrize(
    "spec",
    [replace(SPEC_OUT, shape=(1, 15)), replace(SPEC_OUT, dtype=np.dtype(np.int16))],
)
def test_a_tensor_must_fit_its_layer(spec: TensorSpec) -> None:
    data = container(options(EXECUTION), result=spec)
    with pytest.raises(ModelFormatError, match=r"tensor 'out' .* does not fit layer 'out' of 16 elements"):
        CompiledModel.parse(data)


def test_a_tensor_without_a_layer_is_refused() -> None:
    execution = replace(EXECUTION, inputs=(), hints=EXECUTION.hints[:1])
    with pytest.raises(ModelFormatError, match=r"an input layer for each tensor \['in'\]"):
        compiled(execution)


def test_several_edge_tpu_parts_are_refused() -> None:
    data = container(options(EXECUTION), parts=2)
    with pytest.raises(ModelUnsupportedError, match="2 parts for the Edge TPU"):
        CompiledModel.parse(data)


def test_a_model_for_several_chips_is_refused() -> None:
    with pytest.raises(ModelUnsupportedError, match="compiled for several Edge TPUs"):
        CompiledModel.parse(container(options(EXECUTION, chip_id=-1)))


@pytest.mark.parametrize("custom_options", [{"1": 0}, {"4": 5}, [1, 2], {"4": b""}])
def test_options_without_a_package_are_refused(custom_options: flexbuffer.Value) -> None:
    with pytest.raises(ModelFormatError, match="package"):
        CompiledModel.parse(container(flexbuffer.encode(custom_options)))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"chip": "noronha"}, "compiled for the chip 'noronha', not 'beagle'"),
        ({"fully_deterministic": False}, "not fully deterministic"),
        (
            {"inputs": (replace(LAYER_IN, shape=(1, 1, 4), execution_count=2),)},
            "more than once per inference",
        ),
    ],
)
def test_a_model_that_cannot_run_over_usb_is_refused_with_the_reason(
    changes: dict[str, object], reason: str
) -> None:
    model = compiled(replace(EXECUTION, **changes))  # type: ignore[arg-type]
    with pytest.raises(ModelUnsupportedError, match=f"cannot run 'sample' over USB: .*{reason}"):
        model.check_runnable()


def test_a_batch_cannot_run_over_usb() -> None:
    half_in, half_out = replace(LAYER_IN, shape=(1, 1, 4)), replace(LAYER_OUT, shape=(1, 1, 8))
    model = compiled(replace(EXECUTION, batch_size=2, inputs=(half_in,), outputs=(half_out,)))
    with pytest.raises(ModelUnsupportedError, match="its batch size is 2, not 1"):
        model.check_runnable()


def test_parameters_are_those_of_both_executables() -> None:
    assert compiled(EXECUTION, CACHING).parameters == Parameters(cached=CACHING.parameters, streamed=b"")
    streaming = replace(EXECUTION, parameters=b"1234")
    assert compiled(streaming).parameters == Parameters(cached=b"", streamed=b"1234")


def test_the_digest_is_that_of_the_file() -> None:
    data = container(options(EXECUTION))
    assert CompiledModel.parse(data).sha256 == hashlib.sha256(data).hexdigest()


def test_a_truncated_model_is_malformed_wherever_it_is_cut() -> None:
    data = container(options(EXECUTION, CACHING))
    for size in range(0, len(data), 127):
        with pytest.raises(ModelFormatError):
            CompiledModel.parse(data[:size])


def renamed(data: bytes, old: str, new: str) -> bytes:
    """The file with another name, of the same length, for a tensor."""
    length = len(old).to_bytes(4, "little")
    return data.replace(length + old.encode() + b"\0", length + new.encode() + b"\0")


def test_the_part_of_a_graph_is_found_by_its_tensors_names() -> None:
    first, second = CompiledModel.parse_parts(compiled_graph(2))
    for part, names in ((first, ["a0", "b0"]), (second, ["a1", "b1"])):
        graph = parse_model(part.source_part(source_graph(2))).subgraphs[0]
        assert [spec.name for spec in (*graph.input_specs, *graph.output_specs)] == names


def test_a_renamed_tensor_is_found_by_its_shape_and_quantisation() -> None:
    builder = GraphBuilder()
    x = builder.input("x", (1, 4), np.int8, scale=0.5, zero_point=0)
    inner = builder.add(x, x, scale=0.25, zero_point=3, name="inner")
    builder.output(builder.add(inner, inner, scale=0.75, zero_point=0))
    graph = builder.build()
    part = CompiledModel.parse(pack(extract(graph, ["x"], ["inner"]), name="part"))
    source = parse_model(part.source_part(renamed(graph, "inner", "other"))).subgraphs[0]
    assert [spec.name for spec in source.output_specs] == ["other"]
    assert [operator.name for operator in source.operators] == ["ADD"]


def test_renamed_tensors_are_identified_by_the_operators_around_them() -> None:
    graph = source_graph(2)
    for name in ("a0", "b0", "c0", "a1", "b1"):
        graph = renamed(graph, name, f"z{name[0]}")
    for part, number in zip(CompiledModel.parse_parts(compiled_graph(2)), (0, 1), strict=True):
        expected = parse_model(part.source_part(source_graph(2))).subgraphs[0]
        told = parse_model(part.source_part(graph)).subgraphs[0]
        assert (told.inputs, told.outputs) == (expected.inputs, expected.outputs), number


def test_the_whole_graph_is_the_part_if_its_tensors_cannot_be_identified() -> None:
    builder = GraphBuilder()
    x = builder.input("x", (1, 4), np.int8, scale=0.5, zero_point=0)
    first = builder.add(x, x, scale=0.25, zero_point=3, name="inner")
    second = builder.add(first, first, scale=0.25, zero_point=3, name="like it")
    builder.output(builder.add(second, second, scale=0.75, zero_point=0))
    graph = builder.build()
    part = CompiledModel.parse(pack(extract(graph, ["x"], ["inner"]), name="part"), "part")
    other = renamed(graph, "inner", "other")
    assert part.source_part(other) == other
    with pytest.raises(GraphError, match=r"cannot find 'inner' int8\[1, 4\] of 'part' in its graph"):
        part.source_ends(parse_model(other).subgraphs[0])


def test_the_part_has_the_scales_of_the_compiled_file() -> None:
    builder, other = GraphBuilder(), GraphBuilder()
    for each, scale, zero_point in ((builder, 0.25, 3), (other, 0.125, -7)):
        x = each.input("x", (1, 4), np.int8, scale=0.5, zero_point=0)
        each.output(each.reshape(each.add(x, x, scale=scale, zero_point=zero_point), (1, 2, 2)))
    part = CompiledModel.parse(pack(builder.build(), name="part"))
    tensors = parse_model(part.source_part(other.build())).subgraphs[0].tensors
    steps = [(each.spec.scale, each.spec.zero_point) for each in tensors if each.dtype == np.int8]
    assert steps == [(0.5, 0), (0.25, 3), (0.25, 3)]


def test_a_file_with_several_parts_is_no_single_compiled_model() -> None:
    with pytest.raises(ModelUnsupportedError, match=r"2 parts for the Edge TPU .* edgetpu_driver\.Model"):
        CompiledModel.parse(compiled_graph(2))
