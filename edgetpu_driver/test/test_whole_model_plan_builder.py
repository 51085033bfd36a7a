"""Plans of whole models: what runs where, from the file alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgetpu_driver.engines.whole_model import graph_partitioning
from edgetpu_driver.engines.whole_model.model_plan import (
    EdgeTpuStep,
    LiteRtStep,
    ModelPlan,
    StepValues,
    step_operators,
)
from edgetpu_driver.engines.whole_model.pipeline_segments import load_plan, plan_model, plan_segments
from edgetpu_driver.errors import ModelFormatError, ModelNotFoundError, ModelUnsupportedError
from edgetpu_driver.tflite.model_reader import parse_model
from testdata import ModelFolder
from testdata.graphs.compiled_graphs import compiled_graph, segments, source_graph


def kinds(plan: ModelPlan) -> list[tuple[str, tuple[str, ...]]]:
    return [(type(step).__name__, step.operators) for step in plan.steps]


def test_parts_for_the_edge_tpu_alternate_with_parts_for_litert() -> None:
    plan = plan_model(compiled_graph(2), "parts")
    assert kinds(plan) == [
        ("LiteRtStep", ("QUANTIZE",)),
        ("EdgeTpuStep", ("edgetpu-custom-op",)),
        ("LiteRtStep", ("QUANTIZE", "QUANTIZE")),
        ("EdgeTpuStep", ("edgetpu-custom-op",)),
        ("LiteRtStep", ("QUANTIZE",)),
    ]
    assert [step.model.name for step in plan.edge_tpu_steps] == ["parts part 1", "parts part 2"]


def test_inputs_and_outputs_are_those_of_the_graph_in_its_order() -> None:
    plan = plan_model(compiled_graph(2))
    assert [str(spec) for spec in plan.inputs] == ["'image' uint8[1, 8]"]
    assert [str(spec) for spec in plan.outputs] == ["'b0' int8[1, 8]", "'last' uint8[1, 8]"]


def test_a_part_for_litert_is_a_file_with_its_operators_only() -> None:
    step = plan_model(compiled_graph(2)).steps[2]
    assert isinstance(step, LiteRtStep)
    graph = parse_model(step.graph).subgraphs[0]
    assert [operator.name for operator in graph.operators] == ["QUANTIZE", "QUANTIZE"]
    assert [spec.name for spec in graph.input_specs] == ["b0"]
    assert [spec.name for spec in graph.output_specs] == ["a1"]


def test_a_plain_graph_is_one_part_of_the_same_bytes() -> None:
    graph = source_graph(2)
    (step,) = plan_model(graph).steps
    assert isinstance(step, LiteRtStep)
    assert step.graph == graph


def test_values_pass_from_step_to_step_and_are_dropped_after_their_last_use() -> None:
    plan = plan_model(compiled_graph(1))
    values = StepValues(plan, {"image": np.zeros((1, 8), np.uint8)})
    values.store(0, {"a0": np.full((1, 8), 1, np.int8)})
    assert values.inputs_of(1)["a0"].tolist() == [[1] * 8]
    values.store(1, {"b0": np.full((1, 8), 2, np.int8)})
    with pytest.raises(KeyError):
        values.inputs_of(1)
    values.store(2, {"last": np.full((1, 8), 3, np.uint8)})
    assert {name: array[0, 0] for name, array in values.outputs().items()} == {"b0": 2, "last": 3}


def test_segments_are_one_model() -> None:
    _, parts = segments(3)
    plan = plan_segments([(f"chain_segment_{n}_of_3", data, None) for n, data in enumerate(parts)])
    assert plan.name == "chain"
    assert [spec.name for spec in plan.inputs] == ["x0"]
    assert [spec.name for spec in plan.outputs] == ["x3"]
    assert [(type(step), step.segment) for step in plan.steps] == [(EdgeTpuStep, n) for n in range(3)]
    passed = [(step.inputs[0].value, step.outputs[0].value) for step in plan.steps]
    assert passed[0][1] == passed[1][0]
    assert passed[1][1] == passed[2][0]


def test_segments_in_the_wrong_order_are_refused() -> None:
    _, (first, second) = segments(2)
    with pytest.raises(ModelFormatError, match=r"'1' takes 'x0' int8.*give 'x2' int8.*in their order"):
        plan_segments([("0", second, None), ("1", first, None)])


def test_a_segment_that_is_there_twice_is_refused() -> None:
    _, (first, second) = segments(2)
    with pytest.raises(ModelFormatError, match=r"expected each segment of a model once; got '2' again"):
        plan_segments([("0", first, None), ("1", second, None), ("2", second, None)])


def test_segments_of_different_models_are_refused() -> None:
    _, (first, second) = segments(2)
    scale = parse_model(second).subgraphs[0].tensors[0].quantization.scales_offset
    other = second[:scale] + np.float32(0.25).tobytes() + second[scale + 4 :]
    with pytest.raises(ModelFormatError, match=r"of scale 0.25 .*of scale 0.5 .*not of one model"):
        plan_segments([("0", first, None), ("1", other, None)])


def test_an_empty_list_of_segments_is_refused() -> None:
    with pytest.raises(ModelFormatError, match=r"got none"):
        load_plan([])


def test_a_path_with_a_null_character_is_refused() -> None:
    with pytest.raises(ModelNotFoundError, match=r"cannot read 'x\\x00.tflite': embedded null byte"):
        load_plan("x\0.tflite")


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(ModelNotFoundError, match=r"x_edgetpu.tflite"):
        load_plan("x_edgetpu.tflite")


def test_the_reason_why_a_stick_cannot_run_a_part_is_given() -> None:
    plan = plan_model(compiled_graph(1), "parts")
    assert plan.unsupported_reason == ""
    head, part, tail = plan.steps
    assert isinstance(part, EdgeTpuStep)
    execution = replace(part.model.execution, batch_size=4)
    part = replace(part, model=replace(part.model, execution=execution))
    assert replace(plan, steps=(head, part, tail)).unsupported_reason == (
        "cannot run 'parts' over USB: its batch size is 4, not 1"
    )


def test_operators_are_counted() -> None:
    assert step_operators(("ADD", "MUL", "ADD")) == "2 ADD, MUL"


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("deeplabv3_mnv2_pascal_quant_edgetpu.tflite", [EdgeTpuStep, LiteRtStep]),
        ("movenet_single_pose_lightning_ptq_edgetpu.tflite", [LiteRtStep, EdgeTpuStep, LiteRtStep]),
    ],
)
def test_real_compiled_models_have_few_steps(golden: ModelFolder, name: str, steps: list[type]) -> None:
    assert [type(step) for step in load_plan(golden.model(name)).steps] == steps


def test_parts_for_the_cpu_that_together_would_fill_the_memory_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = compiled_graph(2)
    monkeypatch.setattr(graph_partitioning, "_MOST_COPIED", 3 * len(data))
    assert len(plan_model(data, "parts").steps) == 5
    monkeypatch.setattr(graph_partitioning, "_MOST_COPIED", 3 * len(data) - 1)
    with pytest.raises(ModelUnsupportedError, match=r"'parts' has too many parts .*; expected at most 2 in"):
        plan_model(data, "parts")
