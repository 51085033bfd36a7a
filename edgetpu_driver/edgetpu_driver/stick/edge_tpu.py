"""An open Edge TPU on USB: models are loaded on it and run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.stick.final_release import FinalRelease
from edgetpu_driver.stick.loaded_model import LoadedModel
from edgetpu_driver.stick.session import StickSession
from edgetpu_driver.usb.chip_clock import ClockPreset, clock_preset, set_clock
from edgetpu_driver.usb.chip_faults import Interrupt, take_interrupts
from edgetpu_driver.usb.connector import OnPhase, StickConnector
from edgetpu_driver.usb.discovery import UsbStick
from edgetpu_driver.usb.firmware_loading import FirmwareImage
from edgetpu_driver.usb.libusb import default_backend
from edgetpu_driver.usb.link import UsbLink
from edgetpu_driver.usb.registers import DIAGNOSTIC_REGISTERS, Register, celsius
from edgetpu_driver.usb.time_source import Clock

_log = logging.getLogger(__name__)
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class DeviceInfo:
    """The state of an open device and its counters."""

    serial: str
    """USB serial number; usually empty."""
    bus_path: str
    """<bus>-<port>[.<port>...]."""
    link_speed: float
    """Mbit/s."""
    firmware: str
    """Release number reported by the running firmware, such as "1.00"."""
    clock_preset: ClockPreset
    temperature: float
    """Temperature of the die, degrees Celsius; NaN while the chip's thermometer is off."""
    parameter_bytes: int
    """Bytes of parameters in the chip's memory now."""
    inferences: int
    """Inferences since `EdgeTpu.open`; the counters that follow start there too."""
    uploads: int
    bytes_sent: int
    bytes_received: int
    retries: int
    """Operations repeated after a fault."""
    recoveries: int
    """Times the device was reset and brought up again."""
    thermal_warnings: int
    """Calls of `info` that found a temperature warning of the chip."""


