"""The share of a whole model's multiplications in each step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.engines.whole_model.model_plan import EdgeTpuStep, LiteRtStep, ModelPlan, Step
from edgetpu_driver.tflite.model_reader import parse_model
from edgetpu_driver.tflite.multiplications import multiplications
from edgetpu_driver.tflite.tensor import TensorSpec


@dataclass(frozen=True)
class StepWork:
    """The work of one step."""

    multiplications: int | None
    """Multiplications per run; None if they are unknown without the source graph."""
    share: float | None
    """Share of the whole model's multiplications, 0..1; None if it cannot be computed."""


def work_of(plan: ModelPlan, sources: Sequence[bytes | None]) -> tuple[StepWork, ...]:
    """The work of each step of a plan.

    sources: the source graph of each segment, if available; a compiled file does not show the multiplications
    of its parts for the Edge TPU. Raises ModelFormatError for a malformed graph.
    """
    counts = [_count(step, sources[step.segment]) for step in plan.steps]
    known = [count for count in counts if count is not None]
    total = sum(known)
    unknown = len(counts) - len(known)

    def share(count: int | None) -> float | None:
        if not unknown:
            return count / total if count is not None and total else None
        if total == 0 and count is not None:  # all multiplications are in the unknown parts
            return 0.0
        return 1.0 if total == 0 and unknown == 1 else None

    return tuple(StepWork(count, share(count)) for count in counts)


def _count(step: Step, source: bytes | None) -> int | None:
    if isinstance(step, LiteRtStep):
        return multiplications(parse_model(step.graph).subgraphs[0])
    if not isinstance(step, EdgeTpuStep):
        return 0
    return None if source is None else _count_of_part(step.model, source)


def _count_of_part(model: CompiledModel, source: bytes) -> int | None:
    """Multiplications of a part, from the graph; None if the graph is another model's."""
    part = parse_model(model.source_part(source)).subgraphs[0]
    ours, theirs = (
        _sizes(*specs) for specs in ((model.inputs, model.outputs), (part.input_specs, part.output_specs))
    )
    return multiplications(part) if ours == theirs else None


def _sizes(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> list[list[int]]:
    return [[prod(spec.shape) for spec in specs] for specs in (inputs, outputs)]
