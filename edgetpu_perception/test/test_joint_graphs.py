"""One graph with a head for each perception algorithm gives the numbers of the single graphs."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from edgetpu_driver import CompiledModel, CpuEngine, EdgeTpu, VirtualEdgeTpu
from edgetpu_driver.backends.virtual import pack_for_virtual_stick
from edgetpu_driver.cli.main import main
from edgetpu_driver.errors import ModelNameError, ModelUnsupportedError
from edgetpu_driver.tflite.model_reader import parse_model
from edgetpu_driver.toolchain.catalogue_recognition import is_of_catalogue
from edgetpu_driver.toolchain.graph_family import joint_name
from edgetpu_driver.toolchain.joint_graphs import HeadOutputs, build_joint_graph, head_name
from edgetpu_perception.graphs.families import FAMILIES, build

HEADS = ("features1_64x64", "looming_64x64", "pattern_64x64_16x16", "spot_bright_64x64")
SUBSETS = [heads for count in range(2, len(HEADS) + 1) for heads in combinations(HEADS, count)]
OTHERS = [
    ("features2_96x96", "looming_96x96"),
    ("looming_128x128", "pattern_128x128_32x32", "spot_bright_128x128"),
    ("spot_bright_48x100", "spot_bright_48x100"),
    ("spot_color_7ec1c1_64x64", "spot_color_c17ec1_64x64"),
]


def seconds(name: str) -> float:
    """Time of an inference on the virtual stick, once the parameters are there."""
    graph = build(name)
    (packed,) = pack_for_virtual_stick({name: graph}, together=False).values()
    model = CompiledModel.parse(packed, name)
    stick = VirtualEdgeTpu().register_model(model, graph)
    (image,) = model.inputs
    with EdgeTpu.open(usb_backend=stick) as tpu:
        for _ in range(2):
            tpu.run(model, {image.name: np.zeros(image.shape, np.uint8)})
    return stick.last_inference_time


@pytest.mark.parametrize("heads", [*SUBSETS, *OTHERS], ids="+".join)
def test_heads_give_what_the_single_graphs_give_bit_for_bit(heads: tuple[str, ...]) -> None:
    joint = CpuEngine(build(joint_name(heads)))
    (spec,) = joint.inputs
    inputs = {spec.name: np.random.default_rng(7).integers(0, 256, spec.shape, np.uint8)}
    outputs = joint.run(inputs)
    for number, head in enumerate(heads):
        single = CpuEngine(build(head))
        found = HeadOutputs.of(number, single.outputs, joint.outputs).read(outputs)
        for name, expected in single.run(inputs).items():
            assert found[name].dtype == expected.dtype
            assert np.array_equal(found[name], expected), head


def test_import_names_the_uses_of_the_heads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = joint_name(("looming_64x64", "spot_bright_64x64"))
    source = tmp_path / "source"
    source.mkdir()
    (source / f"{name}.tflite").write_bytes(build(name))
    arguments = ["models", "import", str(source), "--output", str(tmp_path / "models"), "--json"]
    assert main(arguments) == 0
    (found,) = json.loads(capsys.readouterr().out)["models"]
    purposes = {each.form.partition("_<")[0]: each.purpose for each in FAMILIES}
    assert found["kind"] == "own"
    assert found["use"] == f"{purposes['looming']}; {purposes['spot_bright']}"


def test_the_graphs_of_five_eyes_take_at_most_900_us_on_usb_3() -> None:
    assert seconds(joint_name(HEADS)) < 0.9e-3 < sum(seconds(head) for head in HEADS) / 1.5


def test_what_heads_have_in_common_is_computed_once() -> None:
    operators = [each.name for each in parse_model(build(joint_name(HEADS))).subgraphs[0].operators]
    assert operators.count("QUANTIZE") == 1


def test_a_joint_graph_is_of_the_catalogue() -> None:
    assert is_of_catalogue(build(joint_name(HEADS)))


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("looming_64x64_and_features1_64x64", "alphabetical order: features1_64x64_and_looming_64x64"),
        ("looming_64x64_and_looming_96x96", "expected a head with the input"),
        ("looming_64x64_and_spot_color_7ec1c1_64x64", "expected a head with the input"),
        ("dense_64_and_dense_64", "dense_<size> cannot be a head of a joint graph"),
        ("looming_64x64_and_wings_2", "expected one of dense_<size>"),
    ],
)
def test_heads_that_do_not_fit_are_refused(name: str, problem: str) -> None:
    with pytest.raises(ModelNameError, match=problem):
        build_joint_graph(name)


@pytest.mark.parametrize("name", HEADS)
def test_the_suites_graphs_are_recognised_as_heads(name: str) -> None:
    data = build(name)
    graph = parse_model(data).subgraphs[0]
    specs = graph.input_specs, graph.output_specs
    assert head_name(Path("any_name.tflite"), data, *specs) == name
    assert head_name(Path(f"{name}_edgetpu.tflite"), b"", *specs) == name
    assert head_name(Path("any_name_edgetpu.tflite"), b"", *specs) == ""


def test_graphs_with_other_weights_and_joint_graphs_are_no_heads() -> None:
    engine = CpuEngine(build(HEADS[2]))
    engine.set_weights(np.ones((1, 16, 16, 1)))
    data = engine._data
    assert head_name(Path("x.tflite"), data, engine.inputs, engine.outputs) == ""
    joint = CpuEngine(build(joint_name(HEADS)))
    assert head_name(Path("x.tflite"), joint._data, joint.inputs, joint.outputs) == ""


def test_outputs_of_another_model_are_no_heads() -> None:
    joint, single = (CpuEngine(build(name)) for name in (joint_name(HEADS[:2]), HEADS[3]))
    with pytest.raises(ModelUnsupportedError, match="expected the output 'evidence'"):
        HeadOutputs.of(0, single.outputs, joint.outputs)
