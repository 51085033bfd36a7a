"""Sticks without USB: they run small Dense models, fail on request, and detect misuse."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.backends.backend import ParsedModel, Placement, Readings, RegisterValue
from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.errors import (
    DeviceLostError,
    DeviceNotFoundError,
    ModelFormatError,
    ModelUnsupportedError,
    TransferError,
)
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_driver.weights.quantisation import WeightQuantiser
from edgetpu_driver.weights.replaceable_weights import WeightTensor
from edgetpu_driver.weights.weight_request import WeightRequest, WeightResult
from fuzz.interleavings.thread_controller import ThreadController

SIZE = 4
"""Number of rows and columns of every model."""
INPUT = TensorSpec("x", (1, SIZE), np.dtype(np.int8), 1 / 127, 0)
OUTPUT = TensorSpec("y", (1, SIZE), np.dtype(np.int8), SIZE / 127, 0)
TENSOR = WeightTensor(
    "w", "FULLY_CONNECTED", (SIZE, SIZE), np.full(SIZE, 1 / 127, np.float32), is_pure_matmul=True
)
BROKEN = b"broken"
"""Content of a file that cannot be parsed."""
PICKY = b"picky"
"""Content of a file that runs only on the first stick."""


def weights_of_file(data: bytes) -> NDArray[np.int8]:
    """The weights in a model's file: int8[SIZE, SIZE]."""
    return np.random.default_rng(list(data)).integers(-127, 128, (SIZE, SIZE), np.int8)


def weights_of(request: WeightRequest) -> NDArray[np.int8]:
    """The weights that a request of at most SIZE x SIZE sets: int8[SIZE, SIZE]."""
    quantiser = WeightQuantiser(TENSOR)
    quantiser.quantise(request)
    return quantiser.values.copy()


def product(weights: NDArray[np.int8], inputs: NDArray[np.int8]) -> NDArray[np.int8]:
    """The output of an inference: int8[1, SIZE]."""
    steps = weights.astype(np.int32) @ inputs.reshape(-1).astype(np.int32)
    return np.clip(np.rint(steps / (127 * SIZE)), -128, 127).astype(np.int8).reshape(1, SIZE)


class FakeStick:
    """The device at one port of the bus."""

    def __init__(self, controller: ThreadController, number: int, simulated: bool) -> None:
        """simulated: whether it has a clock of its own."""
        self.controller = controller
        self.number = number
        self.bus_path = f"1-{number + 1}"
        self.plugged = True
        self.failures = 0
        """Number of transfers that will fail."""
        self.warm = False
        self.delay = 0.0
        """Additional time of a transfer, s."""
        self.attach_seconds = 0.0
        self.session = 0
        """Number of the present session; 0 if the stick is not open."""
        self.opened = 0
        self.attached = 0
        """Number of engines of the present session that have not been closed."""
        self.clock = 0.0
        self.simulated = simulated
        self.memory: FakeEngine | None = None
        """The engine whose parameters are in the stick's memory."""
        self._in_use = False

    def use(self, seconds: float, session: int) -> None:
        """Simulate a transfer of this duration; raises DeviceError if it fails."""
        assert not self._in_use, "two threads use a stick at the same time"
        assert session == self.session, "an engine is used after its device was closed"
        self._in_use = True
        try:
            self.controller.sleep(self.delay + seconds * (0.5 + self.controller.random.random()))
        finally:
            self._in_use = False
        self.clock += seconds
        if not self.plugged:
            raise DeviceLostError(f"the stick at {self.bus_path} is gone")
        if self.failures:
            self.failures -= 1
            raise TransferError("a transfer failed")


