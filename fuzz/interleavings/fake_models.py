"""Models of several steps on fake sticks and a fake CPU: how they are read, and their expected outputs.

The content of a file says where its steps run: `b"steps dc 1"` has one step on a stick, then one on the CPU.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.backends.backend import Backend, ParsedModel, Placement
from edgetpu_driver.backends.cpu_parts import CpuPartsBackend
from edgetpu_driver.engines.litert_process_limits import ProcessLimits
from edgetpu_driver.engines.whole_model.model_plan import ModelPlan, Operand, Step
from edgetpu_driver.errors import GraphProcessError
from edgetpu_driver.host.models.model_parts import ModelPart, ReadModel, read_model
from fuzz.interleavings.fake_sticks import INPUT, OUTPUT, product, weights_of_file
from fuzz.interleavings.thread_controller import ThreadController

_MAGIC = b"steps "
_FAILURES = 0.02
"""Share of runs on the CPU that fail."""


@dataclass(frozen=True)
class FakeStep:
    """One step of a model."""

    data: bytes
    """Bytes that determine its weights."""
    on_device: bool
    segment: int

    @property
    def weights(self) -> NDArray[np.int8]:
        """The weights of the file: int8[SIZE, SIZE]."""
        return weights_of_file(self.data)


def steps_of(contents: Sequence[bytes]) -> tuple[FakeStep, ...]:
    """The steps of a model with files of these contents."""
    if len(contents) == 1 and not contents[0].startswith(_MAGIC):
        return (FakeStep(contents[0], True, 0),)
    return tuple(
        FakeStep(data + bytes([number]), letter == "d", segment)
        for segment, data in enumerate(contents)
        for number, letter in enumerate(data.split()[1].decode())
    )


def run_steps(
    steps: Sequence[FakeStep], inputs: NDArray[np.int8], weights: NDArray[np.int8] | None = None
) -> NDArray[np.int8]:
    """The output of steps: int8[1, SIZE]. weights: of the steps on a stick; None: weights of the files."""
    for step in steps:
        inputs = product(weights if weights is not None and step.on_device else step.weights, inputs)
    return inputs


class FakeCpu(CpuPartsBackend):
    """Runs steps on the CPU, and detects misuse."""

    def __init__(self, controller: ThreadController) -> None:
        super().__init__()
        self.controller = controller
        self.random = random.Random(controller.random.random())
        self.attached = 0
        """Number of engines that have not been closed."""
        self.in_use = False

    def attach(self, model: ParsedModel) -> Any:
        """See Backend."""
        self.controller.sleep(0.002)
        return FakeCpuEngine(self, model.source)


class FakeCpuEngine:
    """The engine of a step on the CPU."""

    inputs = (INPUT,)
    outputs = (OUTPUT,)
    resident = True
    uploads = 0
    device_duration = float("nan")

    def __init__(self, cpu: FakeCpu, step: FakeStep) -> None:
        self._cpu, self._step = cpu, step
        self._closed = False
        cpu.attached += 1

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """See Engine."""
        assert not self._closed, "an engine of the CPU is used after it was closed"
        assert not self._cpu.in_use, "two threads run steps on the CPU at the same time"
        self._cpu.in_use = True
        try:
            self._cpu.controller.sleep(0.006 * self._cpu.random.random())
        finally:
            self._cpu.in_use = False
        if self._cpu.random.random() < _FAILURES:
            raise GraphProcessError("the process ended")
        return {"y": product(self._step.weights, inputs["x"])}

    def close(self) -> None:
        """See AttachedEngine."""
        self._cpu.attached -= not self._closed
        self._closed = True


class Reader:
    """Reads models of several steps for fake sticks, and leaves other models to the backend."""

    def __init__(self, cpu: FakeCpu) -> None:
        self._cpu = cpu
        self._tokens = count(1)

    def read(
        self, backend: Backend, files: Sequence[tuple[Path, bytes]], limits: ProcessLimits | None = None
    ) -> ReadModel:
        """See read_model. Segments of a pipeline displace each other on a stick; parts of one file do not."""
        contents = [data for _, data in files]
        steps = steps_of(contents)
        if len(steps) == 1:
            return read_model(backend, files, limits)
        self._cpu.controller.sleep(0.01)
        token = next(self._tokens)
        parts = tuple(
            ModelPart(
                ParsedModel(
                    (INPUT,),
                    (OUTPUT,),
                    Placement.CACHED if step.on_device else Placement.HOST,
                    100,
                    token,
                    step.data if step.on_device else step,
                    region=1 if len(files) > 1 else 1 << number,
                ),
                step.on_device,
                ("FULLY_CONNECTED",),
            )
            for number, step in enumerate(steps)
        )
        whole = ParsedModel((INPUT,), (OUTPUT,), Placement.CACHED, 100 * len(steps), token, steps)
        return ReadModel(whole, _plan(steps), parts, self._cpu)


def _plan(steps: Sequence[FakeStep]) -> ModelPlan:
    return ModelPlan(
        name="steps",
        inputs=(INPUT,),
        outputs=(OUTPUT,),
        input_values=(0,),
        output_values=(len(steps),),
        constants={},
        steps=tuple(
            Step(
                "step", (Operand(at, INPUT),), (Operand(at + 1, OUTPUT),), ("FULLY_CONNECTED",), step.segment
            )
            for at, step in enumerate(steps)
        ),
    )


def matrices_of(steps: Sequence[FakeStep]) -> list[NDArray[np.float64]]:
    """The real weights of the steps on a stick: float64[SIZE, SIZE] each."""
    return [np.asarray(step.weights / 127) for step in steps if step.on_device]
