"""What the driver costs the host for an inference, over a backend that answers at once."""

# ruff: noqa: ARG002 - the signatures are those of pyusb's IBackend
from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.models import golden, packed_dense
from bench.timing import milliseconds
from edgetpu_driver import CompiledModel, EdgeTpu, VirtualEdgeTpu
from edgetpu_driver.usb.framing import EVENT, Tag
from measured_figures.row import Row

AREA = "link"
_TRANSFERS = 4  # instructions, input, output, event
_EVENTS = 0x82
_INTERFACE, _TIMEOUT_MS = 0, 6000


class InstantStick(VirtualEdgeTpu):
    """Comes up like a stick; takes all data and has every answer ready."""

    def __init__(self, output_bytes: int) -> None:
        super().__init__()
        self._output_bytes = output_bytes
        self.transfers: list[tuple[int, int]] | None = None
        """(endpoint, size) of each bulk transfer while it is a list."""
        self.handle: Any = None
        self._completion = array("B", EVENT.pack(0, 0, Tag.INTERRUPT_0))

    def bulk_write(self, dev_handle: Any, ep: int, intf: int, data: array[int], timeout: int) -> int:
        """Take the data."""
        if self.transfers is not None:
            self.handle = dev_handle
            self.transfers.append((ep, len(data)))
        return len(data)

    def bulk_read(self, dev_handle: Any, ep: int, intf: int, buff: array[int], timeout: int) -> int:
        """Give whatever the buffer holds as the output, or the event that ends an inference."""
        if self.transfers is not None:
            self.transfers.append((ep, len(buff)))
        if ep == _EVENTS:
            buff[:] = self._completion
            return len(buff)
        return self._output_bytes


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
        transfers: list[tuple[int, int]] = []
        stick.transfers = transfers
        tpu.run(model, inputs)
        stick.transfers = None
        value, baseline = milliseconds(lambda: tpu.run(model, inputs), _bare(stick, transfers))
    case = "run Dense 256"
    yield Row(AREA, f"{case}, host cost", "time", 1e3 * value, "us", 15.0, "lower", 1e3 * baseline)
    yield Row(AREA, case, "bulk transfers", len(transfers), "", _TRANSFERS, "lower", _TRANSFERS)


def _bare(stick: InstantStick, transfers: list[tuple[int, int]]) -> Any:
    """The same transfers straight through the backend, copying the output as a caller would have to."""
    buffers = [(endpoint, array("B", bytes(size))) for endpoint, size in transfers]

    def run() -> None:
        for endpoint, buffer in buffers:
            if endpoint & 0x80:
                stick.bulk_read(stick.handle, endpoint, _INTERFACE, buffer, _TIMEOUT_MS)
            else:
                stick.bulk_write(stick.handle, endpoint, _INTERFACE, buffer, _TIMEOUT_MS)

    return run
