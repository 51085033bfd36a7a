"""`edgetpu devices`: lists the sticks on the bus, with the remedy if one cannot be used."""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from edgetpu_driver.cli.device_and_model import default_firmware
from edgetpu_driver.cli.doctor.stick_requirements import missing_requirements
from edgetpu_driver.cli.terminal import Answer, Progress, say, table
from edgetpu_driver.errors import DeviceAccessError, DeviceBusyError, DeviceError

if TYPE_CHECKING:
    from edgetpu_driver.usb.discovery import UsbStick

_EXIT_NONE_USABLE = 3
"""Exit status if no stick can be used, see the epilog of `edgetpu --help`."""
_NONE = (
    "no Edge TPU is on the bus: plug one in (lsusb shows it as 1a6e:089a, or as 18d1:9302 once its firmware "
    "runs); in a container or virtual machine pass the USB bus through"
)
_PREPARED = "udev rule, group and firmware for a stick are in place"
_BOOT_MODE = (
    "it waits for its firmware, which is loaded when it is opened: pass --firmware, or set the driver node's "
    "parameter firmware, to {}"
)


@dataclass(frozen=True)
class Device:
    """One accelerator and its state."""

    bus_path: str
    state: str
    """"ready", "boot mode", "no access", "busy" or "failed"."""
    serial: str
    link_speed: float
    """Mbit/s."""
    firmware: str
    """Release of the running firmware, such as "1.00"; empty in boot mode."""
    remedy: str
    """Why the stick cannot be used and what to do about it; empty if it can be used."""


def devices(options: argparse.Namespace, progress: Progress) -> Answer:  # noqa: ARG001
    """List the accelerators of a backend."""
    if options.backend == "cpu":
        found = [Device("host", "ready", "", 0.0, "", "")]
    elif options.backend == "virtual":
        found = [_virtual_device()]
    else:
        found = _sticks()
    usable = any(device.state in ("ready", "boot mode") for device in found)
    if not found:
        for line in (_NONE, *(missing_requirements() or [_PREPARED])):
            say(line)
    return Answer(
        value=[asdict(device) for device in found],
        text=_text(found),
        exit_code=0 if usable else _EXIT_NONE_USABLE,
    )


def _text(found: list[Device]) -> str:
    if not found:
        return "no devices"
    rows = [
        (
            d.bus_path,
            d.state,
            d.serial or "-",
            f"{d.link_speed:g}" if d.link_speed else "-",
            d.firmware or "-",
        )
        for d in found
    ]
    remedies = [f"{device.bus_path}: {device.remedy}" for device in found if device.remedy]
    return "\n".join([table(rows, ("bus path", "state", "serial", "Mbit/s", "firmware")), *remedies])


def _virtual_device() -> Device:
    from edgetpu_driver.backends.factory import make_backend

    backend = make_backend("virtual")
    backend.open()
    try:
        found = backend.read()
    finally:
        backend.close()
    return Device(found.bus_path, "ready", found.serial, found.link_speed, found.firmware, "")


def _sticks() -> list[Device]:
    from edgetpu_driver.usb import libusb as usb
    from edgetpu_driver.usb.discovery import find_sticks

    backend = usb.default_backend()
    return [inspect(backend, stick) for stick in find_sticks(backend)]


def inspect(backend: Any, stick: UsbStick) -> Device:
    """Open the stick without a reset, and close it again."""
    from edgetpu_driver.usb.firmware_loading import WHERE_TO_GET_IT
    from edgetpu_driver.usb.link import UsbLink

    state, remedy, serial = "ready", "", ""
    if stick.boot_mode:
        state, remedy = "boot mode", "" if default_firmware() else _BOOT_MODE.format(WHERE_TO_GET_IT)
    try:
        link = UsbLink(backend, stick)
        try:
            serial = link.serial_number()
        finally:
            link.close()
    except DeviceError as error:
        kinds = ((DeviceAccessError, "no access"), (DeviceBusyError, "busy"))
        state = next((name for kind, name in kinds if isinstance(error, kind)), "failed")
        remedy = str(error)
    release = "" if stick.boot_mode else stick.firmware_release
    return Device(stick.bus_path, state, serial, stick.link_speed, release, remedy)
