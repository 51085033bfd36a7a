"""The ranges of a model's floating-point inputs."""

from __future__ import annotations

from edgetpu_driver.engines.whole_model.model_plan import LiteRtStep, ModelPlan
from edgetpu_driver.tflite.model_reader import parse_model
from edgetpu_driver.tflite.quantised_inputs import quantised_inputs


def input_ranges(plan: ModelPlan) -> dict[str, tuple[float, float]]:
    """Minimum and maximum of each float32 input that the model quantises immediately."""
    names = dict(zip(plan.input_values, (spec.name for spec in plan.inputs), strict=True))
    found: dict[str, tuple[float, float]] = {}
    for step in plan.steps:
        if not isinstance(step, LiteRtStep):
            continue
        graph = parse_model(step.graph).subgraphs[0]
        values = dict(zip(graph.inputs, (operand.value for operand in step.inputs), strict=True))
        for index, target in quantised_inputs(graph).items():
            if (value := values[index]) in names:
                found[names[value]] = target.real_limits
    return found
