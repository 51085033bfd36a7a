"""Compiled files made into those of other graphs: the compiler's bytes, and what cannot be made."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgetpu_driver import CpuEngine, EdgeTpu, VirtualEdgeTpu
from edgetpu_driver.backends.usb import StickBackend
from edgetpu_driver.backends.virtual import pack_for_virtual_stick
from edgetpu_driver.cli.main import main
from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.darwinn.instructions.operations import Operation, split
from edgetpu_driver.darwinn.instructions.tensor_operation import has_offset, read_requantisation, requantises
from edgetpu_driver.darwinn.requantisation import Requantisation
from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.files.compiled_file_names import source_graph
from edgetpu_driver.host.model_host import ModelHost
from edgetpu_driver.tflite.constant_patch import replace_tensor
from edgetpu_driver.tflite.graph_edit import GraphEdit, TensorChange
from edgetpu_driver.tflite.model_reader import parse_model
from edgetpu_driver.toolchain import dense_graph
from edgetpu_driver.toolchain.dense_compiler import compile_dense
from edgetpu_driver.toolchain.model_directories import ModelDirectories
from edgetpu_driver.toolchain.retargeting.addition_factors import factors_of, scale_of_sum
from edgetpu_driver.toolchain.retargeting.graph_retargeting import RetargetedModel, retarget
from edgetpu_driver.weights.section_search import locate_sections
from testdata import GOLDEN
from testdata.graphs.graph_variants import GraphVariant, with_quantization

NAMES = {Path(name).stem: name for name in GOLDEN.names("", ".tflite")}
PAIRS = sorted(stem.removesuffix("_edgetpu") for stem in NAMES if stem.endswith("_edgetpu"))
PAIRS = [name for name in PAIRS if name in NAMES]
MOBILENET = "mobilenet_v1_0.25_128_quant"
POSENET = "posenet_mobilenet_v1_075_353_481_16_quant_decoder"
MOVENET = "movenet_single_pose_lightning_ptq"
RETRAINED = (
    *("color_red_64x64", "gabor_64x64_p4", "dense_256", "bright_64x64", "looming_64x64_3x3"),
    *(MOBILENET, POSENET),
)
"""Of every kind of quantisation, with biases and without."""
_LAYER = "MobilenetV1/Logits/Conv2d_1c_1x1"
LOGITS = f"{_LAYER}/BiasAdd;{_LAYER}/Conv2D;{_LAYER}/biases"

Run = Callable[..., tuple[int, dict[str, Any]]]


@cache
def file(stem: str) -> bytes:
    """A golden file."""
    return GOLDEN.path(NAMES[stem]).read_bytes()


def of_graph(name: str, graph: bytes) -> RetargetedModel:
    """A golden model retargeted to another graph."""
    return retarget(file(f"{name}_edgetpu"), file(name), graph, name)


@cache
def retrained(name: str) -> tuple[bytes, RetargetedModel]:
    """The graph of a golden model with other weights, scales and zero points; the model retargeted to it."""
    graph = GraphVariant(file(name), seed=3).build()
    return graph, of_graph(name, graph)


def without_token(data: bytes) -> bytes:
    """The file with zeros where its caching token is."""
    token = CompiledModel.parse(data).parameter_caching_token
    return data.replace(token.to_bytes(8, "little"), bytes(8))


def program(data: bytes) -> list[Operation]:
    """The operations of the program that runs, in order."""
    chunks = split(bitstream.data for bitstream in CompiledModel.parse(data).execution.bitstreams)
    return [operation for chunk in chunks for operation in chunk.operations]


def requantisations(data: bytes) -> list[Requantisation]:
    """Those of the program that runs, in order."""
    return [read_requantisation(each) for each in program(data) if requantises(each)]


@pytest.mark.parametrize(("source", "wanted"), [("red", "blue"), ("blue", "red")])
def test_another_colour_is_what_the_compiler_wrote_for_it(source: str, wanted: str) -> None:
    made = of_graph(f"color_{source}_64x64", file(f"color_{wanted}_64x64"))
    expected = file(f"color_{wanted}_64x64_edgetpu")
    assert without_token(made.file) == without_token(expected)
    tokens = {CompiledModel.parse(each).parameter_caching_token for each in (made.file, expected)}
    assert (
        len(tokens - {CompiledModel.parse(file(f"color_{source}_64x64_edgetpu")).parameter_caching_token})
        == 2
    )


@pytest.mark.parametrize("name", PAIRS)
def test_the_same_graph_gives_the_file_itself(name: str) -> None:
    made = of_graph(name, file(name))
    assert made.file == file(f"{name}_edgetpu")
    assert made.changed_layers == ()


@pytest.mark.parametrize("name", RETRAINED)
def test_a_retrained_graph_is_in_the_file(name: str) -> None:
    graph, made = retrained(name)
    assert made.requantised == ()
    before, after = CompiledModel.parse(file(f"{name}_edgetpu")), CompiledModel.parse(made.file)
    old, new = locate_sections(before, file(name)), locate_sections(after, graph)
    assert [(each.section.operator, each.offset) for each in new.placed] == [
        (each.section.operator, each.offset) for each in old.placed
    ]
    assert not any(each.own_scales for each in new.placed)
    whole = parse_model(graph).subgraphs[0]
    scales = {tensor.name: tensor.spec.scale for tensor in whole.tensors}
    assert [each.scale for each in after.inputs] == [scales[each.name] for each in after.inputs]
    assert [each.scale for each in after.outputs] == [scales[each.name] for each in after.outputs]
    assert [each.dequantization_factor for each in after.output_layers] == [
        each.scale for each in after.outputs
    ]


@pytest.mark.parametrize("name", [*RETRAINED, MOVENET, "deeplabv3_mnv2_pascal_quant", "split_concat"])
def test_the_way_back_gives_the_bytes_of_the_compiler(name: str) -> None:
    graph, there = retrained(name)
    back = retarget(there.file, graph, file(name), name).file
    assert without_token(back) == without_token(file(f"{name}_edgetpu"))


def test_the_calibration_of_the_file_counts_and_not_that_of_the_graph_next_to_it() -> None:
    graph, (variant, wanted) = file(MOBILENET), retrained(MOBILENET)
    tensors = parse_model(graph).subgraphs[0]
    within = (tensors.tensors[tensors.operators[each].outputs[0]].name for each in (4, 5, 20))
    output = tensors.tensors[tensors.outputs[0]].name
    others = with_quantization(graph, {**dict.fromkeys(within, (0.031, 0)), output: (0.0045, 0)})
    made = retarget(file(f"{MOBILENET}_edgetpu"), others, variant).file
    assert without_token(made) == without_token(wanted.file)


def test_only_the_operations_of_a_layer_change_with_its_weights_scale() -> None:
    graph = parse_model(file(MOBILENET)).subgraphs[0]
    layer = graph.operators[4]
    edit = GraphEdit(file(MOBILENET))
    finer = graph.tensors[layer.inputs[1]].quantization
    finer.scales[:] = finer.scales / 2
    edit.change({layer.inputs[1]: TensorChange(quantization=finer)})
    made = of_graph(MOBILENET, edit.file())
    before, after = requantisations(file(f"{MOBILENET}_edgetpu")), requantisations(made.file)
    changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert [(new.multiplier / old.multiplier) for old, new in changed] == [0.5]
    assert "32" not in made.remark
    assert [each.split()[0] for each in made.changed_layers] == ["CONV_2D"]


def test_channels_whose_scales_have_become_equal_keep_their_multipliers_in_the_parameters() -> None:
    graph = parse_model(file("dense_256")).subgraphs[0]
    weights = graph.operators[1].inputs[1]
    alike = graph.tensors[weights].quantization
    alike.scales[:] = alike.scales[0]
    edit = GraphEdit(file("dense_256"))
    edit.change({weights: TensorChange(quantization=alike)})
    made = CompiledModel.parse(of_graph("dense_256", edit.file()).file)
    before = CompiledModel.parse(file("dense_256_edgetpu"))
    assert made.execution.bitstreams == before.execution.bitstreams
    assert made.parameters == CompiledModel.parse(compile_dense(edit.file()).file).parameters


def test_random_weights_change_no_byte_outside_the_parameters_and_the_token() -> None:
    graph = GraphVariant(file(MOBILENET), seed=4, scales=False, zero_points=False).build()
    made = of_graph(MOBILENET, graph).file
    assert requantisations(made) == requantisations(file(f"{MOBILENET}_edgetpu"))
    before, after = CompiledModel.parse(file(f"{MOBILENET}_edgetpu")), CompiledModel.parse(made)
    assert before.execution.bitstreams == after.execution.bitstreams
    whole = (np.frombuffer(each, np.uint8) for each in (file(f"{MOBILENET}_edgetpu"), made))
    differing = np.count_nonzero(np.not_equal(*whole))
    parameters = (np.frombuffer(each.parameters.cached, np.uint8) for each in (before, after))
    old, new = parameters
    tokens = (each.parameter_caching_token.to_bytes(8, "little") for each in (before, after))
    in_token = sum(ours != theirs for ours, theirs in zip(*tokens, strict=True))
    assert differing == np.count_nonzero(old != new) + 2 * in_token


def test_other_shapes_are_refused_with_the_difference() -> None:
    with pytest.raises(ModelUnsupportedError, match="operator 0 is QUANTIZE"):
        retarget(file(f"{MOBILENET}_edgetpu"), file(MOBILENET), file("dense_256"))
    with pytest.raises(ModelUnsupportedError, match=r"inputs: 'x' uint8\[1, 512\], not 'x' uint8\[1, 256\]"):
        retarget(file("dense_256_edgetpu"), dense_graph.build(256), dense_graph.build(512))


def test_a_layer_whose_scales_are_not_known_is_refused_by_name() -> None:
    name = MOVENET
    graph = with_quantization(file(name), {"sub": (1.1, -128)})
    with pytest.raises(ModelUnsupportedError, match=r"SUB 'sub'.* cannot be retargeted"):
        of_graph(name, graph)


def test_factors_of_an_addition_are_those_of_the_compiler() -> None:
    # The first addition of DeepLab: its scales, and what its program holds.
    factors = factors_of((0.47327128052711487, 0.35828325152397156), (123, 125))
    assert (factors.first, factors.second) == (20929, 15844)
    assert factors.offset == -(20929 * 123 + 15844 * 125)
    (model,) = CompiledModel.parse_parts(file("deeplabv3_mnv2_pascal_quant_edgetpu"))
    chunks = split(bitstream.data for bitstream in model.execution.bitstreams)
    operations = [operation for chunk in chunks for operation in chunk.operations]
    assert sum(requantises(each) and has_offset(each, factors.offset) for each in operations) == 9


def test_the_step_of_a_sum_is_that_of_the_larger_scale() -> None:
    """The multiplier of an addition of MobileNet V2 for insects; the other step differs by two bits."""
    scales = 0.17907322943210602, 0.1868869513273239
    step = scale_of_sum(scales, factors_of(scales, (133, 128)))
    multiplier = np.float32(step) * (np.float32(1) / np.float32(0.1923215389251709))
    assert float(multiplier) == 5.475529542309232e-05
    assert step == scale_of_sum(scales[::-1], factors_of(scales[::-1], (128, 133)))


def test_a_bias_where_the_file_has_none_is_refused_by_name() -> None:
    name = parse_model(file("color_red_64x64")).subgraphs[0].operators[1].inputs[2]
    bias = parse_model(file("color_red_64x64")).subgraphs[0].tensors[name]
    graph = replace_tensor(file("color_red_64x64"), bias.name, np.array([5], np.int32))
    with pytest.raises(ModelUnsupportedError, match=r"CONV_2D .*it was compiled without a bias"):
        of_graph("color_red_64x64", graph)


def test_a_packed_file_is_refused() -> None:
    packed = pack_for_virtual_stick({"dense": file("dense_256")}, together=False)["dense"]
    with pytest.raises(ModelUnsupportedError, match="packed for the virtual stick"):
        retarget(packed, file("dense_256"), file("dense_256"), "dense")


def test_names_of_another_length_are_taken_over() -> None:
    graph = parse_model(file("color_red_64x64")).subgraphs[0]
    edit = GraphEdit(file("color_red_64x64"))
    edit.change({graph.inputs[0]: TensorChange(name="image"), graph.outputs[0]: TensorChange(name="x" * 90)})
    made = CompiledModel.parse(of_graph("color_red_64x64", edit.file()).file)
    assert [each.name for each in (*made.inputs, *made.input_layers)] == ["image", "image"]
    assert [each.name for each in (*made.outputs, *made.output_layers)] == ["x" * 90, "x" * 90]
    before = CompiledModel.parse(file("color_red_64x64_edgetpu"))
    assert made.execution.bitstreams[0].data == before.execution.bitstreams[0].data
    assert made.parameters == before.parameters


# The command.


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """`edgetpu models retarget` with JSON: exit code and answer."""

    def call(*arguments: str | Path) -> tuple[int, dict[str, Any]]:
        code = main(["models", "retarget", *map(str, arguments), "--json"])
        return code, json.loads(capsys.readouterr().out or "{}")

    return call


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory with one compiled colour, its graph and its sidecar, and the graph of another colour."""
    for stem in ("color_red_64x64", "color_red_64x64_edgetpu", "color_blue_64x64"):
        (tmp_path / f"{stem}.tflite").write_bytes(file(stem))
    sidecar = Path(NAMES["color_red_64x64_edgetpu"]).with_suffix(".json")
    shutil.copyfile(GOLDEN.path(str(sidecar)), tmp_path / sidecar.name)
    return tmp_path


