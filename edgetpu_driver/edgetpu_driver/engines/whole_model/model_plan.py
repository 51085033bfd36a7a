"""The plan of a whole model: its steps on the Edge TPU, in LiteRT and in `cpu_operators`, in order.

A plan holds no engine and no device, so a program may run its steps with its own engines and threads.
`pipeline_segments` creates plans; `StepValues` holds the arrays between the steps of one run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.engines.cpu_operators.operator import CpuOperator
from edgetpu_driver.errors import EdgeTpuError
from edgetpu_driver.tflite.tensor import TensorSpec


@dataclass(frozen=True)
class Operand:
    """An input or output of a step, and its value in the plan."""

    value: int
    """Number of the value; two operands with the same number are the same array."""
    spec: TensorSpec
    """Name among the step's own inputs or outputs, with shape and dtype."""


@dataclass(frozen=True, eq=False)
class Step:
    """One step of a plan. It maps arrays named as its `inputs` to arrays named as its `outputs`."""

    name: str
    """For messages."""
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    operators: tuple[str, ...]
    """Names of the operators it contains, in order."""
    segment: int
    """Index of the file that it comes from."""


@dataclass(frozen=True, eq=False)
class EdgeTpuStep(Step):
    """A part compiled for the Edge TPU; its operands are the inputs and outputs of `model`."""

    model: CompiledModel


@dataclass(frozen=True, eq=False)
class LiteRtStep(Step):
    """A part for LiteRT."""

    graph: bytes = field(repr=False)
    """A .tflite file with the step's inputs and outputs, in their order."""
    keeps_state: bool = False
    """Whether its operators keep values between runs, as LSTM layers do."""


@dataclass(frozen=True, eq=False)
class OperatorStep(Step):
    """A custom operator that this package implements and LiteRT does not."""

    operator: CpuOperator


@dataclass(frozen=True, eq=False)
class ModelPlan:
    """The steps of a whole model, from one file or several segments."""

    name: str
    inputs: tuple[TensorSpec, ...]
    """The graph's inputs in order, with unique names."""
    outputs: tuple[TensorSpec, ...]
    """The graph's outputs in order, with unique names; a shape is [] if the file has none."""
    input_values: tuple[int, ...]
    """The value number of each of `inputs`."""
    output_values: tuple[int, ...]
    """The value number of each of `outputs`."""
    constants: Mapping[int, NDArray[Any]]
    """Constant values from the file."""
    steps: tuple[Step, ...]
    """In execution order."""
    files: tuple[bytes, ...] = field(default=(), repr=False)
    """Content of the source files, in order."""
    missing: str = ""
    """Why no engine can run it, as far as the files tell; empty if no reason is known."""

    @property
    def edge_tpu_steps(self) -> tuple[EdgeTpuStep, ...]:
        """The steps that run on an Edge TPU."""
        return tuple(step for step in self.steps if isinstance(step, EdgeTpuStep))

    @property
    def unsupported_reason(self) -> str:
        """Why a stick on USB cannot run its parts for the Edge TPU; empty if it can."""
        try:
            for step in self.edge_tpu_steps:
                step.model.check_runnable()
        except EdgeTpuError as error:
            return str(error)
        return self.missing

    @cached_property
    def last_uses(self) -> tuple[frozenset[int], ...]:
        """For each step, the values that no later step or output needs."""
        needed = set(self.output_values)
        result: list[frozenset[int]] = []
        for step in reversed(self.steps):
            here = {operand.value for operand in (*step.inputs, *step.outputs)}
            result.append(frozenset(here - needed))
            needed |= here
        return tuple(reversed(result))


class StepValues:
    """The arrays of one run of a plan. Not thread-safe: one thread at a time may use it.

    values = StepValues(plan, inputs)
    for index, step in enumerate(plan.steps):
        values.store(index, run(step, values.inputs_of(index)))
    outputs = values.outputs()
    """

    def __init__(self, plan: ModelPlan, inputs: Mapping[str, NDArray[Any]]) -> None:
        """inputs: the inputs of the plan by name, checked; see tensor.check_inputs."""
        self._plan = plan
        self._values: dict[int, NDArray[Any]] = dict(plan.constants)
        for spec, value in zip(plan.inputs, plan.input_values, strict=True):
            self._values[value] = inputs[spec.name]

    def inputs_of(self, index: int) -> dict[str, NDArray[Any]]:
        """The inputs of a step by name, in the shapes it expects; earlier steps must be done."""
        step = self._plan.steps[index]
        return {each.spec.name: self._as(each.spec, self._values[each.value]) for each in step.inputs}

    def store(self, index: int, results: Mapping[str, NDArray[Any]]) -> None:
        """Store the outputs of a step by name, and drop values that no later step needs."""
        for each in self._plan.steps[index].outputs:
            self._values[each.value] = results[each.spec.name]
        for value in self._plan.last_uses[index]:
            del self._values[value]

    def outputs(self) -> dict[str, NDArray[Any]]:
        """The outputs of the whole model by name, in order, once all steps are done; the caller owns them."""
        shared = {*self._plan.constants, *self._plan.input_values}
        given: dict[str, NDArray[Any]] = {}
        for spec, value in zip(self._plan.outputs, self._plan.output_values, strict=True):
            given[spec.name] = self._values[value].copy() if value in shared else self._values[value]
            shared.add(value)
        return given

    @staticmethod
    def _as(spec: TensorSpec, array: NDArray[Any]) -> NDArray[Any]:
        """The array in a step's shape: files may declare [1, 8] in one step and [8] or none in another."""
        fits = array.size == int(np.prod(spec.shape, dtype=np.int64))
        return array.reshape(spec.shape) if fits and array.shape != spec.shape else array


def step_operators(names: Sequence[str]) -> str:
    """Operators as text, with counts: "2 DEQUANTIZE, ARG_MAX"."""
    counts = {name: names.count(name) for name in dict.fromkeys(names)}
    return ", ".join(name if count == 1 else f"{count} {name}" for name, count in counts.items())


def engine_name(step: Step) -> str:
    """The engine of a step, as shown to users."""
    if isinstance(step, EdgeTpuStep):
        return "Edge TPU"
    return "CPU, LiteRT" if isinstance(step, LiteRtStep) else "CPU, own operator"
