"""The driver's cost on the host for an inference, on a stick that answers at once.

Baseline: the same transfers by calls of pyusb on the same stick.
"""

# ruff: noqa: ARG002 - the signatures are those of pyusb's IBackend
from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import usb.core

from bench.models import golden, packed_dense
from bench.timing import compare
from edgetpu_driver import CompiledModel, EdgeTpu, VirtualEdgeTpu
from edgetpu_driver.usb.framing import EVENT, Tag
from measured_figures.row import Row

AREA = "link"
_TRANSFERS = 4  # instructions, input, output, event
_EVENTS = 0x82
_DIRECTION_IN = 0x80
_TIMEOUT_MS = 6000


class InstantStick(VirtualEdgeTpu):
    """A stick that is brought up like a real one, then accepts all data and answers at once."""

    def __init__(self, output_bytes: int) -> None:
        super().__init__()
        self._output_bytes = output_bytes
        self.transfers: list[tuple[int, int]] | None = None
        """(endpoint, size in bytes) of each bulk transfer; None: transfers are not recorded."""
        self._completion = array("B", EVENT.pack(0, 0, Tag.INTERRUPT_0))

    def bulk_write(self, dev_handle: Any, ep: int, intf: int, data: array[int], timeout: int) -> int:
        """Accept the data."""
        if self.transfers is not None:
            self.transfers.append((ep, len(data)))
        return len(data)

    def bulk_read(self, dev_handle: Any, ep: int, intf: int, buff: array[int], timeout: int) -> int:
        """Leave an output's buffer unchanged; fill in the event that ends an inference."""
        if self.transfers is not None:
            self.transfers.append((ep, len(buff)))
        if ep == _EVENTS:
            buff[:] = self._completion
            return len(buff)
        return self._output_bytes

    def recorded(self, work: Callable[[], object]) -> list[tuple[int, int]]:
        """Call `work`; return (endpoint, size in bytes) of each bulk transfer that it made."""
        transfers = self.transfers = []
        work()
        self.transfers = None
        return transfers


def rows() -> Iterator[Row]:
    """Measure a Dense model of 256 inputs and outputs."""
    path = golden("dense_256")
    model = CompiledModel.parse(packed_dense(256)) if path is None else CompiledModel.load(path)
    (spec,) = model.inputs
    inputs = {spec.name: np.random.default_rng(0).integers(0, 256, spec.shape, np.uint8)}
    (layer,) = model.output_layers
    stick = InstantStick(layer.size_bytes)
    with EdgeTpu.open(usb_backend=stick) as tpu:
        tpu.run(model, inputs)  # uploads the parameters
        transfers = stick.recorded(lambda: tpu.run(model, inputs))
        comparison = compare(lambda: tpu.run(model, inputs), bare_transfers(transfers))
    yield comparison.row(AREA, "run Dense 256, host cost", "bare pyusb", 1.5)
    yield Row(AREA, "run Dense 256", "bulk transfers", len(transfers), "", _TRANSFERS, "lower", _TRANSFERS)


def bare_transfers(transfers: list[tuple[int, int]]) -> Callable[[], None]:
    """Return work that makes the same transfers by Device.write and Device.read of pyusb, on another stick.

    `transfers`: (endpoint, size in bytes) of each. Data is read into a reused buffer.
    """
    stick = InstantStick(max((size for endpoint, size in transfers if endpoint & _DIRECTION_IN), default=0))
    with EdgeTpu.open(usb_backend=stick):  # brings it up, so that it accepts transfers
        pass
    device = usb.core.find(backend=stick)
    buffers = [(endpoint, array("B", bytes(size))) for endpoint, size in transfers]

    def run() -> None:
        for endpoint, buffer in buffers:
            if endpoint & _DIRECTION_IN:
                device.read(endpoint, buffer, _TIMEOUT_MS)
            else:
                device.write(endpoint, buffer, _TIMEOUT_MS)

    return run
