"""Builds the plan of a whole model from its files: a compiled one, a graph, or segments of a pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from edgetpu_driver.engines.whole_model.graph_partitioning import GraphSteps
from edgetpu_driver.engines.whole_model.model_plan import ModelPlan, Operand, Step
from edgetpu_driver.errors import InputError, ModelFormatError
from edgetpu_driver.files.compiled_file_names import common_name, plain_stem
from edgetpu_driver.tflite.checks.file_checks import read_model_file
from edgetpu_driver.tflite.tensor import TensorSpec


def load_plan(models: str | Path | Sequence[str | Path]) -> ModelPlan:
    """Read and plan one file, or the segments of a pipeline in order.

    Raises InputError for anything but paths, ModelNotFoundError if a file cannot be read, and the errors of
    `plan_segments`.
    """
    given = [models] if isinstance(models, str | Path) else models
    if not isinstance(given, Sequence) or not all(isinstance(each, str | Path) for each in given):
        raise InputError(f"expected the path of a model, or those of its segments; got {given!r:.80}")
    paths = [Path(each) for each in given]
    return plan_segments([(plain_stem(path), read_model_file(path), path) for path in paths])


def plan_model(data: bytes, name: str = "", path: Path | None = None) -> ModelPlan:
    """Plan one file, compiled for the Edge TPU or not.

    path: of the file, to find files next to it. Raises ModelFormatError for a malformed file;
    ModelUnsupportedError for parts compiled for several chips.
    """
    return plan_segments([(name, data, path)])


def plan_segments(files: Sequence[tuple[str, bytes, Path | None]]) -> ModelPlan:
    """Plan segments, in order, as one model: outputs feed inputs of the same name in later segments.

    files: name, content and path of each. The model's inputs are those that no earlier segment provides; its
    outputs those that no later segment uses. Raises the errors of `plan_model`, and ModelFormatError for
    segments of different models.
    """
    if not files:
        raise ModelFormatError("expected a model, or the segments of one; got none")
    join = _Join()
    for name, data, path in files:
        join.add(name, data, path)
    return join.plan()


class _Join:
    """Joins segments one by one."""

    def __init__(self) -> None:
        self._numbers = count()
        self._names: list[str] = []
        self._files: list[bytes] = []
        self._steps: list[Step] = []
        self._constants: dict[int, NDArray[Any]] = {}
        self._inputs: list[Operand] = []
        self._given: dict[str, Operand] = {}
        """Outputs of the segments so far, by name."""
        self._taken: set[str] = set()
        self._missing = ""

    def add(self, name: str, data: bytes, path: Path | None) -> None:
        """Add the next segment."""
        if data in self._files:
            raise ModelFormatError(f"expected each segment of a model once; got '{name}' again")
        try:
            graph = GraphSteps(data, name, path, len(self._names), self._numbers)
        except ModelFormatError as error:
            file = str(path or name)
            raise ModelFormatError(f"{file}: {error}" if file else str(error)) from None
        found = [self._input(name, operand) for operand in graph.inputs]
        if self._names and not any(operand.spec.name in self._given for operand in graph.inputs):
            takes = ", ".join(str(operand.spec) for operand in graph.inputs)
            gives = ", ".join(str(operand.spec) for operand in self._given.values())
            raise ModelFormatError(
                f"segment '{name}' takes {takes}; the segments before it give {gives}: expected the segments "
                "of one model in their order"
            )
        renumbered = dict(zip((operand.value for operand in graph.inputs), found, strict=True))
        self._names.append(name)
        self._files.append(data)
        self._steps += [_with_values(step, renumbered) for step in graph.steps]
        self._constants |= graph.constants
        for operand in graph.outputs:
            value = renumbered.get(operand.value, operand.value)
            self._taken.discard(operand.spec.name)
            self._given[operand.spec.name] = replace(operand, value=value)
        self._missing = self._missing or graph.missing

    def _input(self, segment: str, operand: Operand) -> int:
        """The value number of an input of a segment."""
        spec = operand.spec
        given = self._given.get(spec.name)
        if given is None:
            self._inputs.append(operand)
            return operand.value
        if not _same(given.spec, spec):
            raise ModelFormatError(
                f"segment '{segment}' takes {spec.with_quantisation}; a segment before it gives "
                f"{given.spec.with_quantisation}: they are not of one model"
            )
        self._taken.add(spec.name)
        return given.value

    def plan(self) -> ModelPlan:
        """The plan of all segments."""
        outputs = [each for name, each in self._given.items() if name not in self._taken]
        return ModelPlan(
            name=common_name(self._names),
            inputs=tuple(operand.spec for operand in self._inputs),
            outputs=tuple(operand.spec for operand in outputs),
            input_values=tuple(operand.value for operand in self._inputs),
            output_values=tuple(operand.value for operand in outputs),
            constants=self._constants,
            steps=tuple(self._steps),
            files=tuple(self._files),
            missing=self._missing,
        )


def _with_values(step: Step, renumbered: dict[int, int]) -> Step:
    def fitted(operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
        return tuple(replace(each, value=renumbered.get(each.value, each.value)) for each in operands)

    return replace(step, inputs=fitted(step.inputs), outputs=fitted(step.outputs))


def _same(given: TensorSpec, taken: TensorSpec) -> bool:
    return (given.shape, given.dtype, given.scale, given.zero_point) == (
        taken.shape,
        taken.dtype,
        taken.scale,
        taken.zero_point,
    )
