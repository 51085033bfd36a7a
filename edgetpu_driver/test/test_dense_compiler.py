"""Dense graphs compiled here: as by Google's compiler where that can be told, and right elsewhere."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver import EdgeTpu, VirtualEdgeTpu, WeightRequest
from edgetpu_driver.backends.factory import make_backend
from edgetpu_driver.backends.usb import StickBackend
from edgetpu_driver.cli.main import main
from edgetpu_driver.compiled_model import DENSE_COMPILER, CompiledModel
from edgetpu_driver.darwinn.executable import DataType, Description
from edgetpu_driver.darwinn.instructions.operations import cut
from edgetpu_driver.darwinn.instructions.tensor_operation import read_requantisation, requantises
from edgetpu_driver.darwinn.parameters.dense_layout import DenseLayout, PaddedDenseLayout
from edgetpu_driver.darwinn.programs.dense_program import SIZES, DenseProgram
from edgetpu_driver.darwinn.requantisation import Requantisation
from edgetpu_driver.errors import InputError, ModelFormatError, ModelNotFoundError, ModelUnsupportedError
from edgetpu_driver.host.model_host import ModelHost
from edgetpu_driver.matrix.loaded_matrix import ProductRequest
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.toolchain import dense_graph
from edgetpu_driver.toolchain.compiled_file_writer import write_compiled_file
from edgetpu_driver.toolchain.dense_compiler import compile_dense, dense_model, is_dense
from edgetpu_driver.toolchain.model_directories import ModelDirectories
from edgetpu_driver.weights.sidecar_files import SidecarFiles
from edgetpu_driver.weights.weight_locations import weight_locations
from testdata import ModelFolder

INPUT_SCALE, OUTPUT_SCALE = 1 / 128, 1 / 16
ANY = Requantisation(1.0, -128.0, 127.0, 128, 0, 128)


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
    return CompiledModel.parse(compile_dense(graph).file, "matrix")


def requantisation(model: CompiledModel) -> Requantisation:
    (chunk,) = cut([model.execution.bitstreams[0].data])
    assert not chunk.obstacle
    (found,) = (read_requantisation(each) for each in chunk.operations if requantises(each))
    return found


def chip_product(model: CompiledModel, values: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """What the chip computes of input bytes, by the documented arithmetic and the file's own bytes."""
    size = model.execution.inputs[0].size_bytes
    layout, blob = DenseLayout(size), np.frombuffer(model.parameters.cached, np.uint8)
    wire = np.zeros(size, np.int64)
    sent = values.tobytes() + model.input_padding
    wire[: len(sent)] = np.frombuffer(sent, np.uint8)
    program = requantisation(model)
    sums = layout.decode(blob).astype(np.int64) @ (wire - program.input_zero_point)
    steps = np.clip(layout.decode_multipliers(blob) * sums, program.minimum, program.maximum)
    result = np.clip(np.rint(steps) + program.output_zero_point, 0, 255).astype(np.uint8)
    return result[: model.outputs[0].shape[1]]


def litert_product(graph: bytes, values: NDArray[Any]) -> NDArray[Any]:
    pytest.importorskip("ai_edge_litert", reason="needs LiteRT")
    from edgetpu_driver.engines.cpu_engine import CpuEngine

    (result,) = CpuEngine(graph).run({"x": values.reshape(1, -1)}).values()
    return result.reshape(-1)


def difference(left: NDArray[Any], right: NDArray[Any]) -> int:
    return int(np.abs(left.astype(int) - right.astype(int)).max())


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
    (chunk,) = cut([DenseProgram(size, ANY).caching().data])
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
    (chunk,) = cut([shorter.data])
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


