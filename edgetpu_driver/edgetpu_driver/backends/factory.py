"""Backends by name."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from edgetpu_driver.backends.backend import Backend
from edgetpu_driver.engines.litert_process_limits import ProcessLimits
from edgetpu_driver.errors import EdgeTpuError, InputError
from edgetpu_driver.files.file_access import user_path

if TYPE_CHECKING:
    from edgetpu_driver.stick.program_runner import ProgramRunner
    from edgetpu_driver.virtual import VirtualEdgeTpu

BACKENDS = ("usb", "virtual", "cpu")
"""The names of the backends."""
ALL_DEVICES = "all"
"""Device name that stands for all connected sticks."""
BUS_PATH = re.compile(r"\d+-\d+(\.\d+)*")


def make_backends(name: str, devices: Sequence[str], **options: Any) -> list[Backend]:
    """Make a backend for each of several sticks, by serial number or bus path; see `make_backend`.

    ["all"] stands for the sticks that are on the bus now, or for any one if there is none yet; see also
    MoreSticks. Raises InputError for a device that is listed twice, for "all" next to other devices, and for
    any device with the backend cpu.
    """
    if len(set(devices)) != len(devices):
        raise InputError(f"expected each device once; got {', '.join(devices)}")
    if name == "cpu":
        raise InputError(f"expected no devices with the backend cpu; got {', '.join(devices)}")
    if list(devices) == [ALL_DEVICES]:
        devices = _connected_or_none() if name == "usb" else ()
        if not devices:
            return [make_backend(name, **options)]
    elif ALL_DEVICES in devices:
        raise InputError(
            f"expected '{ALL_DEVICES}' alone, or serial numbers and bus paths; got {', '.join(devices)}"
        )
    return [
        make_backend(name, bus_path=device, **options)
        if BUS_PATH.fullmatch(device)
        else make_backend(name, serial=device, **options)
        for device in devices
    ]


class MoreSticks:
    """Makes backends for sticks on USB that were plugged in later; see ModelHost."""

    def __init__(self, backends: Sequence[Backend], **options: Any) -> None:
        """backends: those of ["all"], see `make_backends`. options: those of `make_backend`."""
        from edgetpu_driver.backends.usb import StickBackend

        self._options = options
        # Not those that are on the bus now: a stick may have appeared since the backends were made.
        self._made = {each.bus_path for each in backends if isinstance(each, StickBackend) and each.bus_path}

    def __call__(self, known: Collection[str]) -> list[Backend]:
        """Backends for the sticks at unknown bus paths for which none has been made before."""
        if not self._made and not any(known):
            return []  # the first stick is for the backend that takes any
        more = [path for path in _connected() if path not in known and path not in self._made]
        self._made.update(more)
        return [make_backend("usb", bus_path=path, **self._options) for path in more]


def make_backend(
    name: str,
    *,
    serial: str = "",
    bus_path: str = "",
    firmware: str = "",
    preset: str = "high",
    limits: ProcessLimits | None = None,
) -> Backend:
    """Make the backend of that name; no device is needed yet.

    limits: of the processes in which LiteRT runs graphs that are not in the suite's catalogue. The other
    options are those of EdgeTpu.open.
    """
    if name == "cpu":
        from edgetpu_driver.backends.cpu import CpuBackend

        return CpuBackend(limits)

    from edgetpu_driver.backends.usb import StickBackend
    from edgetpu_driver.backends.virtual import VirtualStickBackend
    from edgetpu_driver.stick.edge_tpu import EdgeTpu

    options = _stick_options(serial, bus_path, firmware, preset)
    if name == "usb":
        return StickBackend(lambda on_phase: EdgeTpu.open(on_phase=on_phase, **options), bus_path)

    from edgetpu_driver.engines.cpu_engine import CpuEngine
    from edgetpu_driver.virtual.graph_packer import pack
    from edgetpu_driver.virtual.program_library import ProgramLibrary

    library = ProgramLibrary(partial(CpuEngine, isolated=None, limits=limits))
    stick = _virtual_stick(serial, bus_path, library=library)
    return VirtualStickBackend(
        lambda on_phase: EdgeTpu.open(stick, on_phase=on_phase, **options),
        library.register_model,
        pack,
        library.rest,
    )


def open_program_runner(
    name: str,
    *,
    serial: str = "",
    bus_path: str = "",
    firmware: str = "",
    preset: str = "high",
    timeout: float,
) -> ProgramRunner:
    """Open the stick of a backend for your own programs; raises as ProgramRunner.open.

    InputError for a backend without sticks.
    """
    from edgetpu_driver.stick.program_runner import ProgramRunner

    usb_backend = _virtual_stick(serial, bus_path) if name == "virtual" else usb_bus(name)
    options = _stick_options(serial, bus_path, firmware, preset)
    return ProgramRunner.open(usb_backend, timeout=timeout, **options)


def usb_bus(name: str) -> Any:
    """The pyusb backend on which a backend finds its sticks: libusb, or a virtual stick on its own bus.

    Raises DependencyMissingError without libusb, InputError for a backend without sticks.
    """
    if name == "usb":
        from edgetpu_driver.usb import libusb

        return libusb.default_backend()
    if name != "virtual":
        raise InputError(f"expected the backend usb or virtual; {name} has no stick")
    from edgetpu_driver.virtual import VirtualEdgeTpu

    return VirtualEdgeTpu()


def _connected() -> tuple[str, ...]:
    """Bus paths of the sticks on the bus. Raises DependencyMissingError, DeviceError."""
    from edgetpu_driver.usb.discovery import find_sticks
    from edgetpu_driver.usb.libusb import default_backend

    return tuple(stick.bus_path for stick in find_sticks(default_backend()))


def _connected_or_none() -> tuple[str, ...]:
    """As `_connected`, but empty if the devices cannot be listed: opening one then reports the error."""
    try:
        return _connected()
    except EdgeTpuError:
        return ()


def _stick_options(serial: str, bus_path: str, firmware: str, preset: str) -> dict[str, Any]:
    """The options that EdgeTpu.open and ProgramRunner.open share, from text; an empty text means None."""
    from edgetpu_driver.usb.chip_clock import clock_preset

    return {
        "serial": serial or None,
        "firmware": user_path(firmware) if firmware else None,
        "bus_path": bus_path or None,
        "preset": clock_preset(preset),
    }


def _virtual_stick(serial: str, bus_path: str, **options: Any) -> VirtualEdgeTpu:
    """A virtual stick at a bus path, 2-1 by default."""
    from edgetpu_driver.virtual import VirtualEdgeTpu

    bus, ports = _bus_and_ports(bus_path or "2-1")
    return VirtualEdgeTpu(serial=serial, bus=bus, ports=ports, **options)


def _bus_and_ports(bus_path: str) -> tuple[int, tuple[int, ...]]:
    """Bus and ports of a bus path; InputError for anything else."""
    if not BUS_PATH.fullmatch(bus_path):
        raise InputError(f"expected a bus path such as 2-1.4; got '{bus_path}'")
    bus, _, ports = bus_path.partition("-")
    return int(bus), tuple(int(port) for port in ports.split("."))
