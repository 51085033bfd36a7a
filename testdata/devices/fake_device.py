"""A device for `ModelHost` whose presence and failures are set by the test; its models add 1."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np

from edgetpu_driver.backends.backend import ParsedModel, Placement, Readings, RegisterValue
from edgetpu_driver.errors import (
    GraphProcessError,
    ModelFormatError,
    ModelUnsupportedError,
)
from edgetpu_driver.tflite.tensor import TensorSpec, check_inputs
from testdata.timeouts import PATIENCE

INPUT = TensorSpec("input", (1, 4), np.dtype(np.uint8), 0.5, 3)

OUTPUT = TensorSpec("output", (1, 4), np.dtype(np.uint8), 1.0, 0)
ONES = {"input": np.ones((1, 4), np.uint8)}


class PlusOneEngine:
    """Adds 1; raises `failure` once if it is set."""

    inputs = (INPUT,)
    outputs = (OUTPUT,)
    resident = True
    uploads = 0
    device_duration = 0.25

    def __init__(self, backend: FakeBackend, source: bytes) -> None:
        self._backend = backend
        self._source = source

    def close(self) -> None:
        """Record that the model was closed."""
        self._backend.closed.append(self._source)

    def run(self, inputs: Any) -> dict[str, Any]:
        """Add 1; wait while the backend holds inferences."""
        check_inputs(self.inputs, inputs)
        self._backend.begun.set()
        self._backend.release.wait(PATIENCE)
        failure, self._backend.failure = self._backend.failure, None
        if failure is not None:
            raise failure
        return {"output": inputs["input"] + 1}


class FakeBackend:
    """A device whose presence and failures are set by the test."""

    name = "fake"
    compiled = True
    uncompiled = False

    def __init__(self) -> None:
        self.absence: Exception | None = None
        self.failure: Exception | None = None
        self.opened = 0
        self.deaths = 0
        """Number of times that a graph's process dies while an engine is made."""
        self.parsed = 0
        self.closed: list[bytes] = []
        self.begun, self.release, self.parsing = threading.Event(), threading.Event(), threading.Event()
        self.release.set()
        self.parsing.set()

    def hold(self) -> None:
        """Let the next inference begin but not end."""
        self.begun.clear()
        self.release.clear()

    def parse(self, path: Path, data: bytes) -> ParsedModel:
        """Take any bytes but b"broken" for a model."""
        self.parsed += 1
        self.parsing.wait(PATIENCE)
        if data == b"broken":
            raise ModelFormatError(f"{path.name}: broken")
        return ParsedModel((INPUT,), (OUTPUT,), Placement.CACHED, len(data), 7, data)

    def adopt(self, model: ParsedModel) -> None:
        """Parse the model again."""
        self.parse(Path(), model.source)

    simulated_time = None

    def open(self, on_phase: Any = None) -> None:  # noqa: ARG002
        """Count the call, or raise `absence`."""
        if self.absence is not None:
            raise self.absence
        self.opened += 1

    def close(self) -> None:
        """Do nothing."""

    def attach(self, model: ParsedModel) -> PlusOneEngine:
        """Make an engine; fails if the model is b"too large" or its process has to die."""
        if model.source == b"too large":
            raise ModelUnsupportedError("does not fit")
        if self.deaths:
            self.deaths -= 1
            raise GraphProcessError("the process that runs the graph died")
        return PlusOneEngine(self, model.source)

    def set_clock(self, preset: str) -> None:
        """Remember the preset."""
        self.preset = preset

    def read(self) -> Readings:
        """Give fixed readings, or raise `absence`."""
        if self.absence is not None:
            raise self.absence
        return Readings(serial="S1", uploads=self.opened, recoveries=2)

    def registers(self) -> tuple[RegisterValue, ...]:
        """Return one register."""
        return (RegisterValue("scu_ctrl_0", 0x1A30C, 5),)
