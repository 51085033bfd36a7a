"""The zero points of borders and of a softmax in programs that are made for other graphs."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.darwinn.instructions.border_fill import fills_border, has_border_value
from edgetpu_driver.darwinn.instructions.operations import (
    LARGEST_OPERATION,
    MESH_OPERATIONS,
    Kind,
    Operation,
    operations,
)
from edgetpu_driver.darwinn.instructions.tensor_operation import has_offset, read_requantisation, requantises
from edgetpu_driver.darwinn.requantisation import Requantisation, clamps
from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.tflite.model_reader import parse_model
from edgetpu_driver.toolchain.retargeting.border_sides import border_sides
from edgetpu_driver.toolchain.retargeting.graph_adaptation import adapt_graph
from edgetpu_driver.toolchain.retargeting.graph_pairs import pair_graphs
from edgetpu_driver.toolchain.retargeting.graph_retargeting import RetargetedModel, retarget
from edgetpu_driver.toolchain.retargeting.program_explanation import ProgramExplanation
from edgetpu_driver.toolchain.retargeting.zero_point_operations import ZeroPointOperations
from edgetpu_driver.weights.section_search import locate_sections
from testdata import GOLDEN
from testdata.graphs.graph_variants import with_quantization

NAMES = {Path(name).stem: name for name in GOLDEN.names("", ".tflite")}
MOBILENET = "mobilenet_v1_0.25_128_quant"
MOVENET = "movenet_single_pose_lightning_ptq"
POSENET = "posenet_mobilenet_v1_075_353_481_16_quant_decoder"
_LAYER = "MobilenetV1/Logits/Conv2d_1c_1x1"
LOGITS = (
    f"{_LAYER}/BiasAdd;{_LAYER}/Conv2D;{_LAYER}/biases1",
    "MobilenetV1/Logits/SpatialSqueeze1",
)


@cache
def file(stem: str) -> bytes:
    """A golden file."""
    return GOLDEN.path(NAMES[stem]).read_bytes()


def of_graph(name: str, graph: bytes) -> RetargetedModel:
    """A golden model retargeted to another graph."""
    return retarget(file(f"{name}_edgetpu"), file(name), graph, name)


def program(data: bytes) -> list[Operation]:
    """The operations of the program that runs, in order."""
    return list(operations(each.data for each in CompiledModel.parse(data).execution.bitstreams))


def requantisations(data: bytes) -> list[Requantisation]:
    """Those of the program that runs, in order."""
    return [read_requantisation(each) for each in program(data) if requantises(each)]


@cache
def explained(name: str) -> ProgramExplanation:
    """The program of a golden model, explained by its graph."""
    compiled = CompiledModel.parse(file(f"{name}_edgetpu"))
    part = compiled.source_part(file(name))
    return ProgramExplanation(compiled, locate_sections(compiled, file(name)), pair_graphs(part, part))


def test_a_softmax_takes_another_zero_point() -> None:
    tensors = dict.fromkeys(LOGITS, (0.2, 120))
    names = [tensor.name for tensor in parse_model(file(MOBILENET)).subgraphs[0].tensors]
    assert set(tensors) <= set(names)
    made = of_graph(MOBILENET, with_quantization(file(MOBILENET), tensors))
    assert made.requantised == ()
    minimum, maximum = clamps(0.2, 120, "NONE")
    found = Requantisation(1.0, minimum, maximum, 0, 120, 120)
    largest = [each for each in program(made.file) if each.kind == Kind(LARGEST_OPERATION, scalar=False)]
    assert [read_requantisation(each) for each in largest] == [found, found]
    assert all(has_offset(each, -120) for each in largest)


@pytest.mark.parametrize(
    ("stem", "zero_points"),
    [
        (f"{MOBILENET}_edgetpu", [96, 96]),
        ("keras_lstm_mnist_ptq_edgetpu", [130]),
        ("bright_64x64_edgetpu", [0, 0]),
    ],
)
def test_a_softmax_subtracts_its_zero_point_in_the_compilers_files(stem: str, zero_points: list[int]) -> None:
    largest = [each for each in program(file(stem)) if each.kind == Kind(LARGEST_OPERATION, scalar=False)]
    assert [read_requantisation(each).output_zero_point for each in largest] == zero_points
    assert all(has_offset(each, -zero_point) for each, zero_point in zip(largest, zero_points, strict=True))


def test_the_zero_point_of_a_softmax_that_is_not_found_is_kept_and_the_layer_before_requantised() -> None:
    tensors = dict.fromkeys(LOGITS, (0.2, 120))
    graph = with_quantization(file(MOBILENET), tensors)
    adapted, (layer,) = adapt_graph(file(MOBILENET), graph, pair_graphs(file(MOBILENET), graph), range(31))
    assert (layer.own.zero_point, layer.given.zero_point) == (120, 96)
    assert "values" in layer.cost
    assert "0.654 times as wide" in layer.cost
    assert adapted == file(MOBILENET)


def test_a_softmax_takes_another_scale() -> None:
    tensors = dict.fromkeys(LOGITS, (0.2, 96))
    graph = with_quantization(file(MOBILENET), tensors)
    made = of_graph(MOBILENET, graph)
    assert made.requantised == ()
    softmax = locate_sections(CompiledModel.parse(made.file), graph).placed[-1]
    assert softmax.section.kind == "SOFTMAX"
    minimum, maximum = clamps(0.2, 96, "NONE")
    moved = Requantisation(1.0, minimum, maximum, 96, 0, 96)
    assert requantisations(made.file).count(moved) == 16


def test_a_border_has_the_zero_point_of_the_graph() -> None:
    made = of_graph(MOBILENET, with_quantization(file(MOBILENET), {"input": (1 / 128, 127)}))
    assert made.requantised == ()
    before, after = program(file(f"{MOBILENET}_edgetpu")), program(made.file)
    fills = [
        (old, new)
        for old, new in zip(before, after, strict=True)
        if old != new and old.opcode in MESH_OPERATIONS
    ]
    assert len(fills) == 2
    assert all(fills_border(old) and has_border_value(old, 128) for old, _ in fills)
    assert all(has_border_value(new, 127) for _, new in fills)


def test_borders_of_zeros_take_another_value_and_give_it_back() -> None:
    graph = parse_model(file(MOBILENET)).subgraphs[0]
    sources = [graph.tensors[each.inputs[0]] for each in graph.operators if each.name == "DEPTHWISE_CONV_2D"]
    changed = with_quantization(file(MOBILENET), {each.name: (each.spec.scale, 7) for each in sources})
    made = of_graph(MOBILENET, changed)
    assert made.requantised == ()
    before, after = program(file(f"{MOBILENET}_edgetpu")), program(made.file)
    fills = [(old, new) for old, new in zip(before, after, strict=True) if fills_border(old) and old != new]
    # Two for each of the four layers of stride 2, whose images are even, and four for the nine others.
    assert len(fills) == 4 * 2 + 9 * 4
    assert all(has_border_value(old, 0) and has_border_value(new, 7) for old, new in fills)
    assert program(retarget(made.file, changed, file(MOBILENET), MOBILENET).file) == before


@pytest.mark.parametrize("name", [MOBILENET, MOVENET, "looming_64x64_3x3", "gabor_64x64_p4"])
def test_the_borders_of_every_layer_that_pads_are_in_the_program(name: str) -> None:
    program = explained(name)
    pair = program.pair
    padding = {each for each, options in enumerate(pair.options) if border_sides(pair.old, options, each)}
    assert padding <= ZeroPointOperations(program).operators


def test_borders_are_filled_with_the_zero_point_of_the_next_layer_in_a_file_without_its_graph() -> None:
    zero_points = []
    waiting: list[Operation] = []
    for operation in program(file("ssd_mobilenet_v1_coco_quant_postprocess_segment_0_of_2_edgetpu")):
        if fills_border(operation):
            waiting.append(operation)
        elif requantises(operation):
            zero_point = read_requantisation(operation).input_zero_point
            assert all(has_border_value(each, zero_point) for each in waiting)
            zero_points += [zero_point] if waiting else []
            waiting = []
    assert zero_points == [128, 113, 121, 111, 104, 100, 97, 101, 110, 116, 137, 124, 140, 125]


def test_a_border_that_is_not_found_is_refused_where_the_graph_is_given_the_tensor() -> None:
    tensors = {"sub_2": (0.01, 129), "tfl.quantize": (0.01, 1), "pad_input": (0.01, 1)}
    with pytest.raises(
        ModelUnsupportedError, match="'sub_2' has the zero point 129, in the compiled file 128"
    ):
        of_graph(POSENET, with_quantization(file(POSENET), tensors))


def test_a_layer_before_a_border_that_is_not_found_is_requantised_with_the_biases_after_it() -> None:
    graph = parse_model(file(MOBILENET)).subgraphs[0]
    tensor = graph.tensors[graph.operators[0].outputs[0]]
    changed = with_quantization(file(MOBILENET), {tensor.name: (tensor.spec.scale * 2, 7)})
    pair = pair_graphs(file(MOBILENET), changed)
    adapted, (layer,) = adapt_graph(file(MOBILENET), changed, pair, range(31))
    assert layer.layer.split()[0] == "CONV_2D"
    old, new = (
        np.frombuffer(parse_model(each).subgraphs[0].tensors[graph.operators[1].inputs[2]].data, np.int32)
        for each in (changed, adapted)
    )
    np.testing.assert_array_equal(new, 2 * old)


def test_an_operation_where_a_layer_cannot_run_is_not_assigned_to_it() -> None:
    # The SUB at the start of MoveNet requantises like layer 58, whose parameters are sent elsewhere.
    steps = explained(MOVENET).steps
    places = [place for place, each in steps.items() if any(old.operator == 58 for old, _ in each)]
    assert (0, 60) not in places
    assert places
