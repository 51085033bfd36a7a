"""Connects to one stick, initially and after faults: selection, firmware, bring-up."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any

from edgetpu_driver.errors import (
    DeviceAccessError,
    DeviceBusyError,
    DeviceError,
    DeviceLostError,
    DeviceNotFoundError,
    ProtocolError,
    TransferError,
)
from edgetpu_driver.usb.chip_bringup import bring_up
from edgetpu_driver.usb.chip_clock import ClockPreset, clock_preset
from edgetpu_driver.usb.discovery import UsbStick, find_at, find_sticks, wait_at
from edgetpu_driver.usb.firmware_loading import FirmwareImage, firmware_image, load_firmware
from edgetpu_driver.usb.link import Traffic, UsbLink
from edgetpu_driver.usb.time_source import Clock, clock_of

_log = logging.getLogger(__name__)

AFTER_RESET_SECONDS = 0.6
"""Settling time after a USB reset; requests sent earlier may get no answer. Reported to be enough by a third
party; the vendor's driver waits 1 s."""
REAPPEAR_SECONDS = 25.0
"""Enumeration timeout when opening a stick, as in the vendor's driver."""
RECOVERY_SECONDS = 3.0
"""Enumeration timeout after a fault, when a request is waiting: as long as the vendor's driver waits for a
stick to reappear when it closes."""


class Phase(Enum):
    """The slow phases of connecting to a stick."""

    BOOT = "loading its firmware"
    STARTING = "resetting it and bringing its chip up"
    RECOVERING = "recovering from a fault"


OnPhase = Callable[[Phase, str], None]
"""Called with the phase that begins and the bus path of the stick."""


