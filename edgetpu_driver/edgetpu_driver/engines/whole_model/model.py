"""A whole model, ready to run: its parts on Edge TPUs, the rest on the CPU."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from edgetpu_driver.engines.whole_model.execution import Attach, OnStep, PlanExecution, StepEngine
from edgetpu_driver.engines.whole_model.model_plan import EdgeTpuStep, ModelPlan
from edgetpu_driver.engines.whole_model.pipeline_segments import load_plan
from edgetpu_driver.engines.whole_model.recurrence import State, feedback_of
from edgetpu_driver.errors import InputError, ModelUnsupportedError
from edgetpu_driver.tflite.tensor import TensorSpec, check_inputs

if TYPE_CHECKING:
    from edgetpu_driver.engines.litert_process_limits import ProcessLimits
    from edgetpu_driver.stick.edge_tpu import EdgeTpu

LONGEST_GAP = 1.0
"""Default maximum gap between two stamps before a recurrent model is reset, s. Chosen: 30 images of a usual
camera."""


class Model:
    """A whole model, from one file or several segments.

        with EdgeTpu.open() as tpu:
            model = Model.load("x_edgetpu.tflite", tpu)
            outputs = model.run({"image": array})

    Operators that the compiler left to the CPU run with LiteRT, and PosenetDecoderOp with an implementation
    of this package. `run` may be called from any thread.
    """

    def __init__(
        self,
        plan: ModelPlan,
        attach: Attach,
        *,
        feedback: Mapping[str, str] | None = None,
        longest_gap: float = LONGEST_GAP,
        isolated: bool | None = False,
        limits: ProcessLimits | None = None,
    ) -> None:
        """Create the engines of a plan. attach: creates an engine for a part for the Edge TPU. See `load`."""
        fed_back = feedback_of(feedback or {}, plan.inputs, plan.outputs)
        self.plan = plan
        self._state = State(fed_back, longest_gap)
        self._lock = threading.Lock()
        self._closed = False
        states = {each.input.name for each in fed_back}
        self.inputs: tuple[TensorSpec, ...] = tuple(each for each in plan.inputs if each.name not in states)
        """The graph's inputs in order, without those that receive feedback."""
        self.outputs: tuple[TensorSpec, ...] = plan.outputs
        """The graph's outputs in order."""
        self._execution = PlanExecution(plan, attach, isolated=isolated, limits=limits)

    @classmethod
    def load(
        cls,
        model: str | Path | Sequence[str | Path],
        engine: EdgeTpu | Sequence[EdgeTpu] | None = None,
        *,
        feedback: Mapping[str, str] | None = None,
        longest_gap: float = LONGEST_GAP,
        isolated: bool | None = False,
        limits: ProcessLimits | None = None,
    ) -> Model:
        """Read a model and prepare it to run.

        model: a .tflite file, compiled or not, or the segments of a pipeline in order. engine: an Edge TPU,
        or several, to which the segments are assigned in turn; None for plain graphs, which run on the CPU.
        feedback: of a recurrent model, maps output names to the input names they feed in the next run.
        longest_gap: seconds, see `run`. isolated, limits: of LiteRT's processes, see CpuEngine.

        Raises ModelNotFoundError, ModelFormatError, ModelUnsupportedError, with the reason, if a part cannot
        run, InputError for a missing path or invalid feedback, DependencyMissingError if LiteRT is needed and
        not installed.
        """
        plan = load_plan(model)
        engines = _engines(engine)

        def attach(step: EdgeTpuStep) -> StepEngine:
            if not engines:
                raise ModelUnsupportedError(
                    f"'{step.name}' is compiled for the Edge TPU; expected an engine, such as "
                    "EdgeTpu.open(), or the graph that it was compiled from"
                )
            return engines[step.segment % len(engines)].load(step.model)

        return cls(plan, attach, feedback=feedback, longest_gap=longest_gap, isolated=isolated, limits=limits)

    def run(
        self,
        inputs: Mapping[str, NDArray[Any]],
        stamp: float | None = None,
        *,
        on_step: OnStep | None = None,
    ) -> dict[str, NDArray[Any]]:
        """Run the whole model once.

        inputs: all of `inputs` by name, in their shape and dtype. stamp: seconds; a recurrent model is reset
        if it is earlier than the last one or later by more than the longest gap. on_step: called in this
        thread after each step of the plan. Returns all of `outputs` by name, in order; the arrays belong to
        the caller. Raises InputError, DeviceError, ModelUnsupportedError.
        """
        if self._closed:
            raise ModelUnsupportedError(f"model '{self.plan.name}' is closed; load it again to run it")
        check_inputs(self.inputs, inputs)
        if not self.is_recurrent:
            return self._execution.run(inputs, on_step)
        with self._lock:
            if stamp is not None and self._state.jumps(stamp):
                self._reset()
            outputs = self._execution.run({**inputs, **self._state.inputs()}, on_step)
            self._state.keep(outputs)
            return outputs

    @property
    def is_recurrent(self) -> bool:
        """Whether a run depends on earlier ones: outputs are fed back, or LiteRT keeps state."""
        return bool(self._state.feedback) or self._execution.keeps_state

    def reset(self) -> None:
        """Set the state of a recurrent model, fed back or kept by LiteRT, to zero."""
        with self._lock:
            self._reset()

    def _reset(self) -> None:
        self._state.reset()
        self._execution.reset()

    def close(self) -> None:
        """Close its engines; the Edge TPU stays open. Harmless when called again."""
        self._closed = True
        self._execution.close()

    def __enter__(self) -> Model:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _engines(engine: EdgeTpu | Sequence[EdgeTpu] | None) -> list[EdgeTpu]:
    found = [] if engine is None else list(engine) if isinstance(engine, Sequence) else [engine]
    for each in found:
        if not hasattr(each, "load"):
            raise InputError(f"expected an EdgeTpu, or several, as engine; got {type(each).__name__}")
    return found
