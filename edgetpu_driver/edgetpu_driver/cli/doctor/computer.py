"""Findings on this computer: its kind, Python and its packages, libusb, LiteRT, ROS."""

from __future__ import annotations

import importlib.util
import os
import platform
import sys
from ctypes.util import find_library
from pathlib import Path

from edgetpu_driver.cli.doctor.finding import Finding, fine, missing, note
from edgetpu_driver.cli.doctor.pip_packages import ON_EXTERNALLY_MANAGED, installed_version
from edgetpu_driver.engines.litert_package import install_command

_OLDEST_PYTHON = (3, 10)
"""Oldest Python: that of ROS 2 Humble on Ubuntu 22.04, the oldest supported distribution."""
_PACKAGES = {"numpy": "python3-numpy", "flatbuffers": "python3-flatbuffers", "pyusb": "python3-usb"}
"""Required packages: names on PyPI and in Debian."""
_NO_LITERT_WHEELS = ("armv6l", "armv7l", "i386", "i686")

PASS_USB_THROUGH = "docker run --ipc=host -v /dev/bus/usb:/dev/bus/usb --device-cgroup-rule='c 189:* rmw' .."
"""Command that gives a container the USB bus, including sticks plugged in later."""

VERSION_FILE = Path("/proc/version")
PROCESSOR_FILE = Path("/proc/cpuinfo")
ROS_INSTALLATIONS = Path("/opt/ros")
CONTAINER_MARKS = (Path("/.dockerenv"), Path("/run/.containerenv"))


def computer() -> Finding:
    """The processor and the system, with known obstacles to using a stick."""
    machine = platform.machine()
    details = f"{machine}, {platform.system()} {platform.release()}, {os.cpu_count()} processors"
    if machine in _NO_LITERT_WHEELS:
        return note(
            "computer",
            f"{details}; LiteRT has no packages for 32 bits",
            "install a 64-bit system (on a Raspberry Pi 3 and later); matrices run on a stick without it",
        )
    if sys.byteorder != "little":
        return missing("computer", f"{details}; parameters are little-endian", "use another computer")
    return fine("computer", details)


def virtualisation() -> Finding:
    """Whether USB is direct, or passes through a container, a virtual machine or WSL."""
    changes = "the stick changes its identity (1a6e:089a, then 18d1:9302) when its firmware is loaded"
    if "microsoft" in _text(VERSION_FILE).lower():
        return note(
            "virtualisation",
            "Windows Subsystem for Linux, which has no access to USB by default",
            "in Windows: usbipd bind --busid BUS-PORT, then usbipd attach --wsl --busid BUS-PORT "
            f"--auto-attach; bind it again once its firmware runs, since {changes}",
        )
    if any(mark.exists() for mark in CONTAINER_MARKS):
        return note(
            "virtualisation",
            f"a container, which needs the whole USB bus, since {changes}",
            PASS_USB_THROUGH,
        )
    if "hypervisor" in _text(PROCESSOR_FILE):
        return note(
            "virtualisation",
            "a virtual machine",
            f"pass a port or a USB controller through, not one device, since {changes}",
        )
    return fine("virtualisation", "no container or virtual machine was detected")


def python() -> Finding:
    """The version of Python."""
    details = f"{platform.python_version()} at {sys.executable}"
    if sys.version_info < _OLDEST_PYTHON:
        oldest = ".".join(map(str, _OLDEST_PYTHON))
        return missing("Python", f"{details}; expected {oldest} or later", "install Ubuntu 22.04 or later")
    return fine("Python", details)


def packages() -> tuple[Finding, ...]:
    """The packages that every command needs."""
    return tuple(_package(name, debian) for name, debian in _PACKAGES.items())


def _package(name: str, debian: str) -> Finding:
    found = installed_version(name)
    if not found:
        return missing(name, "not installed", f"sudo apt install {debian}, or pip install {name}")
    return fine(name, found)


def libusb() -> Finding:
    """Whether pyusb finds libusb 1.0."""
    if not installed_version("pyusb") and not _is_importable("usb"):
        return missing(
            "libusb", "pyusb, which looks for it, is not installed", "sudo apt install python3-usb"
        )
    from edgetpu_driver.errors import DependencyMissingError
    from edgetpu_driver.usb.libusb import default_backend

    try:
        default_backend()
    except DependencyMissingError:
        return missing(
            "libusb",
            "pyusb finds no libusb 1.0 (it would say: No backend available)",
            "sudo apt install libusb-1.0-0",
        )
    return fine("libusb", find_library("usb-1.0") or "libusb 1.0")


def other_drivers() -> tuple[Finding, ...]:
    """A note on the vendor's library if it is installed: this driver does not use it."""
    library = find_library("edgetpu")
    if library is None:
        return ()
    return (
        note(
            "libedgetpu",
            f"{library} is installed; this driver does not use it, and only one program at a time can "
            "use the stick. 'Failed to load delegate' is a message of programs that use that library",
        ),
    )


def litert(needed: bool) -> Finding:
    """Whether LiteRT is installed. needed: whether every model needs it, as on the CPU and virtual stick."""
    found = installed_version("ai-edge-litert")
    if found and _is_importable("ai_edge_litert.interpreter"):
        return fine("LiteRT", found)
    remedy = install_command() + ON_EXTERNALLY_MANAGED
    if needed:
        return missing("LiteRT", "not installed", remedy)
    return note("LiteRT", "not installed; models with operators that run on the CPU need it", remedy)


def ros() -> Finding:
    """Whether the nodes can run: ROS 2 with its Python client."""
    distribution = os.environ.get("ROS_DISTRO", "")
    if _is_importable("rclpy"):
        installed = "" if _is_importable("edgetpu_msgs") else "; this workspace is not sourced"
        if installed:
            return missing("ROS 2", f"{distribution or 'rclpy'}{installed}", "source install/setup.bash")
        return fine("ROS 2", distribution or "rclpy, of no named distribution")
    setups = sorted(ROS_INSTALLATIONS.glob("*/setup.bash"))
    if setups:
        return missing("ROS 2", f"installed in {setups[-1].parent}, not sourced", f"source {setups[-1]}")
    return missing(
        "ROS 2",
        "not installed; this command runs, the nodes do not",
        "https://docs.ros.org/en/jazzy/Installation.html",
    )


def _is_importable(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:
        return False


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
