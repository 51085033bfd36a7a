"""A model, or one part of it, as `edgetpu run` and `edgetpu benchmark` run it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from numpy.typing import NDArray

from edgetpu_driver.backends.backend import Backend
from edgetpu_driver.backends.whole_model_parsing import ParsedPlan
from edgetpu_driver.cli.device_and_model import PATIENT, part
from edgetpu_driver.engines.whole_model.model import Model
from edgetpu_driver.engines.whole_model.model_plan import Step

StepCallback = Callable[..., None]
"""Called with a step of a whole model when it has run."""


class Runnable(Protocol):
    """A model on an open device."""

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Run it once; inputs and outputs by name."""
        ...


class RunnableModel:
    """The model to run, or one part of it for the Edge TPU."""

    def __init__(self, parsed: ParsedPlan, number: int | None) -> None:
        """number: of the part; None for the whole model. InputError if there is no such part."""
        self._parsed = parsed
        self._part = None if number is None else part(parsed, number)
        plan = parsed.plan
        if self._part is None:
            self.inputs, self.outputs = plan.inputs, plan.outputs
            self.notes = [parsed.remark] if parsed.remark else []
            return
        self.inputs, self.outputs = self._part.model.inputs, self._part.model.outputs
        outer = ", ".join(spec.name for spec in plan.outputs)
        self.notes = [f"part {number} of the model only: inner tensors; the model's own outputs are {outer}"]

    def attach(self, backend: Backend, on_step: StepCallback | None = None) -> Runnable:
        """Prepare it to run on the open device. on_step: for the steps of a whole model."""
        if self._part is not None:
            return backend.attach(self._parsed.parts[self._part])
        model = self._parsed.attach(backend, limits=PATIENT)
        return model if on_step is None else _Observed(model, on_step)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of a whole model; empty for a part."""
        return self._parsed.plan.steps if self._part is None else ()


class _Observed:
    """A whole model that reports each step."""

    def __init__(self, model: Model, on_step: StepCallback) -> None:
        self._model, self._on_step = model, on_step

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        return self._model.run(inputs, on_step=self._on_step)
