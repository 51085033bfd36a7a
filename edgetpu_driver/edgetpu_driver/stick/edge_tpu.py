"""One Edge TPU on USB: opened, given work, recovered after faults, closed."""

from __future__ import annotations

import atexit
import logging
import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.stick.prepared_model import PreparedModel
from edgetpu_driver.stick.recovery import ResilientLink
from edgetpu_driver.tensor import check_inputs
from edgetpu_driver.usb.bringup import ClockPreset
from edgetpu_driver.usb.connector import OnPhase, StickConnector
from edgetpu_driver.usb.discovery import UsbStick
from edgetpu_driver.usb.fault_diagnosis import Interrupt, take_interrupts
from edgetpu_driver.usb.firmware import FirmwareImage
from edgetpu_driver.usb.libusb import default_backend
from edgetpu_driver.usb.link import UsbLink
from edgetpu_driver.usb.registers import DIAGNOSTIC_REGISTERS, Register, celsius
from edgetpu_driver.weights.dense_layer import dense_parameters

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DeviceInfo:
    """What is known of an open device."""

    serial: str
    """USB serial number; empty when it has none, which is usual."""
    bus_path: str
    """<bus>-<port>[.<port>...]."""
    link_speed: float
    """Mbit/s."""
    firmware: str
    """Release number that the running firmware reports, such as "1.00"."""
    clock_preset: ClockPreset
    temperature: float
    """Of the die, degrees Celsius; NaN while the chip's thermometer is off."""
    parameter_bytes: int
    """Bytes of parameters now in the chip's memory."""
    inferences: int
    """This and what follows count from `EdgeTpu.open` on."""
    uploads: int
    bytes_sent: int
    bytes_received: int
    retries: int
    """Operations run a second time after a fault."""
    recoveries: int
    """Times the device was reset and brought up again."""
    thermal_warnings: int
    """Times `info` found that the chip had warned of its temperature."""


