"""Findings on each stick on the bus: identity, access, link, power, kernel driver."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgetpu_driver.cli.devices import Device, inspect
from edgetpu_driver.cli.doctor.computer import PASS_USB_THROUGH
from edgetpu_driver.cli.doctor.finding import Finding, fine, missing, note
from edgetpu_driver.cli.doctor.stick_requirements import APPLY_RULES

if TYPE_CHECKING:
    from edgetpu_driver.usb.discovery import UsbStick

SYSFS = Path("/sys/bus/usb/devices")
DEVICE_NODES = Path("/dev/bus/usb")
PROCESSES = Path("/proc")
VOLTAGE_MONITORS = Path("/sys/class/hwmon")

_SUPER_SPEED, _HIGH_SPEED = 5000.0, 480.0
"""Mbit/s of USB 3 and of USB 2 at their rated speeds, as sysfs gives them."""
_SELF_POWERED = 0x40
"""Bit 6 of bmAttributes in a USB configuration descriptor."""
_PROGRAMS = "usbfs"
"""The kernel's name for the driver of interfaces used by programs."""


def bus() -> Finding:
    """Whether the devices of the USB bus are visible to programs."""
    if not DEVICE_NODES.is_dir() or not any(DEVICE_NODES.iterdir()):
        return missing(
            "USB bus",
            f"{DEVICE_NODES} is not there: no USB, or a container without it",
            PASS_USB_THROUGH,
        )
    return fine("USB bus", f"{len(list(DEVICE_NODES.iterdir()))} buses in {DEVICE_NODES}")


def sticks(backend: Any, *, simulated: bool) -> tuple[Finding, ...]:
    """All findings on the sticks of a pyusb backend; one finding if there is no stick.

    simulated: the backend is not a bus of this computer, so the kernel does not know its sticks.
    """
    from edgetpu_driver.usb.discovery import find_sticks

    found = find_sticks(backend)
    if not found:
        return (_none(),)
    return tuple(finding for stick in found for finding in _of(backend, stick, simulated))


def _none() -> Finding:
    remedy = (
        "plug one in, into another port or with another cable if it was; then lsusb shows 1a6e:089a, or "
        "18d1:9302 once its firmware runs"
    )
    return missing("stick", "no Edge TPU is on the bus", remedy)


def _of(backend: Any, stick: UsbStick, simulated: bool) -> list[Finding]:
    device = inspect(backend, stick)
    findings = [_identity(stick), _access(stick, device, simulated), _speed(stick)]
    if not simulated:
        findings += [_node(stick), _power(stick), *voltage(), _kernel_driver(stick)]
    return findings


def _identity(stick: UsbStick) -> Finding:
    where = f"at {stick.bus_path}"
    if stick.boot_mode:
        details = f"1a6e:089a {where}, in boot mode: it becomes 18d1:9302 when this driver loads its firmware"
        return fine("stick", details)
    return fine("stick", f"18d1:9302 {where}, runs its firmware {stick.firmware_release}")


def _access(stick: UsbStick, device: Device, simulated: bool) -> Finding:
    if device.state in ("ready", "boot mode"):
        return fine("access", f"opened and released; serial number {device.serial or 'none'}")
    if device.state == "busy":
        users = [] if simulated else _users(_node_path(stick))
        named = f" by {', '.join(users)}" if users else ""
        remedy = f"stop the process, which sudo fuser -v {_node_path(stick)} names"
        return missing("access", f"the stick is in use{named}", remedy)
    if device.state == "no access":
        remedy = (
            "fix the udev rule and the group, then unplug the stick and plug it in again, or "
            "sudo udevadm trigger"
        )
        return missing("access", "the system denies access to the stick", remedy)
    return missing("access", device.remedy, "unplug the stick and plug it in again")


def _speed(stick: UsbStick) -> Finding:
    details = f"{stick.link_speed:g} Mbit/s"
    if stick.link_speed >= _SUPER_SPEED:
        return fine("link", f"{details} (USB 3)")
    if stick.link_speed >= _HIGH_SPEED:
        remedy = "use a USB 3 port (blue, or marked SS) and the cable of the stick, without a hub"
        return note("link", f"{details} (USB 2): every transfer takes several times as long", remedy)
    return missing(
        "link", f"{details}: too slow for the protocol", "use another port and cable, without a hub"
    )


