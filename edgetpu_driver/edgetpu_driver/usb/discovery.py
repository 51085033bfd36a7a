"""Finds sticks on the bus, in boot mode or running."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from edgetpu_driver.errors import DeviceLostError, EdgeTpuError, FirmwareError
from edgetpu_driver.usb.time_source import Clock
from edgetpu_driver.usb.usb_errors import typed_error

BOOT_ID = (0x1A6E, 0x089A)
"""Vendor and product id of a stick in boot mode, waiting for its firmware."""
APPLICATION_ID = (0x18D1, 0x9302)
"""Vendor and product id of a stick that runs its firmware."""

_MBIT_PER_SECOND = {1: 1.5, 2: 12.0, 3: 480.0, 4: 5000.0, 5: 10000.0}
_POLL_SECONDS = 0.1
"""Interval of polling the bus for an awaited stick, s."""


@dataclass(frozen=True)
class UsbStick:
    """One Edge TPU as enumerated on the bus."""

    device: Any = field(repr=False, compare=False)
    """The backend's device handle."""
    boot_mode: bool
    """Whether it is waiting for its firmware."""
    bus: int
    ports: tuple[int, ...]
    """Port numbers from the root hub to the stick; they survive a change of identity."""
    address: int
    """Address on the bus; it changes at every enumeration."""
    link_speed: float
    """Mbit/s."""
    firmware_release: str
    """bcdDevice of the device descriptor, such as "1.00"."""
    serial_index: int
    """Index of the serial number's string descriptor; 0 if absent."""

    @property
    def bus_path(self) -> str:
        """<bus>-<port>[.<port>...], as the kernel names it."""
        return f"{self.bus}-{'.'.join(map(str, self.ports))}"


def find_sticks(backend: Any) -> tuple[UsbStick, ...]:
    """All Edge TPUs on the bus, sorted by bus and ports.

    Devices whose descriptor cannot be read are left out; if no stick is found, the first of these errors is
    raised.
    """
    try:
        devices = list(backend.enumerate_devices())
    except Exception as error:  # any type: the backend need not be pyusb's
        raise typed_error(error, "listing the devices on the bus", opening=True) from error
    found = [_recognised(backend, device) for device in devices]
    sticks = [each for each in found if isinstance(each, UsbStick)]
    failures = [each for each in found if isinstance(each, EdgeTpuError)]
    if failures and not sticks:
        raise failures[0]
    return tuple(sorted(sticks, key=lambda stick: (stick.bus, stick.ports)))


def _recognised(backend: Any, device: Any) -> UsbStick | EdgeTpuError | None:
    """The device as a stick; None if it is none or has just left, the error if it cannot be read."""
    try:
        descriptor = backend.get_device_descriptor(device)
        identity = (descriptor.idVendor, descriptor.idProduct)
        if identity in (BOOT_ID, APPLICATION_ID):
            return _stick(device, descriptor, identity == BOOT_ID)
    except Exception as error:
        reason = typed_error(error, "reading the descriptor of a device on the bus", opening=True)
        return None if isinstance(reason, DeviceLostError) else reason
    return None


def _stick(device: Any, descriptor: Any, boot_mode: bool) -> UsbStick:
    release = int(descriptor.bcdDevice)
    ports = getattr(descriptor, "port_numbers", None) or (getattr(descriptor, "port_number", None) or 0,)
    return UsbStick(
        device=device,
        boot_mode=boot_mode,
        bus=descriptor.bus or 0,
        ports=tuple(ports),
        address=descriptor.address or 0,
        link_speed=_link_speed(descriptor),
        firmware_release=f"{release >> 8:x}.{release & 0xFF:02x}",
        serial_index=descriptor.iSerialNumber,
    )


def _link_speed(descriptor: Any) -> float:
    """Link speed as reported by the host, else derived from bcdUSB (2.1: USB 3 device on a slower link)."""
    speed = _MBIT_PER_SECOND.get(getattr(descriptor, "speed", None) or 0)
    return speed or _MBIT_PER_SECOND[4 if descriptor.bcdUSB >= 0x0300 else 3]


def find_at(backend: Any, bus_path: str) -> UsbStick | None:
    """The stick in that port, in boot mode or running."""
    return next((stick for stick in find_sticks(backend) if stick.bus_path == bus_path), None)


def wait_at(
    backend: Any, bus_path: str, clock: Clock, seconds: float, boot_mode_too: bool = False
) -> UsbStick:
    """Wait until a running stick (or one in boot mode, if accepted) is present.

    Raises DeviceLostError if none appears, FirmwareError if it stays in boot mode.
    """
    end = clock.monotonic() + seconds
    while True:
        stick = find_at(backend, bus_path)
        if stick is not None and (boot_mode_too or not stick.boot_mode):
            return stick
        if clock.monotonic() >= end:
            if stick is None:
                raise DeviceLostError(
                    f"expected the Edge TPU at {bus_path} within {seconds:g} s; no device has appeared there"
                )
            raise FirmwareError(
                f"the Edge TPU at {bus_path} took its firmware but stays in boot mode after {seconds:g} s; "
                "unplug it, plug it into another port (USB 3, without a hub) and try again"
            )
        clock.sleep(_POLL_SECONDS)