class EdgeTpu:
    """An Edge TPU on USB. All methods may be called from any thread; calls are serialised.

        with EdgeTpu.open() as tpu:
            loaded = tpu.load(CompiledModel.load("x_edgetpu.tflite"))
            outputs = loaded.run({"input": array})

    After a failed transfer the device is drained, or reset and brought up again, and the operation is
    retried once. If that fails too, its exception is raised, and the next call starts by bringing the device
    up again; so does a call after DeviceLostError, once the stick is back in its port.
    """

    def __init__(self, connector: StickConnector) -> None:
        """Connect at once; use `EdgeTpu.open`."""
        self._session = StickSession(connector)
        self._models: dict[CompiledModel, LoadedModel] = {}
        """Models that `run` and `upload` have loaded."""
        self._thermal_warnings = 0
        self._release = FinalRelease(self, self._session.close)

    @classmethod
    def open(
        cls,
        usb_backend: Any = None,
        serial: str | None = None,
        firmware: str | Path | FirmwareImage | None = None,
        *,
        bus_path: str | None = None,
        preset: ClockPreset | str = ClockPreset.HIGH,
        on_phase: OnPhase | None = None,
    ) -> EdgeTpu:
        """Find a stick, load its firmware if it is in boot mode, bring it up.

        usb_backend: any pyusb IBackend, by default libusb 1.0. serial, bus_path: which stick; any by default.
        firmware: path of the vendor's image, needed for a stick in boot mode.
        preset: the clock of the chip, also by its name, such as "max". on_phase: called, in the calling
        thread, with each phase of bringing a stick up, also when it recovers from a fault.
        Raises InputError for an unknown preset, DependencyMissingError, DeviceNotFoundError,
        DeviceAccessError, DeviceBusyError, FirmwareError, or another DeviceError if the stick does not come
        up.
        """
        backend = default_backend() if usb_backend is None else usb_backend
        return cls(StickConnector(backend, serial, bus_path, firmware, preset, on_phase))

    def __enter__(self) -> EdgeTpu:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Halt the chip, put it to sleep, release it; harmless when called again."""
        with self._session.lock:
            self._release()

    def load(self, model: CompiledModel) -> LoadedModel:
        """Prepare a model for this stick; nothing is sent before its first run or upload.

        Each call gives another loaded model, with its own parameters. ModelUnsupportedError if the model
        cannot run over USB.
        """
        return LoadedModel(model, self._session, owner=self)

    def run(self, model: CompiledModel, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Run a model once, loading it on first use.

        inputs: every input of the model by name, in its shape and dtype. Returns every output by name, in
        its shape and dtype; the arrays belong to the caller. Raises InputError for other inputs,
        ModelUnsupportedError for a model that cannot run over USB, and the DeviceError that the device did
        not recover from.
        """
        return (self._models.get(model) or self._load(model)).run(inputs)

    def upload(
        self,
        model: CompiledModel,
        weights: bytes | memoryview | NDArray[np.int8] | None = None,
        *,
        streamed: bytes | memoryview | None = None,
    ) -> None:
        """Upload the parameters that `run` uses for a model from then on.

        weights: bytes of the size and layout of the cached parameters, or the weight matrix of a Dense
        model, int8[outputs, inputs]; None uploads the model's own. streamed: the parameter bytes that are
        sent with every inference. Raises InputError for another size or dtype, ModelUnsupportedError for a
        matrix if the model is not Dense, and DeviceError; the previous parameters then stay in effect.
        """
        (self._models.get(model) or self._load(model)).upload(weights, streamed=streamed)

    @property
    def simulated_clock(self) -> Clock | None:
        """The clock of a virtual stick; None for a real one."""
        return self._session.simulated_clock

    def set_clock(self, preset: ClockPreset | str) -> None:
        """Set the clock of the chip, now and after each recovery. Raises InputError, DeviceError."""
        chosen = clock_preset(preset)
        with self._session.lock:
            self._session.connector.preset = chosen
            self._session.link.attempt(set_clock, chosen)

    def with_link(self, operation: Callable[[UsbLink], _Result]) -> _Result:
        """Call an operation with the link to the stick; after a fault it is repeated once, like a run.

        For checks and tools: the operation must leave the chip in a state that does not affect later runs.
        Raises DeviceError.
        """
        with self._session.lock:
            return self._session.link.attempt(operation)

    @property
    def repeated(self) -> int:
        """Number of operations repeated after a fault since `open`; never waits for the device."""
        return self._session.link.retries

    def info(self) -> DeviceInfo:
        """Read the state of the device and the counters. Raises DeviceError."""
        session = self._session
        with session.lock:
            stick, serial, temperature = session.link.attempt(self._inspect)
            traffic = session.connector.traffic
            return DeviceInfo(
                serial=serial,
                bus_path=stick.bus_path,
                link_speed=stick.link_speed,
                firmware=stick.firmware_release,
                clock_preset=session.connector.preset,
                temperature=temperature,
                parameter_bytes=session.memory.size,
                inferences=session.inferences,
                uploads=session.memory.uploads,
                bytes_sent=traffic.sent,
                bytes_received=traffic.received,
                retries=session.link.retries,
                recoveries=session.link.recoveries,
                thermal_warnings=self._thermal_warnings,
            )

    def _inspect(self, link: UsbLink) -> tuple[UsbStick, str, float]:
        temperature = celsius(link.read_register(Register.omc0_dc))
        if Interrupt.THERMAL_WARNING in take_interrupts(link):
            self._thermal_warnings += 1
            _log.warning("the Edge TPU at %s is hot: %.0f degrees Celsius", link.stick.bus_path, temperature)
        return link.stick, link.serial_number(), temperature

    def registers(self) -> dict[Register, int]:
        """Read the error and status registers. Raises DeviceError."""

        def read(link: UsbLink) -> dict[Register, int]:
            return {register: link.read_register(register) for register in DIAGNOSTIC_REGISTERS}

        with self._session.lock:
            return self._session.link.attempt(read)

    def _load(self, model: CompiledModel) -> LoadedModel:
        # No lock: the device may hang in another thread's call. No owner: this object owns the model.
        return self._models.setdefault(model, LoadedModel(model, self._session))
