"""A whole model, ready to run: its parts on Edge TPUs, the rest on the CPU."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from edgetpu_driver.engines.whole_model.execution import Attach, OnStep, PlanExecution, StepEngine
from edgetpu_driver.engines.whole_model.plan import EdgeTpuStep, ModelPlan
from edgetpu_driver.engines.whole_model.planning import load_plan
from edgetpu_driver.engines.whole_model.recurrence import State, feedback_of
from edgetpu_driver.errors import InputError, ModelUnsupportedError
from edgetpu_driver.tflite.tensor import TensorSpec, check_inputs

if TYPE_CHECKING:
    from edgetpu_driver.engines.process_limits import ProcessLimits
    from edgetpu_driver.stick.edge_tpu import EdgeTpu

LONGEST_GAP = 1.0
"""Seconds between two stamps, above which a recurrent model starts again unless another limit is given."""


class Model:
    """A model of one file or of several segments, whole.

        with EdgeTpu.open() as tpu:
            model = Model.load("x_edgetpu.tflite", tpu)
            outputs = model.run({"image": array})

    Operators that the compiler left to the CPU run with LiteRT, wherever they stand, and PosenetDecoderOp
    with an implementation of this package. `run` may be called from any thread.
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
        """Make the engines of a plan; attach makes those of the parts for the Edge TPU. See `load`."""
        fed_back = feedback_of(feedback or {}, plan.inputs, plan.outputs)
        self.plan = plan
        self._state = State(fed_back, longest_gap)
        self._lock = threading.Lock()
        self._closed = False
        states = {each.input.name for each in fed_back}
        self.inputs: tuple[TensorSpec, ...] = tuple(each for each in plan.inputs if each.name not in states)
        """The graph's own inputs in its order, without those that outputs are fed back to."""
        self.outputs: tuple[TensorSpec, ...] = plan.outputs
        """The graph's own outputs in its order."""
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
        """Read a model and make it ready to run.

        model: a .tflite file, compiled or not, or the segments of a pipeline in their order. engine: the
        Edge TPU, or several, among which the segments are distributed in turn; None for plain graphs, which
        run on the CPU. feedback: of a recurrent model, from names of outputs to names of the inputs that they
        are in the next run. longest_gap: seconds, see `run`. isolated, limits: whether LiteRT runs in
        processes of its own, see CpuEngine.

        Raises ModelNotFoundError, ModelFormatError, ModelUnsupportedError if something cannot run, with the
        reason, InputError for no path or a wrong feedback, DependencyMissingError without LiteRT if it is
        needed.
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

        inputs: every one of `inputs` by name, in its shape and dtype. stamp: seconds; a recurrent model is
        reset if it lies before the last one or more than the longest gap after it. on_step: called in this
        thread after each step of the plan. Returns every one of
        `outputs` by name, in their order; the arrays belong to the caller. Raises InputError, DeviceError,
        ModelUnsupportedError.
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
        """Whether a run depends on those before it: outputs are fed back, or LiteRT keeps a state."""
        return bool(self._state.feedback) or self._execution.keeps_state

    def reset(self) -> None:
        """Forget the state of a recurrent model, fed back or kept by LiteRT; the next run starts at zero."""
        with self._lock:
            self._reset()

    def _reset(self) -> None:
        self._state.reset()
        self._execution.reset()

    def close(self) -> None:
        """Release what its engines hold; the Edge TPU stays open. Harmless when called again."""
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
