"""Backends by name."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from edgetpu_driver.backends.backend import Backend
from edgetpu_driver.engines.process_limits import ProcessLimits

BACKENDS = ("usb", "virtual", "cpu")
"""The names of the backends."""


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

    limits: of the processes in which LiteRT runs graphs that are not of the suite's catalogue. The other
    options are those of EdgeTpu.open.
    """
    if name == "cpu":
        from edgetpu_driver.backends.cpu import CpuBackend

        return CpuBackend(limits)

    from edgetpu_driver.backends.usb import StickBackend
    from edgetpu_driver.backends.virtual import VirtualStickBackend
    from edgetpu_driver.stick.edge_tpu import EdgeTpu
    from edgetpu_driver.usb.bringup import ClockPreset

    opened = partial(
        EdgeTpu.open,
        serial=serial or None,
        firmware=Path(firmware).expanduser() if firmware else None,
        bus_path=bus_path or None,
        preset=ClockPreset(preset),
    )
    if name == "usb":
        return StickBackend(lambda on_phase: opened(on_phase=on_phase))

    from edgetpu_driver.engines.cpu_engine import CpuEngine
    from edgetpu_driver.virtual import VirtualEdgeTpu
    from edgetpu_driver.virtual.graph_packer import pack
    from edgetpu_driver.virtual.program_library import ProgramLibrary

    stick = VirtualEdgeTpu(library=ProgramLibrary(partial(CpuEngine, isolated=None, limits=limits)))
    return VirtualStickBackend(
        lambda on_phase: opened(stick, on_phase=on_phase),
        stick.register_model,
        pack,
    )