@pytest.mark.parametrize(("rows", "columns", "size"), [(1, 3, 256), (100, 300, 512), (700, 513, 768)])
def test_a_smaller_matrix_is_padded(rows: int, columns: int, size: int) -> None:
    graph = matrix_graph(rows, columns)
    model = compiled(graph)
    assert (model.inputs[0].shape, model.outputs[0].shape) == ((1, columns), (1, rows))
    assert model.execution.inputs[0].size_bytes == model.execution.outputs[0].size_bytes == size
    assert f"{rows} x {columns} padded to {size} x {size}" in model.remark
    values = np.random.default_rng(1).integers(0, 256, columns, np.uint8)
    assert difference(chip_product(model, values), litert_product(graph, values)) <= 1


def test_a_bias_rides_on_inputs_that_the_layer_does_not_have() -> None:
    bias = np.random.default_rng(2).integers(-100_000, 100_000, 200, np.int32)
    graph = matrix_graph(200, 200, bias=bias)
    model = compiled(graph)
    assert "on 8 unused inputs, one of which the host holds at one step, exactly" in model.remark
    assert model.input_padding == bytes([*bytes(7), 129])
    values = np.random.default_rng(1).integers(0, 256, 200, np.uint8)
    assert difference(chip_product(model, values), litert_product(graph, values)) <= 1


@pytest.mark.parametrize("input_zero_point", [-127, -28, 0, 127])
def test_a_bias_is_exact_to_the_step(input_zero_point: int) -> None:
    """The bias is what comes of inputs that are all zero: in steps of the accumulator."""
    bias = np.arange(-300, 300, 3, dtype=np.int32)
    model = compiled(matrix_graph(200, 200, bias=bias, input_zero_point=input_zero_point))
    weights = DenseLayout(256).decode(np.frombuffer(model.parameters.cached, np.uint8))
    held = np.frombuffer(model.input_padding, np.uint8).astype(np.int64) - (input_zero_point + 128)
    columns = weights[:200, 200 : 200 + held.size].astype(np.int64)
    np.testing.assert_array_equal(columns @ held, bias)


def test_a_bias_of_multiples_needs_no_finer_input() -> None:
    model = compiled(matrix_graph(200, 200, bias=np.full(200, 1280, np.int32)))
    assert model.input_padding == bytes(1)
    assert "the bias rides on 1 unused input, exactly" in model.remark


def test_no_larger_program_is_written_for_a_finer_bias() -> None:
    model = compiled(matrix_graph(255, 255, bias=np.full(255, 1000, np.int32)))
    assert (model.execution.inputs[0].size_bytes, model.input_padding) == (256, bytes(1))
    assert "the bias rides on 1 unused input, rounded by up to 0.0" in model.remark


def test_the_stick_gets_what_stands_for_the_bias() -> None:
    bias = np.arange(-100, 100, dtype=np.int32) * 37
    model = compiled(matrix_graph(200, 200, bias=bias))
    values = np.random.default_rng(1).integers(0, 256, (2, 200), np.uint8)
    with EdgeTpu.open(VirtualEdgeTpu()) as tpu:
        for row in values:  # what is sent after the inputs stays from run to run
            outputs = tpu.run(model, {model.inputs[0].name: row[np.newaxis]})
            np.testing.assert_array_equal(outputs[model.outputs[0].name][0], chip_product(model, row))


def test_padding_that_does_not_fit_is_refused() -> None:
    plan = compiled(matrix_graph(256, 256))
    file = write_compiled_file(
        "x", plan.inputs, plan.outputs, (plan.execution,), compiler="x", input_padding=bytes(1)
    )
    with pytest.raises(ModelFormatError, match="is not for the 0 bytes after one input"):
        CompiledModel.parse(file)


def test_a_bias_that_leaves_no_input_free_takes_the_next_size() -> None:
    graph = matrix_graph(256, 256, bias=np.full(256, 1000, np.int32))
    assert compiled(graph).execution.inputs[0].size_bytes == 512