class StickConnector:
    """Connects to the selected stick; after the first connection, always to the stick in the same port."""

    def __init__(
        self,
        backend: Any,
        serial: str | None = None,
        bus_path: str | None = None,
        firmware: str | Path | FirmwareImage | None = None,
        preset: ClockPreset | str = ClockPreset.HIGH,
        on_phase: OnPhase | None = None,
    ) -> None:
        self.serial = serial
        self.bus_path = bus_path
        self.preset = clock_preset(preset)
        self.traffic = Traffic()
        self._backend = backend
        self._firmware = firmware
        self._on_phase = on_phase or (lambda _phase, _bus_path: None)
        self._clock: Clock = clock_of(backend)
        self.simulated_clock: Clock | None = getattr(backend, "clock", None)
        """The clock of a virtual device; None for a real one."""

    @property
    def simulated_hang_reason(self) -> str:
        """Why a virtual device hangs; empty if it does not, and for a real one."""
        return str(getattr(self._backend, "hang_reason", ""))

    def connect(self) -> UsbLink:
        """Find the stick, load its firmware if needed, reset it and bring up its chip.

        Raises DeviceNotFoundError, DeviceAccessError, DeviceBusyError, FirmwareError, or the DeviceError of
        the transfer that failed.
        """
        failure: DeviceError | None = None
        for stick in self._candidates():
            try:
                link = self._make_ready(stick, reset=True)
            except DeviceError as error:
                failure = failure or error
                continue
            if link is not None:
                self.bus_path = stick.bus_path
                return link
        raise failure or DeviceNotFoundError(
            f"no Edge TPU{self._wanted()} is on the bus; plug it in, or into another port if it is plugged in"
            " (lsusb shows it as 18d1:9302, or 1a6e:089a before it has its firmware)"
        )

    def reconnect(self, failed: UsbLink | None = None) -> UsbLink:
        """Reconnect after a fault of the given link, or after the stick was absent.

        The failed link is closed and the content of the chip's memory is lost. Raises DeviceLostError if the
        stick is no longer in its port, another DeviceError if it does not recover.
        """
        bus_path = self.bus_path
        self._on_phase(Phase.RECOVERING, bus_path or "")
        was_reset = failed is not None and self._reset(failed)
        if bus_path is None or (not was_reset and find_at(self._backend, bus_path) is None):
            raise DeviceLostError(f"the Edge TPU at {bus_path} left the bus; plug it in again")
        stick = wait_at(self._backend, bus_path, self._clock, RECOVERY_SECONDS, boot_mode_too=True)
        link = self._make_ready(stick, reset=not was_reset, appeared=True)
        if link is None:
            raise DeviceLostError(f"the stick at {bus_path} is not the one{self._wanted()}")
        return link

    def _make_ready(self, stick: UsbStick, reset: bool, appeared: bool = False) -> UsbLink | None:
        """A link to the stick with its chip brought up; None if it has another serial number.

        appeared: whether it may have appeared on the bus just now. If a step fails and the stick is still
        present, all steps are retried once, beginning with a reset.
        """
        try:
            return self._bring_up(self._start(stick, reset, appeared))
        except (TransferError, ProtocolError, DeviceLostError) as fault:
            again = find_at(self._backend, stick.bus_path)
            if again is None:
                raise
            _log.warning("the Edge TPU at %s did not come up, retrying once: %s", stick.bus_path, fault)
        return self._bring_up(self._start(again, reset=True, appeared=True))

    def _reset(self, failed: UsbLink) -> bool:
        """Reset the port and close the link; returns whether the reset succeeded."""
        try:
            failed.reset()
        except DeviceError:
            return False
        finally:
            failed.close()
        self._clock.sleep(AFTER_RESET_SECONDS)
        return True

    def _candidates(self) -> list[UsbStick]:
        """The sticks to try, running ones first: in boot mode a stick has no serial number yet."""
        sticks = [stick for stick in find_sticks(self._backend) if self.bus_path in (None, stick.bus_path)]
        return sorted(sticks, key=lambda stick: stick.boot_mode)

    def _start(self, stick: UsbStick, reset: bool, appeared: bool) -> UsbLink | None:
        """A link to the stick, reset and running its firmware; None if it has another serial number."""
        if reset and not stick.boot_mode:
            with contextlib.closing(self._open(stick, appeared)) as link:
                if not self._is_wanted(link):
                    return None
                self._on_phase(Phase.STARTING, stick.bus_path)
                link.reset()
            stick, appeared = self._await(stick, boot_mode_too=True), True
        if stick.boot_mode:
            image = firmware_image(self._firmware, stick.bus_path)
            self._on_phase(Phase.BOOT, stick.bus_path)
            with contextlib.closing(self._open(stick, appeared)) as link:
                load_firmware(link, image)
            stick, appeared = self._await(stick), True
            self._on_phase(Phase.STARTING, stick.bus_path)
        link = self._open(stick, appeared)
        if self._is_wanted(link):
            return link
        link.close()
        return None

    def _open(self, stick: UsbStick, appeared: bool) -> UsbLink:
        """Open a stick; if it has just appeared and the system refuses, try once more a little later."""
        try:
            return UsbLink(self._backend, stick, self.traffic)
        except (DeviceAccessError, DeviceBusyError):
            if not appeared:
                raise
        # udev may not have set the permissions of the new device node yet.
        self._clock.sleep(AFTER_RESET_SECONDS)
        return UsbLink(self._backend, stick, self.traffic)

    def _await(self, stick: UsbStick, boot_mode_too: bool = False) -> UsbStick:
        """The stick after a reset, in the same port."""
        self._clock.sleep(AFTER_RESET_SECONDS)
        return wait_at(self._backend, stick.bus_path, self._clock, REAPPEAR_SECONDS, boot_mode_too)

    def _is_wanted(self, link: UsbLink) -> bool:
        """Whether the stick has the requested serial number; closes the link if reading it fails."""
        try:
            return not self.serial or link.serial_number() == self.serial
        except BaseException:
            link.close()
            raise

    def _bring_up(self, link: UsbLink | None) -> UsbLink | None:
        if link is None:
            return None
        try:
            bring_up(link, self.preset)
        except BaseException:
            link.close()
            raise
        return link

    def _wanted(self) -> str:
        wishes = (("with the serial number", self.serial), ("at", self.bus_path))
        return "".join(f" {wish} {value}" for wish, value in wishes if value)
