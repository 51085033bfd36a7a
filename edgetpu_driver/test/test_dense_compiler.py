"""Dense graphs compiled here: as by Google's compiler where its output is known, and correct elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from edgetpu_driver.compiled_model import DENSE_COMPILER, CompiledModel
from edgetpu_driver.darwinn.executable import DataType, Description
from edgetpu_driver.darwinn.instructions.operations import split
from edgetpu_driver.darwinn.parameters.dense_layout import DenseLayout
from edgetpu_driver.darwinn.programs.dense_program import SIZES, DenseProgram
from edgetpu_driver.darwinn.requantisation import Requantisation
from edgetpu_driver.errors import InputError, ModelUnsupportedError
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.tflite.model_reader import Model, Quantization, parse_model
from edgetpu_driver.toolchain import dense_graph
from edgetpu_driver.toolchain.dense_compiler import compile_dense, dense_model, is_dense
from edgetpu_driver.weights.dense_program_plan import plan_dense_program
from edgetpu_driver.weights.sidecar_files import SidecarFiles
from edgetpu_driver.weights.weight_locations import WeightLocations
from testdata import ModelFolder
from testdata.graphs.dense_graphs import (
    chip_product,
    compiled,
    difference,
    litert_product,
    matrix_graph,
    requantisation,
    two_layers,
)

ANY = Requantisation(1.0, -128.0, 127.0, 128, 0, 128)


def test_the_executables_are_those_of_googles_compiler_but_for_the_token(golden: ModelFolder) -> None:
    ours = compiled(golden.model("dense_256.tflite").read_bytes())
    theirs = CompiledModel.load(golden.model("dense_256_edgetpu.tflite"))
    assert (ours.inputs, ours.outputs) == (theirs.inputs, theirs.outputs)
    token = theirs.parameter_caching_token
    assert ours.caching is not None
    assert replace(ours.execution, parameter_caching_token=token) == theirs.execution
    assert replace(ours.caching, parameter_caching_token=token) == theirs.caching
    assert ours.caching.parameter_caching_token == ours.execution.parameter_caching_token


@pytest.mark.parametrize("size", SIZES)
def test_programs_have_the_sizes_and_address_fields_of_the_compilers(size: int) -> None:
    program, tiles = DenseProgram(size, ANY), size // 64
    caching, execution = program.caching(), program.execution("x", "y")
    assert len(caching.data) == 16 * (35 + 8 * tiles)
    assert len(execution.data) == 16 * (144 + 30 * tiles)
    assert program.parameter_bytes == DenseLayout(size).size == tiles * (512 + 64 * size)
    assert program.narrow_memory_bytes_per_tile == size + 576
    words = {(each.description, each.position.name): each.bit // 128 for each in execution.field_offsets}
    assert words[Description.OUTPUT, "UPPER_32BIT"] == 102 + 24 * tiles
    assert words[Description.OUTPUT, "LOWER_32BIT"] == 103 + 24 * tiles
    assert words[Description.INPUT, "UPPER_32BIT"] == 14
    assert {each.bit % 128 for each in (*caching.field_offsets, *execution.field_offsets)} == {70}


@pytest.mark.parametrize("size", SIZES)
def test_every_tile_takes_its_own_rows_of_the_parameters(size: int) -> None:
    (chunk,) = split([DenseProgram(size, ANY).caching().data])
    pops = [each for each in chunk.operations if each.name == "pop"]
    consumers = [each for each in chunk.operations if each.name == "ring_consumer"]
    tiles = [1 << tile for tile in range(size // 64)]
    assert [each.tiles for each in pops] == [each.tiles for each in consumers] == tiles
    assert [each.field(320, 335) for each in pops] == [1 + (size + 8) * tile for tile in range(size // 64)]
    assert {each.field(95, 105) for each in consumers} == {size // 4 - 1}


def test_a_program_for_another_size_is_refused() -> None:
    with pytest.raises(InputError, match="256, 512, 768, 1024 rows; got 320"):
        DenseProgram(320, ANY)


def test_without_the_last_quantize_the_program_lacks_one_operation() -> None:
    whole = DenseProgram(768, ANY).execution("x", "y")
    shorter = DenseProgram(768, ANY, converts_output=False).execution("x", "y")
    assert len(whole.data) - len(shorter.data) == 7 * 16
    (chunk,) = split([shorter.data])
    assert chunk.obstacle == ""
    assert shorter.field_offsets[-1].bit == whole.field_offsets[-1].bit - 7 * 128
    assert int.from_bytes(shorter.data[:16], "little") >> 19 == (len(shorter.data) // 16 - 2) * 128


@pytest.mark.parametrize("size", SIZES)
def test_the_suites_own_matrices_are_compiled(size: int) -> None:
    model = dense_model(size)
    model.check_runnable()
    assert (model.name, model.compiler) == (f"dense_{size}", DENSE_COMPILER)
    assert model.inputs[0].shape == model.outputs[0].shape == (1, size)
    assert model.parameters.cached == compiled(dense_graph.build(size)).parameters.cached


@pytest.mark.parametrize(
    ("size", "remark"),
    [
        (1024, "the program equals Google's for this size; never run on a stick"),
        (
            300,
            "300 x 300 padded to 512 x 512; the program equals Google's for this size; never run on a stick",
        ),
        (
            768,
            "the program equals Google's for this size in the bytes that are published, which lack the last "
            "QUANTIZE; never run on a stick",
        ),
    ],
)
def test_the_file_says_what_its_program_was_compared_with(size: int, remark: str) -> None:
    assert dense_model(size).remark == remark


def test_a_form_of_graph_that_was_not_compared_is_said_to_be() -> None:
    remark = compiled(matrix_graph(256, 256, from_uint8=False)).remark
    assert remark.startswith("the program follows Google's; none for this form of graph was there to compare")


def test_768_was_compared_without_the_last_quantize() -> None:
    remark = compiled(matrix_graph(768, 768, to_uint8=False)).remark
    assert remark == (
        "the program equals Google's for this size in the bytes that are published; never run on a stick"
    )


@pytest.mark.parametrize("activation", ["NONE", "RELU", "RELU6"])
@pytest.mark.parametrize("zero_points", [(0, 0), (-128, -128), (5, -100)])
def test_the_chips_arithmetic_on_the_file_gives_what_litert_computes(
    activation: str, zero_points: tuple[int, int]
) -> None:
    source, result = zero_points
    graph = matrix_graph(256, 256, activation=activation, input_zero_point=source, output_zero_point=result)
    values = np.random.default_rng(1).integers(0, 256, 256, np.uint8)
    assert difference(chip_product(compiled(graph), values), litert_product(graph, values)) <= 1


def test_int8_inputs_and_outputs_cross_the_wire_with_their_sign_flipped() -> None:
    model = compiled(matrix_graph(256, 256, from_uint8=False, to_uint8=False, input_zero_point=-1))
    (source,), (result,) = model.execution.inputs, model.execution.outputs
    assert source.data_type == result.data_type == DataType.SIGNED_FIXED_POINT8
    assert (source.zero_point, model.inputs[0].zero_point) == (127, -1)
    assert requantisation(model).input_zero_point == 127


def rescaling(scale: float, own_scale: float, own_zero_point: int = 0) -> bytes:
    """A graph whose QUANTIZE, from a scale and zero point 128, may change more than the dtype."""
    graph = GraphBuilder("rescaling")
    x = graph.input("x", (1, 4), np.uint8, scale=scale, zero_point=128)
    x = graph.quantize(x, np.int8, scale=own_scale, zero_point=own_zero_point)
    graph.output(graph.fully_connected(x, np.ones((4, 4), int), scale, scale=1.0, zero_point=0, name="y"))
    return graph.build()


def quantised_twice() -> bytes:
    graph = GraphBuilder("quantised_twice")
    x = graph.input("x", (1, 4), np.uint8, scale=1.0, zero_point=128)
    for _ in range(2):
        x = graph.quantize(x, np.int8, scale=1.0, zero_point=0)
    graph.output(graph.fully_connected(x, np.ones((4, 4), int), 1.0, scale=1.0, zero_point=0))
    return graph.build()


@pytest.mark.parametrize(
    ("graph", "reason"),
    [
        (two_layers(), "one FULLY_CONNECTED layer between QUANTIZE operators; got FULLY_CONNECTED, FULLY"),
        (rescaling(1.0, 0.5), "the layer's scale, 0.5; got 'x' uint8.* of scale 1 and zero point 128"),
        (rescaling(1.0, 1.0, 3), "zero point, 131 as uint8; got 'x' uint8.* of scale 1 and zero point 128"),
        (rescaling(1e-30, 1e-30), "got 1e-30 of the input, 1e-30 to 1e-30 of the weights and 1 of the out"),
        (quantised_twice(), "one after it; got QUANTIZE, QUANTIZE, FULLY_CONNECTED"),
        (matrix_graph(4, 1025), "up to 1024 x 1024; got 4 x 1025. MatMul cuts larger ones into tiles"),
        (matrix_graph(4, 1024, bias=np.ones(4, np.int32) * 1000), "leave none for the bias"),
        (matrix_graph(4, 4, bias=np.full(4, 2**30, np.int32)), "leave none for the bias"),
    ],
    ids=[
        "two layers",
        "rescaling",
        "moving zero",
        "tiny scale",
        "quantised twice",
        "too large",
        "bias without room",
        "large bias",
    ],
)
def test_other_graphs_are_refused_with_the_reason(graph: bytes, reason: str) -> None:
    assert not is_dense(graph)
    with pytest.raises(ModelUnsupportedError, match=reason):
        compile_dense(graph)


def with_tensor(model: Model, index: int, **changes: Any) -> Model:
    """A parsed model with changes of one tensor."""
    graph = model.subgraphs[0]
    changed = replace(graph.tensors[index], **changes)
    tensors = (*graph.tensors[:index], changed, *graph.tensors[index + 1 :])
    return replace(model, subgraphs=(replace(graph, tensors=tensors),))


def test_an_input_of_16_bits_is_refused() -> None:
    model = parse_model(rescaling(1.0, 1.0))
    wide = with_tensor(model, model.subgraphs[0].inputs[0], dtype=np.dtype(np.int16))
    with pytest.raises(ModelUnsupportedError, match=r"expected uint8 or int8 as the input; got 'x' int16"):
        plan_dense_program(wide)


@pytest.mark.parametrize(
    ("zero_points", "got"),
    [([], "0 scales and zero points \\[\\]"), ([3], "1 scales and zero points \\[3\\]")],
)
def test_weights_of_another_quantisation_are_refused(zero_points: list[int], got: str) -> None:
    model = parse_model(rescaling(1.0, 1.0))
    scales = np.ones(len(zero_points), np.float32)
    quantisation = Quantization(scales, np.array(zero_points, np.int64))
    other = with_tensor(model, model.subgraphs[0].operators[1].inputs[1], quantization=quantisation)
    with pytest.raises(ModelUnsupportedError, match=f"one for each of 4 rows; got {got}"):
        plan_dense_program(other)


def test_weights_of_a_padded_matrix_are_found_with_and_without_the_graph() -> None:
    graph = matrix_graph(100, 300)
    model = compiled(graph)
    (named,) = WeightLocations(model, SidecarFiles(graph)).known
    (unnamed,) = WeightLocations(model, SidecarFiles()).known
    assert (named.tensor.name, unnamed.tensor.name) == ("product/weights", "weights")
    assert named.tensor.shape == unnamed.tensor.shape == (100, 300)
    np.testing.assert_allclose(unnamed.tensor.scales, named.tensor.scales, rtol=1e-6)
    assert named.tensor.is_pure_matmul
    assert unnamed.tensor.is_pure_matmul


@pytest.mark.parametrize(("activation", "pure"), [("NONE", True), ("RELU", False), ("RELU6", False)])
def test_a_program_with_an_activation_is_no_pure_product(activation: str, pure: bool) -> None:
    """Without the graph the clamps in the program tell."""
    model = compiled(matrix_graph(256, 256, activation=activation))
    (location,) = WeightLocations(model, SidecarFiles()).known
    assert location.tensor.is_pure_matmul == pure