def test_int8_inputs_and_outputs_cross_the_wire_with_their_sign_flipped() -> None:
    model = compiled(matrix_graph(256, 256, from_uint8=False, to_uint8=False, input_zero_point=-1))
    (source,), (result,) = model.execution.inputs, model.execution.outputs
    assert source.data_type == result.data_type == DataType.SIGNED_FIXED_POINT8
    assert (source.zero_point, model.inputs[0].zero_point) == (127, -1)
    assert requantisation(model).input_zero_point == 127


def two_layers() -> bytes:
    graph = GraphBuilder("two")
    x = graph.input("x", (1, 4), np.int8, scale=1.0, zero_point=0)
    for _ in range(2):
        x = graph.fully_connected(x, np.ones((4, 4), int), 1.0, scale=1.0, zero_point=0)
    graph.output(x)
    return graph.build()


def rescaling() -> bytes:
    graph = GraphBuilder("rescaling")
    x = graph.input("x", (1, 4), np.uint8, scale=1.0, zero_point=128)
    x = graph.quantize(x, np.int8, scale=0.5, zero_point=0)
    graph.output(graph.fully_connected(x, np.ones((4, 4), int), 1.0, scale=1.0, zero_point=0))
    return graph.build()


@pytest.mark.parametrize(
    ("graph", "reason"),
    [
        (two_layers(), "one FULLY_CONNECTED layer between QUANTIZE operators; got FULLY_CONNECTED, FULLY"),
        (rescaling(), "to have the scale of the layer"),
        (matrix_graph(4, 1025), "up to 1024 x 1024; got 4 x 1025. MatMul cuts larger ones into tiles"),
        (matrix_graph(4, 1024, bias=np.ones(4, np.int32) * 1000), "leave no room for the bias"),
        (matrix_graph(4, 4, bias=np.ones(4, np.int32) * 1000, input_zero_point=-128), "add it on the host"),
        (matrix_graph(4, 4, bias=np.full(4, 2**30, np.int32)), "leave no room for the bias"),
    ],
    ids=["two layers", "rescaling", "too large", "bias without room", "bias without value", "large bias"],
)
def test_other_graphs_are_refused_with_the_reason(graph: bytes, reason: str) -> None:
    assert not is_dense(graph)
    with pytest.raises(ModelUnsupportedError, match=reason):
        compile_dense(graph)


def test_weights_of_a_padded_matrix_are_found_with_and_without_the_graph() -> None:
    graph = matrix_graph(100, 300)
    model = compiled(graph)
    (named,) = weight_locations(model, SidecarFiles(graph)).known
    (unnamed,) = weight_locations(model, SidecarFiles()).known
    assert (named.tensor.name, unnamed.tensor.name) == ("product/weights", "weights")
    assert named.tensor.shape == unnamed.tensor.shape == (100, 300)
    np.testing.assert_allclose(unnamed.tensor.scales, named.tensor.scales, rtol=1e-6)
    assert named.tensor.is_pure_matmul
    assert unnamed.tensor.is_pure_matmul


def test_rows_with_a_bias_on_inputs_keep_their_scales() -> None:
    graph = matrix_graph(100, 100, bias=np.full(100, 1000, np.int32))
    for sidecars in (SidecarFiles(graph), SidecarFiles()):
        (location,) = weight_locations(compiled(graph), sidecars).known
        assert location.requantisation is None
        assert not location.tensor.is_pure_matmul


@pytest.mark.parametrize(("activation", "pure"), [("NONE", True), ("RELU", False), ("RELU6", False)])
def test_a_program_with_an_activation_is_no_pure_product(activation: str, pure: bool) -> None:
    """Without the graph the clamps in the program tell."""
    model = compiled(matrix_graph(256, 256, activation=activation))
    (location,) = weight_locations(model, SidecarFiles()).known
    assert location.tensor.is_pure_matmul == pure


