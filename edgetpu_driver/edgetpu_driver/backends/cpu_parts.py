"""The parts of whole models that run on the host's processor, as a separate backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from edgetpu_driver.backends.backend import ParsedModel, Placement
from edgetpu_driver.backends.host_processor import HostProcessor
from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.engines.litert_process_limits import ProcessLimits
from edgetpu_driver.engines.protocol import AttachedEngine
from edgetpu_driver.engines.whole_model.execution import StepEngine, cpu_engine
from edgetpu_driver.engines.whole_model.model_plan import LiteRtStep, Step
from edgetpu_driver.errors import EdgeTpuError, GraphProcessError, ModelUnsupportedError, ProcessStartError
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_driver.weights.replaceable_weights import WeightTensor
from edgetpu_driver.weights.weight_request import WeightRequest, WeightResult


@dataclass
class _PreparedStep:
    """A step with the engine that was made to check whether it runs."""

    step: Step
    unused: CpuStepEngine | None = None
    """The engine, for the first caller that attaches it."""


class CpuPartsBackend(HostProcessor):
    """Runs the steps of plans on the CPU: parts for LiteRT, with process limits, and built-in operators."""

    def parse(self, path: Path, data: bytes) -> ParsedModel:  # noqa: ARG002
        """Raise ModelUnsupportedError: this backend has `parse_step` instead."""
        raise ModelUnsupportedError(f"expected a step of a plan; got {path.name}")

    def parse_part(self, model: CompiledModel) -> ParsedModel:
        """Raise ModelUnsupportedError: there is no Edge TPU."""
        raise ModelUnsupportedError(f"'{model.name}' is a part for the Edge TPU; this backend has none")

    def parse_step(self, step: Step) -> ParsedModel:
        """Prepare a step; one that cannot run has an `unsupported_reason`. Raises ProcessStartError.

        If the process of the step dies, it is tried again once: something else may have ended it.
        """
        prepared, reason = _PreparedStep(step), ""
        try:
            try:
                prepared.unused = CpuStepEngine(step, self._limits)
            except GraphProcessError:
                prepared.unused = CpuStepEngine(step, self._limits)
        except ProcessStartError:
            raise  # the step may run later
        except EdgeTpuError as error:
            reason = str(error)
        return ParsedModel(
            inputs=tuple(operand.spec for operand in step.inputs),
            outputs=tuple(operand.spec for operand in step.outputs),
            placement=Placement.HOST,
            parameter_bytes=len(step.graph) if isinstance(step, LiteRtStep) else 0,
            caching_token=0,
            source=prepared,
            unsupported_reason=reason,
        )

    def attach(self, model: ParsedModel) -> AttachedEngine:
        """Make an engine for a step that was prepared."""
        if model.unsupported_reason:
            raise ModelUnsupportedError(model.unsupported_reason)
        prepared: _PreparedStep = model.source
        engine, prepared.unused = prepared.unused, None
        return engine or CpuStepEngine(prepared.step, self._limits)


class CpuStepEngine:
    """The engine of one step, whose weights cannot be replaced."""

    resident = True
    uploads = 0
    device_duration = float("nan")

    def __init__(self, step: Step, limits: ProcessLimits | None) -> None:
        """Raises what CpuEngine raises."""
        self.inputs: tuple[TensorSpec, ...] = tuple(operand.spec for operand in step.inputs)
        self.outputs: tuple[TensorSpec, ...] = tuple(operand.spec for operand in step.outputs)
        self._name = step.name
        self._engine: StepEngine = cpu_engine(step, isolated=None, limits=limits)

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Run the step once. Raises InputError, ModelUnsupportedError, GraphProcessError."""
        return dict(self._engine.run(inputs))

    def reset(self) -> None:
        """Set the variables of a part for LiteRT to zero."""
        if isinstance(self._engine, CpuEngine):
            self._engine.reset()

    def close(self) -> None:
        """End the process of a part for LiteRT; harmless when called again."""
        self._engine.close()

    def weight_tensor(self, tensor: str = "") -> WeightTensor:
        """Raise ModelUnsupportedError: only weights on the device are replaced."""
        raise ModelUnsupportedError(
            f"expected weights of a part that runs on the Edge TPU; '{tensor}' is in {self._name}, "
            "which runs on the CPU"
        )

    def set_weights(self, request: WeightRequest) -> WeightResult:
        """Raise ModelUnsupportedError."""
        raise AssertionError(self.weight_tensor(request.tensor))

    def prepare_weights(self, request: WeightRequest) -> Callable[[], WeightResult]:
        """Raise ModelUnsupportedError."""
        raise AssertionError(self.weight_tensor(request.tensor))