def test_the_command_writes_the_file_next_to_the_graph(
    folder: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    code, answer = run(folder / "color_red_64x64_edgetpu.tflite", folder / "color_blue_64x64.tflite")
    assert code == 0
    made = (folder / "color_blue_64x64_edgetpu.tflite").read_bytes()
    assert without_token(made) == without_token(file("color_blue_64x64_edgetpu"))
    assert answer["compiled"] == str(folder / "color_blue_64x64_edgetpu.tflite")
    sidecar = json.loads((folder / "color_blue_64x64_edgetpu.json").read_text())
    assert sidecar["retargeted_from"] == "color_red_64x64_edgetpu.tflite"
    assert "stick" in sidecar["remark"]
    assert (sidecar["variant"], sidecar["output_zero_point"]) == ("color_blue", -43)
    assert sidecar["output_scale"] == CompiledModel.parse(made).outputs[0].scale
    assert main(["info", str(folder / "color_blue_64x64_edgetpu.tflite"), "--json"]) == 0
    remark = json.loads(capsys.readouterr().out)["remark"]
    assert remark == f"made from color_red_64x64_edgetpu.tflite: {sidecar['remark']}"


def test_a_compiled_file_of_others_is_kept(
    folder: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    there = folder / "color_blue_64x64_edgetpu.tflite"
    there.write_bytes(file("gabor_64x64_p4_edgetpu"))
    assert main(
        [
            "models",
            "retarget",
            str(folder / "color_red_64x64_edgetpu.tflite"),
            str(folder / "color_blue_64x64.tflite"),
        ]
    )
    assert "is not overwritten; give --output" in capsys.readouterr().err
    assert there.read_bytes() == file("gabor_64x64_p4_edgetpu")
    code, _ = run(
        folder / "color_red_64x64_edgetpu.tflite",
        folder / "color_blue_64x64.tflite",
        "--output",
        folder / "new",
    )
    assert code == 0
    assert sorted(path.name for path in (folder / "new").iterdir()) == [
        "color_blue_64x64.tflite",
        "color_blue_64x64_edgetpu.json",
        "color_blue_64x64_edgetpu.tflite",
    ]


def test_a_graph_whose_layers_were_requantised_is_next_to_the_file(tmp_path: Path, run: Run) -> None:
    for stem in (POSENET, f"{POSENET}_edgetpu"):
        (tmp_path / f"{stem}.tflite").write_bytes(file(stem))
    # What the PAD writes is not found in the program.
    graph = with_quantization(file(POSENET), dict.fromkeys(("tfl.quantize", "pad_input"), (0.01, 1)))
    (tmp_path / "mine.tflite").write_bytes(graph)
    code, answer = run(tmp_path / f"{POSENET}_edgetpu.tflite", tmp_path / "mine.tflite")
    assert code == 0
    assert [each["own_zero_point"] for each in answer["requantised"]] == [129]
    assert (tmp_path / "mine.tflite").read_bytes() == graph
    made = tmp_path / "mine_edgetpu.tflite"
    assert source_graph(made) == tmp_path / "mine_requantised.tflite"
    located = locate_sections(CompiledModel.load(made), (tmp_path / "mine_requantised.tflite").read_bytes())
    assert located.missing == ()
    made.write_bytes(file(f"{POSENET}_edgetpu"))
    assert source_graph(made) == tmp_path / "mine.tflite"


def test_a_compiled_file_without_its_graph_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x_edgetpu.tflite").write_bytes(file("dense_256_edgetpu"))
    (tmp_path / "y.tflite").write_bytes(file("dense_256"))
    assert main(["models", "retarget", str(tmp_path / "x_edgetpu.tflite"), str(tmp_path / "y.tflite")])
    assert "expected the graph of x_edgetpu.tflite next to it" in capsys.readouterr().err


# Without being asked.


def test_a_driver_of_a_stick_runs_every_colour_from_one_compiled_file(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    name = "color_blue_64x64"
    made = of_graph("color_red_64x64", file(name))
    virtual = VirtualEdgeTpu()
    virtual.register_model(CompiledModel.parse(made.file, name), file(name))
    host = ModelHost([StickBackend(lambda _: EdgeTpu.open(virtual))], [folder])
    host.connect()
    pixels = np.random.default_rng(1).integers(0, 256, (1, 64, 64, 3), np.uint8)
    with caplog.at_level("INFO"):
        for _ in range(2):
            (source,) = host.load(name).inputs
            outputs = host.invoke(name, {source.name: pixels}).outputs
            host.unload(name)
    host.close()
    expected = CpuEngine(file(name)).run({source.name: pixels})
    for key, value in expected.items():
        np.testing.assert_array_equal(outputs[key], value)
    assert [each for each in caplog.messages if "color_red_64x64_edgetpu.tflite" in each] == [
        f"the program of {name}.tflite is made from color_red_64x64_edgetpu.tflite: {made.remark}"
    ]
    assert not (folder / f"{name}_edgetpu.tflite").exists()


def test_graphs_that_a_compiled_file_serves_are_models_of_a_stick(folder: Path) -> None:
    (folder / "gabor_64x64_p4.tflite").write_bytes(file("gabor_64x64_p4"))
    directories = ModelDirectories([folder], compiled=True, uncompiled=False)
    assert [path.name for path in directories.available()] == [
        "color_blue_64x64.tflite",
        "color_red_64x64_edgetpu.tflite",
    ]
    assert directories.find("color_blue_64x64") == folder / "color_blue_64x64.tflite"
    with pytest.raises(ModelUnsupportedError, match="not compiled for the Edge TPU"):
        directories.find("gabor_64x64_p4")


def test_a_damaged_graph_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x_edgetpu.tflite").write_bytes(b"whatever")
    (tmp_path / "bad.tflite").write_bytes(b"no model")
    bad = tmp_path / "bad.tflite"
    assert main(["models", "retarget", str(tmp_path / "x_edgetpu.tflite"), str(bad)]) == 1
    message = f"edgetpu: {bad}: model: expected the file identifier TFL3 at byte 4, got b'odel'\n"
    assert capsys.readouterr().err.endswith(message)