class EdgeTpu:
    """An Edge TPU on USB. All methods may be called from any thread; calls are serialised.

    After a failed transfer the device is drained, or reset and brought up again, and the operation run a
    second time. When that fails too its exception reaches the caller, and the next call starts by bringing
    the device up once more; so does a call after DeviceLostError, once the stick is back in its port.
    """

    def __init__(self, connector: StickConnector, *, resets: bool = True) -> None:
        """Connect at once; use `EdgeTpu.open`."""
        self._connector = connector
        self._lock = threading.RLock()
        self._prepared: dict[CompiledModel, PreparedModel] = {}
        self._resident: dict[bytes, PreparedModel] = {}
        self._token = 0
        self._inferences = self._uploads = self._thermal_warnings = 0
        self._link = ResilientLink(connector, self._resident.clear, resets=resets)
        # It knows the link but not this object, which it would keep from being collected. Registered by
        # hand, to run before what pyusb has collected at the end: weakref runs all of its own in one go.
        self._release = weakref.finalize(self, _close, self._lock, self._link)
        self._release.atexit = False
        atexit.register(self._release)

    @classmethod
    def open(
        cls,
        usb_backend: Any = None,
        serial: str | None = None,
        firmware: str | Path | FirmwareImage | None = None,
        *,
        bus_path: str | None = None,
        preset: ClockPreset = ClockPreset.HIGH,
        resets: bool = True,
        on_phase: OnPhase | None = None,
    ) -> EdgeTpu:
        """Find a stick, load its firmware if it is in boot mode, bring it up.

        usb_backend: any pyusb IBackend, by default libusb 1.0. serial, bus_path: which stick; any by default.
        firmware: path of the vendor's image, needed for a stick in boot mode.
        resets: whether a call may take the seconds that resetting a failed device needs; if not, such a fault
        is raised at once and the device must be closed and opened again. on_phase: told, in the thread that
        waits for it, what takes its time whenever a stick is made ready.
        Raises DependencyMissingError, DeviceNotFoundError, DeviceAccessError, DeviceBusyError, FirmwareError,
        or another DeviceError when the stick does not come up.
        """
        backend = default_backend() if usb_backend is None else usb_backend
        return cls(StickConnector(backend, serial, bus_path, firmware, preset, on_phase), resets=resets)

    def __enter__(self) -> EdgeTpu:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Halt the chip, put it to sleep, release it; harmless when called again."""
        with self._lock:
            atexit.unregister(self._release)
            self._release()

    def run(self, model: CompiledModel, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Run a model once, after uploading its parameters where they are not in the chip's memory.

        inputs: every input by name, of the model's shape and dtype. Returns every output by name, in the
        model's shape and dtype; the arrays belong to the caller. Raises InputError, ModelUnsupportedError for
        a model that cannot run over USB, DeviceLostError when the stick is gone, or the DeviceError that it
        did not recover from.
        """
        check_inputs(model.inputs, inputs)

        def infer(link: UsbLink) -> dict[str, NDArray[Any]]:
            self._make_resident(link, prepared)
            return prepared.run(link, inputs)

        with self._lock:
            prepared = self._prepare(model)
            outputs = self._link.attempt(infer)
            self._inferences += 1
            return outputs

    def upload(
        self,
        model: CompiledModel,
        weights: bytes | memoryview | NDArray[np.int8] | None = None,
        *,
        streamed: bytes | memoryview | None = None,
    ) -> None:
        """Put a model's cached parameters into the chip's memory now; harmless for a model without any.

        weights: used from now on instead of the model's own; parameter bytes of the same size and layout, or
        the weight matrix of a Dense model, int8[outputs, inputs] at the scales of the model. streamed: the
        same for the parameter bytes that are sent with every inference. When it fails, those used before stay
        in use. Raises InputError for another size or dtype, ModelUnsupportedError for a matrix where the
        model is not a Dense one or a model that cannot run over USB, DeviceError.
        """

        def put(link: UsbLink) -> None:
            self._resident.pop(prepared.place, None)
            self._make_resident(link, prepared)

        with self._lock:
            before = prepared = self._prepare(model)
            if weights is not None:
                if isinstance(weights, np.ndarray):
                    weights = dense_parameters(model, weights)
                prepared = prepared.with_cached(bytes(weights))
            if streamed is not None:
                prepared = prepared.with_streamed(bytes(streamed))
            self._prepared[model] = prepared
            try:
                self._link.attempt(put)
            except BaseException:
                self._prepared[model] = before
                raise

    def prepare(self, model: CompiledModel) -> None:
        """Make everything that can be made before the first run; ModelUnsupportedError if it cannot run."""
        self._prepare(model)

    def forget(self, model: CompiledModel) -> None:
        """Drop what was prepared for a model that will not run again."""
        with self._lock:
            prepared = self._prepared.pop(model, None)
            if prepared is not None and self._resident.get(prepared.place) is prepared:
                del self._resident[prepared.place]

    def is_resident(self, model: CompiledModel) -> bool:
        """Whether the model's cached parameters are in the chip's memory now; never waits for the device."""
        prepared = self._prepared.get(model)
        return prepared is not None and self._holds(prepared)

    def info(self) -> DeviceInfo:
        """Everything known of the device and of the work done. Raises DeviceError."""
        with self._lock:
            stick, serial, temperature = self._link.attempt(self._look_at)
            traffic = self._connector.traffic
            return DeviceInfo(
                serial=serial,
                bus_path=stick.bus_path,
                link_speed=stick.link_speed,
                firmware=stick.firmware_release,
                clock_preset=self._connector.preset,
                temperature=temperature,
                parameter_bytes=sum(prepared.cached_bytes for prepared in self._resident.values()),
                inferences=self._inferences,
                uploads=self._uploads,
                bytes_sent=traffic.sent,
                bytes_received=traffic.received,
                retries=self._link.retries,
                recoveries=self._link.recoveries,
                thermal_warnings=self._thermal_warnings,
            )

    def _look_at(self, link: UsbLink) -> tuple[UsbStick, str, float]:
        temperature = celsius(link.read_register(Register.omc0_dc))
        if Interrupt.THERMAL_WARNING in take_interrupts(link):
            self._thermal_warnings += 1
            _log.warning("the Edge TPU at %s is hot: %.0f degrees Celsius", link.stick.bus_path, temperature)
        return link.stick, link.serial_number(), temperature

    def registers(self) -> dict[Register, int]:
        """Read the error and status registers. Raises DeviceError."""

        def read(link: UsbLink) -> dict[Register, int]:
            return {register: link.read_register(register) for register in DIAGNOSTIC_REGISTERS}

        with self._lock:
            return self._link.attempt(read)

    def _prepare(self, model: CompiledModel) -> PreparedModel:
        prepared = self._prepared.get(model)
        if prepared is None:
            # No lock: the device may be hanging in another thread's call.
            prepared = self._prepared.setdefault(model, PreparedModel(model))
        return prepared

    def _make_resident(self, link: UsbLink, prepared: PreparedModel) -> None:
        """Only models of one caching token can be in memory together; token 0 is never kept."""
        if prepared.token == 0 or prepared.token != self._token:
            self._resident.clear()
            self._token = prepared.token
        if prepared.caching is None or self._holds(prepared):
            return
        self._resident.pop(prepared.place, None)
        prepared.caching.run(link)
        self._resident[prepared.place] = prepared
        self._uploads += 1

    def _holds(self, prepared: PreparedModel) -> bool:
        """Whether these parameters are in the chip's memory, be it through another copy of the model."""
        resident = self._resident.get(prepared.place)
        return resident is not None and resident.content == prepared.content


def _close(lock: threading.RLock, link: ResilientLink) -> None:
    with lock:
        link.close()
