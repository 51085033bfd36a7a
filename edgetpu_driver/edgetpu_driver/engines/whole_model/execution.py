"""Runs a plan: each step in turn with its engine, in the calling thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from numpy.typing import NDArray

from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.engines.litert_process_limits import ProcessLimits
from edgetpu_driver.engines.whole_model.model_plan import (
    EdgeTpuStep,
    LiteRtStep,
    ModelPlan,
    OperatorStep,
    Step,
    StepValues,
)
from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.tflite.tensor import TensorSpec


class StepEngine(Protocol):
    """Runs one step, from inputs by name to outputs by name."""

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        """Run the step once: all inputs by name to all outputs by name, in their shapes and dtypes."""
        ...

    def close(self) -> None:
        """Release what the engine holds; harmless when called again."""
        ...


Attach = Callable[[EdgeTpuStep], StepEngine]
"""Creates the engine of a part for the Edge TPU."""

OnStep = Callable[[Step, Mapping[str, NDArray[Any]], Mapping[str, NDArray[Any]]], None]
"""Called after each step with its inputs and outputs, which it must not change."""


class PlanExecution:
    """A plan and an engine for each of its steps. `run` may be called from any thread."""

    def __init__(
        self,
        plan: ModelPlan,
        attach: Attach,
        *,
        isolated: bool | None = False,
        limits: ProcessLimits | None = None,
    ) -> None:
        """Make an engine for each step.

        attach: for the parts for the Edge TPU. isolated, limits: of the parts for LiteRT, see CpuEngine.
        Raises ModelUnsupportedError and what `attach` and CpuEngine raise.
        """
        if plan.missing:
            raise ModelUnsupportedError(plan.missing)
        self.plan = plan
        self._engines: list[StepEngine] = []
        try:
            for step in plan.steps:
                self._engines.append(
                    attach(step) if isinstance(step, EdgeTpuStep) else cpu_engine(step, isolated, limits)
                )
        except BaseException:
            self.close()
            raise

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The inputs of the whole model."""
        return self.plan.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The outputs of the whole model."""
        return self.plan.outputs

    def run(
        self, inputs: Mapping[str, NDArray[Any]], on_step: OnStep | None = None
    ) -> dict[str, NDArray[Any]]:
        """Run all steps with inputs that were checked; the arrays belong to the caller.

        Raises what the engines raise.
        """
        values = StepValues(self.plan, inputs)
        for index, engine in enumerate(self._engines):
            given = values.inputs_of(index)
            results = engine.run(given)
            if on_step is not None:
                on_step(self.plan.steps[index], given, results)
            values.store(index, results)
        return values.outputs()

    @property
    def keeps_state(self) -> bool:
        """Whether a part for LiteRT keeps values between runs."""
        return any(isinstance(step, LiteRtStep) and step.keeps_state for step in self.plan.steps)

    def reset(self) -> None:
        """Reset the state that parts for LiteRT keep between runs. Raises what CpuEngine raises."""
        for step, engine in zip(self.plan.steps, self._engines, strict=True):
            if isinstance(step, LiteRtStep) and step.keeps_state and isinstance(engine, CpuEngine):
                engine.reset()

    def close(self) -> None:
        """Release what the engines hold; harmless when called again."""
        for engine in self._engines:
            engine.close()


def cpu_engine(step: Step, isolated: bool | None = False, limits: ProcessLimits | None = None) -> StepEngine:
    """The engine of a step that needs no Edge TPU: LiteRT, or one of `cpu_operators`.

    isolated, limits: see CpuEngine, also for the errors raised. TypeError for a step of the Edge TPU.
    """
    if isinstance(step, OperatorStep):
        return _OperatorEngine(step)
    if not isinstance(step, LiteRtStep):
        raise TypeError(f"expected a step for the CPU; got {type(step).__name__}")
    return CpuEngine(step.graph, isolated=isolated, limits=limits, name=step.name)


class _OperatorEngine:
    """A custom operator of `cpu_operators`."""

    def __init__(self, step: OperatorStep) -> None:
        self._operator = step.operator
        self._inputs = [operand.spec.name for operand in step.inputs]
        self._outputs = [operand.spec.name for operand in step.outputs]

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        results = self._operator.run([inputs[name] for name in self._inputs])
        return dict(zip(self._outputs, results, strict=True))

    def close(self) -> None:
        """Nothing to release."""
