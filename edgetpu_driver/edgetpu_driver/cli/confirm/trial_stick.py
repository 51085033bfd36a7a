"""The stick under test by `edgetpu confirm`: opens it, runs programs, and reopens it after a failed step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.cli.confirm.outcome import Refuted, Values
from edgetpu_driver.cli.confirm.separate_headers import SeparateHeaders
from edgetpu_driver.cli.confirm.trial_matrix import TrialMatrix, compared, google_matrix
from edgetpu_driver.errors import DeviceLostError
from edgetpu_driver.stick.edge_tpu import DeviceInfo, EdgeTpu
from edgetpu_driver.stick.loaded_model import LoadedModel
from edgetpu_driver.usb.chip_clock import ClockPreset
from edgetpu_driver.usb.discovery import UsbStick, find_sticks
from edgetpu_driver.usb.firmware_loading import FirmwareImage, firmware_image
from edgetpu_driver.usb.time_source import Clock, clock_of


@dataclass(frozen=True)
class Opening:
    """How the stick was opened."""

    before: tuple[UsbStick, ...]
    """The sticks that were on the bus before."""
    info: DeviceInfo
    seconds: float

    @property
    def loaded_firmware(self) -> bool:
        """Whether the stick was in boot mode."""
        return any(stick.boot_mode for stick in self.before) and not any(
            stick.bus_path == self.info.bus_path and not stick.boot_mode for stick in self.before
        )


class TrialStick:
    """The stick under test. Frame headers are sent in separate transfers except within `headers_together`.

    bus: a pyusb backend. models: the user's compiled models, for the steps that need them.
    """

    def __init__(
        self,
        bus: Any,
        *,
        serial: str | None = None,
        bus_path: str | None = None,
        firmware: str | Path | FirmwareImage | None = None,
        preset: ClockPreset = ClockPreset.HIGH,
        models: Sequence[Path] = (),
        simulated: bool = False,
    ) -> None:
        self.bus = bus
        self.preset = preset
        self.models = tuple(models)
        self.simulated = simulated
        self.firmware = firmware
        self.clock: Clock = clock_of(bus)
        self._link = SeparateHeaders(bus)
        self._serial, self._bus_path = serial, bus_path
        self._tpu: EdgeTpu | None = None
        self._loaded: dict[TrialMatrix, LoadedModel] = {}
        self._opening: Opening | None = None
        self._repeated = 0
        self._reference = google_matrix()

    @property
    def tpu(self) -> EdgeTpu:
        """The open stick; DeviceLostError if it is not open."""
        if self._tpu is None:
            raise DeviceLostError("the stick is not open")
        return self._tpu

    @property
    def first_opening(self) -> Opening | None:
        """How the stick was first opened; None if it never was."""
        return self._opening

    @property
    def opening(self) -> Opening:
        """How the stick was first opened; DeviceLostError if it never was."""
        if self._opening is None:
            raise DeviceLostError("the stick is not open")
        return self._opening

    @property
    def repeated(self) -> int:
        """Operations that were retried since the last call."""
        now = 0 if self._tpu is None else self._tpu.repeated
        new, self._repeated = now - self._repeated, now
        return new

    def on_the_bus(self) -> tuple[UsbStick, ...]:
        """The sticks that are on the bus now."""
        return find_sticks(self.bus)

    def check_firmware(self) -> None:
        """Raise FirmwareError if the stick needs firmware and the file is missing or a different one."""
        found = self.on_the_bus()
        if found and all(stick.boot_mode for stick in found):
            firmware_image(self.firmware, found[0].bus_path)

    def open(self) -> None:
        """Open the stick; raises what EdgeTpu.open raises."""
        before = self.on_the_bus()
        start = self.clock.monotonic()
        self._tpu = EdgeTpu.open(
            usb_backend=self._link,
            serial=self._serial,
            firmware=self.firmware,
            bus_path=self._bus_path,
            preset=self.preset,
        )
        seconds = self.clock.monotonic() - start
        self._opening = self._opening or Opening(before, self._tpu.info(), seconds)

    def close(self) -> None:
        """Shut the stick down and release it, even if it does not answer."""
        tpu, self._tpu = self._tpu, None
        self._loaded.clear()
        self._repeated = 0
        if tpu is not None:
            tpu.close()

    def reopen(self) -> None:
        """Reset the stick by closing and opening it; raises what `open` raises."""
        self.close()
        self.open()

    @contextmanager
    def headers_together(self) -> Iterator[None]:
        """Within the context, send headers and payloads in one transfer."""
        self._link.apart = False
        try:
            yield
        finally:
            self._link.apart = True

    def load(self, matrix: TrialMatrix) -> LoadedModel:
        """Load the program of a matrix onto the stick."""
        loaded = self._loaded.get(matrix)
        if loaded is None:
            loaded = self._loaded[matrix] = self.tpu.load(matrix.model)
        return loaded

    def multiply(self, matrix: TrialMatrix, inputs: NDArray[np.uint8]) -> NDArray[Any]:
        """The products of vectors [n, columns], [n, rows]."""
        loaded = self.load(matrix)
        return np.concatenate([loaded.run({"x": row[np.newaxis]})["y"] for row in inputs])

    def check(self, matrix: TrialMatrix) -> Values:
        """Compare the products of a matrix with the documented arithmetic; Refuted if they differ."""
        inputs = matrix.inputs()
        return compared(self.multiply(matrix, inputs), matrix.products(inputs))

    def check_unharmed(self, after: str) -> None:
        """Raise Refuted unless the stick still multiplies correctly. after: the cause, for the message."""
        try:
            self.check(self._reference)
        except Refuted as error:
            raise Refuted(f"after {after} {error}") from None