def test_padding_keeps_its_bias_and_refuses_other_bytes() -> None:
    layout = PaddedDenseLayout(3, 5, 256, np.full((3, 2), 7, np.int8))
    blob = layout.new_blob(np.ones(3, np.float32))
    weights = np.arange(15, dtype=np.int8).reshape(3, 5)
    layout.encode(weights, blob)
    whole = DenseLayout(256).decode(blob)
    np.testing.assert_array_equal(whole[:3, 5:7], 7)
    assert np.count_nonzero(whole) == 14 + 6
    np.testing.assert_array_equal(layout.decode(blob), weights)
    np.testing.assert_array_equal(layout.decode_multipliers(blob), [1, 1, 1])
    blob[-1] ^= 1
    with pytest.raises(ModelFormatError, match="the padding of a matrix"):
        layout.decode(blob)


@pytest.fixture
def models(tmp_path: Path) -> Path:
    (tmp_path / "dense_256.tflite").write_bytes(dense_graph.build(256))
    (tmp_path / "two.tflite").write_bytes(two_layers())
    return tmp_path


def test_usb_needs_no_compiled_file_for_a_matrix(models: Path) -> None:
    files = ModelDirectories([models], compiled=True, uncompiled=False)
    path = files.find("dense_256")
    assert files.available() == [path] == [models / "dense_256.tflite"]
    parsed = make_backend("usb").parse(path, path.read_bytes())
    assert parsed.unsupported_reason == ""
    assert parsed.source.compiler == DENSE_COMPILER
    with pytest.raises(ModelUnsupportedError, match=r"run: edgetpu_compiler two\.tflite"):
        files.find("two")
    with pytest.raises(ModelNotFoundError, match=r"no dense_512_edgetpu\.tflite"):
        files.find("dense_512")


def test_usb_prefers_the_compiled_file(models: Path) -> None:
    compiled_path = models / "dense_256_edgetpu.tflite"
    compiled_path.write_bytes(dense_model(256).file)
    files = ModelDirectories([models], compiled=True, uncompiled=False)
    assert files.find("dense_256") == compiled_path
    assert files.available() == [compiled_path]


@pytest.mark.parametrize("shape", [(100, 50), (300, 400)])
def test_a_driver_on_usb_multiplies_without_a_compiled_file(models: Path, shape: tuple[int, int]) -> None:
    """The backend `usb` on a stick that behaves like one on the bus; it was told of no graph."""
    host = ModelHost([StickBackend(lambda _: EdgeTpu.open(VirtualEdgeTpu()))], [models])
    host.connect()
    host.load("dense_256")
    matrix = np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)
    vector = np.linspace(-1, 1, shape[1], dtype=np.float32)
    host.set_weights("dense_256", WeightRequest(matrix))
    result = host.multiply("dense_256", ProductRequest(vector))
    exact = matrix @ vector
    assert np.linalg.norm(result.outputs[: shape[0]] - exact) / np.linalg.norm(exact) < 0.03
    host.close()


def test_the_command_writes_the_program_and_says_so(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "compile", str(models / "dense_256.tflite")]) == 0
    text = capsys.readouterr().out
    assert "written here: the program equals Google's for this size; never run on a stick" in text
    sidecar = json.loads((models / "dense_256_edgetpu.json").read_text())
    assert (sidecar["matrix_size"], sidecar["compiler"]) == (256, DENSE_COMPILER)
    assert main(["info", str(models / "dense_256_edgetpu.tflite")]) == 0
    assert "written here: the program equals Google's" in capsys.readouterr().out


def test_info_says_that_usb_runs_the_graph_itself(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(models / "dense_256.tflite")]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "on usb yes: its program is written here: the program equals Google's for this size" in text


def test_compiling_again_replaces_what_was_written_here(models: Path) -> None:
    graph = str(models / "dense_256.tflite")
    assert main(["models", "compile", graph]) == 0
    before = (models / "dense_256_edgetpu.tflite").read_bytes()
    assert main(["models", "compile", graph]) == 0
    assert (models / "dense_256_edgetpu.tflite").read_bytes() == before