class FakeEngine:
    """A Dense model attached to a fake stick."""

    inputs = (INPUT,)
    outputs = (OUTPUT,)

    def __init__(self, stick: FakeStick, data: bytes) -> None:
        self._stick = stick
        self._session = stick.session
        self._values = weights_of_file(data)
        self._closed = False
        self.uploads = 0
        stick.attached += 1

    @property
    def resident(self) -> bool:
        """See AttachedEngine."""
        return self._stick.memory is self

    @property
    def device_duration(self) -> float:
        """See AttachedEngine."""
        return 0.001

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """See Engine."""
        assert not self._closed, "an engine is used after it was closed"
        self._stick.use(0.003 if self.resident else 0.005, self._session)
        if not self.resident:
            self._stick.memory = self
            self.uploads += 1
        return {"y": product(self._values, inputs["x"])}

    def reset(self) -> None:
        """See AttachedEngine."""

    def weight_tensor(self, tensor: str = "") -> WeightTensor:
        """See SwappableEngine."""
        assert tensor in ("", "w")
        return TENSOR

    def set_weights(self, request: WeightRequest) -> WeightResult:
        """See SwappableEngine."""
        return self.prepare_weights(request)()

    def prepare_weights(self, request: WeightRequest) -> Callable[[], WeightResult]:
        """See AttachedEngine."""
        self._stick.controller.sleep(0.004)
        quantiser = WeightQuantiser(TENSOR)
        result = quantiser.quantise(request)
        values = quantiser.values.copy()

        def commit() -> WeightResult:
            assert not self._closed, "an engine is used after it was closed"
            self._stick.use(0.006, self._session)
            self._values = values
            return replace(result, version=1)

        return commit

    def close(self) -> None:
        """See AttachedEngine."""
        if not self._closed and self._session == self._stick.session:
            self._stick.attached -= 1
        self._closed = True


class FakeBackend:
    """A backend for one fake stick."""

    name = "fake"
    compiled = True
    uncompiled = False

    def __init__(self, stick: FakeStick) -> None:
        self.stick = stick

    def parse(self, path: Path, data: bytes) -> ParsedModel:
        """See Backend."""
        self.stick.controller.sleep(0.01)
        if data == BROKEN:
            raise ModelFormatError(f"{path.name}: broken")
        return ParsedModel((INPUT,), (OUTPUT,), Placement.CACHED, 100 * len(data), 0, data)

    def parse_part(self, model: CompiledModel) -> ParsedModel:
        """See Backend."""
        raise ModelUnsupportedError(f"{model.name}: a fake stick runs whole models")

    def adopt(self, model: ParsedModel) -> None:
        """See Backend."""

    @property
    def simulated_time(self) -> Callable[[], float] | None:
        """See Backend."""
        return (lambda: self.stick.clock) if self.stick.simulated else None

    def open(self, on_phase: Any = None) -> None:  # noqa: ARG002
        """See Backend."""
        stick = self.stick
        if not stick.plugged:
            raise DeviceNotFoundError("no stick")
        stick.use(0.05, 0)
        stick.opened += 1
        stick.session = stick.opened

    def close(self) -> None:
        """See Backend."""
        self.stick.session = self.stick.attached = 0
        self.stick.memory = None

    def attach(self, model: ParsedModel) -> FakeEngine:
        """See Backend."""
        self.stick.controller.sleep(self.stick.attach_seconds)
        if not self.stick.session:
            raise DeviceLostError("the device is not open")
        if model.source == PICKY and self.stick.number:
            raise ModelUnsupportedError("it does not fit")
        return FakeEngine(self.stick, model.source)

    def set_clock(self, preset: str) -> None:  # noqa: ARG002
        """See Backend."""
        self.stick.use(0.001, self.stick.session)

    def read(self) -> Readings:
        """See Backend."""
        if self.stick.session:
            self.stick.use(0.001, self.stick.session)
        stick = self.stick
        return Readings(
            serial=str(stick.number), bus_path=stick.bus_path, clock_preset="max", warm=stick.warm
        )

    def registers(self) -> tuple[RegisterValue, ...]:
        """See Backend."""
        self.stick.use(0.001, self.stick.session)
        return (RegisterValue("scu_ctrl_0", 0x1A30C, 5),)