def _node(stick: UsbStick) -> Finding:
    """Owner and mode of the device file, which udev sets."""
    path = _node_path(stick)
    try:
        status = path.stat()
    except OSError:
        remedy = "pass /dev/bus/usb through, not one device: it changes when the firmware is loaded"
        return missing("device file", f"{path} is not there", remedy)
    details = f"{path} {stat.filemode(status.st_mode)} {_name(pwd.getpwuid, status.st_uid)}:"
    details += _name(grp.getgrgid, status.st_gid)
    if os.access(path, os.R_OK | os.W_OK):
        return fine("device file", details)
    remedy = f"{APPLY_RULES}, or unplug the stick and plug it in again"
    return missing(
        "device file", f"{details}: not writable, the udev rule has not been applied to it", remedy
    )


def _power(stick: UsbStick) -> Finding:
    """The current that the stick may draw, and its hubs."""
    demand = _read(SYSFS / stick.bus_path / "bMaxPower") or "unknown"
    hubs = [SYSFS / path for path in _hubs(stick)]
    details = f"the stick may draw {demand}"
    if not hubs:
        return fine("power", f"{details}, directly from a port of the computer")
    names = ", ".join(f"{hub.name} ({_read(hub / 'product') or 'a hub'})" for hub in hubs)
    passive = [hub.name for hub in hubs if not int(_read(hub / "bmAttributes") or "40", 16) & _SELF_POWERED]
    if passive:
        remedy = "plug it into a port of the computer, or into a hub with its own power supply"
        return note(
            "power", f"{details}, through {names}, of which {', '.join(passive)} has no supply", remedy
        )
    return fine("power", f"{details}, through {names}, with its own supply")


def voltage() -> Sequence[Finding]:
    """Whether a Raspberry Pi reports undervoltage; nothing on other computers."""
    for monitor in sorted(VOLTAGE_MONITORS.glob("*")):
        if _read(monitor / "name") == "rpi_volt":
            if _read(monitor / "in0_lcrit_alarm") == "1":
                remedy = "use the supply made for this Raspberry Pi, or a hub with its own power supply"
                return (missing("supply", "the Raspberry Pi reports undervoltage", remedy),)
            return (fine("supply", "the Raspberry Pi reports no undervoltage"),)
    return ()


def _kernel_driver(stick: UsbStick) -> Finding:
    """The kernel driver attached to the stick's interface."""
    interface = f"{stick.bus_path}:1.0"
    driver = SYSFS / interface / "driver"
    name = driver.resolve().name if driver.exists() else _PROGRAMS
    if name == _PROGRAMS:
        return fine("kernel driver", "none is attached, which is right")
    remedy = f"echo -n {interface} | sudo tee {driver}/unbind"
    return note("kernel driver", f"{name} has the stick, and is detached when it is opened", remedy)


def _hubs(stick: UsbStick) -> list[str]:
    """Bus paths of the hubs between the computer and the stick."""
    return [f"{stick.bus}-{'.'.join(map(str, stick.ports[:count]))}" for count in range(1, len(stick.ports))]


def _node_path(stick: UsbStick) -> Path:
    return DEVICE_NODES / f"{stick.bus:03}" / f"{stick.address:03}"


def _users(node: Path) -> list[str]:
    """Processes that have the device file open, if visible to this user."""
    found = []
    for process in sorted(PROCESSES.glob("[0-9]*")):
        try:
            open_files = {os.readlink(each) for each in (process / "fd").iterdir()}
        except OSError:
            continue
        if str(node) in open_files and int(process.name) != os.getpid():
            found.append(f"{_read(process / 'comm') or 'process'} ({process.name})")
    return found


def _name(look_up: Any, number: int) -> str:
    try:
        return str(look_up(number)[0])
    except KeyError:
        return str(number)


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
