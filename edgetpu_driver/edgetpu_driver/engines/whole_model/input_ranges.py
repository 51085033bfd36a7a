"""Which real values a model with inputs of floating-point numbers expects there."""

from __future__ import annotations

import numpy as np

from edgetpu_driver.engines.whole_model.plan import LiteRtStep, ModelPlan
from edgetpu_driver.tflite.model_reader import parse_model


def input_ranges(plan: ModelPlan) -> dict[str, tuple[float, float]]:
    """The least and the greatest value of each float32 input that the model quantises at once.

    Converters choose the quantisation of an input such that its range is that of the data, e.g. -1..1 for
    pixels that were scaled so.
    """
    names = dict(zip(plan.input_values, (spec.name for spec in plan.inputs), strict=True))
    found: dict[str, tuple[float, float]] = {}
    for step in plan.steps:
        if not isinstance(step, LiteRtStep):
            continue
        graph = parse_model(step.graph).subgraphs[0]
        values = dict(zip(graph.inputs, (operand.value for operand in step.inputs), strict=True))
        for operator in graph.operators:
            name = names.get(values.get(operator.inputs[0], -1)) if operator.inputs else None
            if operator.name != "QUANTIZE" or name is None:
                continue
            source, target = graph.tensors[operator.inputs[0]], graph.tensors[operator.outputs[0]].spec
            if source.dtype == np.float32 and target.scale > 0 and target.dtype.itemsize == 1:
                found[name] = target.real_limits
    return found
