"""The driver node on several virtual sticks that fail on request.

It is run by `python -m soak.node_settings soak.driver_process STICKS` and reads the events of the sticks from
standard input, as lines of JSON; see `StickEvent`.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial

from edgetpu_driver.backends.backend import Backend
from edgetpu_driver.backends.virtual import VirtualStickBackend
from edgetpu_driver.node_kit.process.spin import run
from edgetpu_driver.nodes.driver_node import DriverNode
from edgetpu_driver.stick.edge_tpu import EdgeTpu
from edgetpu_driver.usb.connector import OnPhase
from edgetpu_driver.usb.firmware_loading import FirmwareImage
from edgetpu_driver.virtual import VirtualEdgeTpu
from edgetpu_driver.virtual.fault_injection import Fault, FaultScript, Transfer
from edgetpu_driver.virtual.graph_packer import pack

_BUS = 2
_FIRMWARE = b"firmware of a virtual stick, which takes any"


@dataclass(frozen=True)
class StickEvent:
    """An event of a stick: a transfer fails, or the stick is unplugged or plugged in.

    Plugging it in cancels pending faults.
    """

    stick: int
    fault: str = ""
    """Name of a Fault; empty: the stick is plugged in or unplugged, as `plugged` says."""
    transfer: str = ""
    """Name of a Transfer."""
    after: int = 0
    """Number of transfers of this kind that succeed before the fault."""
    times: int = 1
    plugged: bool = True

    def line(self) -> str:
        """The event as a line for the driver's standard input."""
        return json.dumps(asdict(self)) + "\n"

    def happen(self, sticks: Sequence[VirtualEdgeTpu]) -> None:
        """Apply the event to the stick with its number."""
        stick = sticks[self.stick]
        if self.fault:
            stick.fail(Fault[self.fault], Transfer[self.transfer], self.after, self.times)
        elif not self.plugged:
            stick.unplug()
        else:
            stick.faults = FaultScript()
            if not stick.is_plugged:
                stick.plug()


class SoakDriverNode(DriverNode):
    """The driver node with a backend for each of these sticks."""

    def __init__(self, sticks: Sequence[VirtualEdgeTpu]) -> None:
        self._sticks = sticks
        super().__init__()

    def make_backends(self) -> list[Backend]:
        """One backend for each stick. A stick keeps its state when the node is configured again."""
        return [_backend(stick) for stick in self._sticks]


def make_sticks(count: int) -> list[VirtualEdgeTpu]:
    """Sticks at the ports 1 to `count` of one bus, each with a serial number."""
    return [VirtualEdgeTpu(serial=f"soak{n}", bus=_BUS, ports=(n,)) for n in range(1, count + 1)]


def _backend(stick: VirtualEdgeTpu) -> Backend:
    firmware = FirmwareImage(_FIRMWARE, hashlib.sha256(_FIRMWARE).hexdigest())

    def opened(on_phase: OnPhase | None) -> EdgeTpu:
        return EdgeTpu.open(stick, firmware=firmware, on_phase=on_phase)

    return VirtualStickBackend(opened, stick.library.register_model, pack)


def _listen(sticks: Sequence[VirtualEdgeTpu]) -> None:
    for line in sys.stdin:
        StickEvent(**json.loads(line)).happen(sticks)


def main() -> int:
    """Run the driver until SIGINT or SIGTERM; ROS arguments follow the number of sticks."""
    sticks = make_sticks(int(sys.argv[1]))
    threading.Thread(target=_listen, args=[sticks], daemon=True).start()
    return run(partial(_nodes, sticks))


def _nodes(sticks: Sequence[VirtualEdgeTpu]) -> list[SoakDriverNode]:
    return [SoakDriverNode(sticks)]
