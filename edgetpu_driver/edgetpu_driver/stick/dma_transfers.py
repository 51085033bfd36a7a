"""An executable prepared for the link: the transfers that its DMA hints list, with their buffers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.darwinn.executable import (
    Description,
    Direction,
    DmaHint,
    Executable,
    FenceHint,
    Hint,
    InstructionHint,
    InterruptHint,
    Layer,
)
from edgetpu_driver.errors import ModelUnsupportedError, ProtocolError
from edgetpu_driver.usb.framing import Frame, Tag
from edgetpu_driver.usb.link import Reception, UsbLink

_Bytes = NDArray[np.uint8]


_Step = Callable[[UsbLink], None]
"""One transfer of a prepared executable."""

_Kind = tuple[Description, str]
"""What a transfer moves, and the name of the layer; the name is empty if it moves no layer."""


def _send(frame: Frame) -> _Step:
    """Send a frame whose payload is already filled."""
    return lambda link: link.send(frame)


def _send_part(frame: Frame, source: _Bytes) -> _Step:
    """Send part of a larger buffer; the rest of the frame is zero."""
    payload = frame.payload[: source.size]

    def step(link: UsbLink) -> None:
        payload[:] = source
        link.send(frame)

    return step


def _receive(reception: Reception) -> _Step:
    """Receive into a separate buffer."""
    return lambda link: link.receive(reception)


def _receive_part(reception: Reception, target: _Bytes) -> _Step:
    """Receive part of a larger buffer."""
    data = reception.data[: target.size]

    def step(link: UsbLink) -> None:
        link.receive(reception)
        target[:] = data

    return step


def _await_event(tag: Tag) -> _Step:
    """Wait for the completion event of that tag; ProtocolError if another one comes."""

    def step(link: UsbLink) -> None:
        event = link.read_event()
        if event.tag is not tag:
            raise ProtocolError(f"expected the event {tag.name}; got {event.tag.name}")

    return step


class PreparedExecutable:
    """One executable with its frames and buffers. ModelUnsupportedError if its DMA hints are incomplete."""

    def __init__(self, executable: Executable) -> None:
        self._transfers = _transfers(executable.hints)
        _check_complete(executable, self._transfers)
        self.inputs: dict[str, _Bytes] = {}
        """Wire bytes of each input layer, to be filled before `run`."""
        self.outputs: dict[str, _Bytes] = {}
        """Wire bytes of each output layer, valid after `run`."""
        self._executable = executable
        self._layers = {(Description.INPUT, layer.name): layer for layer in executable.inputs}
        self._layers |= {(Description.OUTPUT, layer.name): layer for layer in executable.outputs}
        self._scratch = np.zeros(executable.scratch_size_bytes, np.uint8)
        steps = (self._step(hint) for hint in executable.hints)
        self._steps: tuple[_Step, ...] = tuple(step for step in steps if step is not None)

    def run(self, link: UsbLink) -> None:
        """Perform all transfers of the executable, in the order of its DMA hints. Raises DeviceError."""
        self._scratch.fill(0)  # nothing of an earlier run may be sent
        for step in self._steps:
            step(link)

    def _step(self, hint: Hint) -> _Step | None:
        if isinstance(hint, InstructionHint):
            return _send(Frame(Tag.INSTRUCTIONS, self._executable.bitstreams[hint.chunk].data))
        if isinstance(hint, InterruptHint):
            return _await_event(Tag(Tag.INTERRUPT_0 + hint.number))
        if isinstance(hint, FenceHint):
            return None  # each transfer ends before the next one starts anyway
        end = hint.offset + hint.size
        if hint.description is Description.PARAMETER:
            return _send(Frame(Tag.PARAMETERS, bytes(self._executable.parameters[hint.offset : end])))
        if hint.description is Description.INPUT:
            return self._input_step(hint)
        if hint.description is Description.OUTPUT:
            return self._output_step(hint)
        if hint.direction is Direction.INFEED:
            return _send_part(Frame(Tag.INPUT_ACTIVATIONS, hint.size), self._scratch[hint.offset : end])
        return _receive_part(Reception(hint.size), self._scratch[hint.offset : end])

    def _input_step(self, hint: DmaHint) -> _Step:
        layer = self._layers[_kind(hint)]
        frame = Frame(Tag.INPUT_ACTIVATIONS, hint.size)
        if self._is_whole(hint) and hint.size >= layer.size_bytes:
            self.inputs[layer.name] = frame.payload[: layer.size_bytes]
            return _send(frame)
        buffer = self.inputs.setdefault(layer.name, np.zeros(layer.size_bytes, np.uint8))
        return _send_part(frame, buffer[hint.offset : hint.offset + hint.size])

    def _output_step(self, hint: DmaHint) -> _Step:
        layer = self._layers[_kind(hint)]
        reception = Reception(hint.size)
        if self._is_whole(hint) and hint.size >= layer.size_bytes:
            self.outputs[layer.name] = reception.data[: layer.size_bytes]
            return _receive(reception)
        buffer = self.outputs.setdefault(layer.name, np.zeros(layer.size_bytes, np.uint8))
        return _receive_part(reception, buffer[hint.offset : hint.offset + hint.size])

    def _is_whole(self, hint: DmaHint) -> bool:
        """Whether the hint begins at the start of its layer and is the only hint for that layer."""
        return hint.offset == 0 and len(self._transfers[_kind(hint)]) == 1


def _kind(hint: DmaHint) -> _Kind:
    named = hint.description in (Description.INPUT, Description.OUTPUT)
    return hint.description, hint.name if named else ""


def _transfers(hints: Iterable[Hint]) -> dict[_Kind, list[DmaHint]]:
    found: dict[_Kind, list[DmaHint]] = defaultdict(list)
    for hint in hints:
        if isinstance(hint, DmaHint):
            found[_kind(hint)].append(hint)
    return found


def _check_complete(executable: Executable, transfers: Mapping[_Kind, Sequence[DmaHint]]) -> None:
    """Check that all data of the executable cross the link and that an interrupt signals completion."""
    sent = {hint.chunk for hint in executable.hints if isinstance(hint, InstructionHint)}
    missing = [
        f"bitstream {chunk} is never sent" for chunk in range(len(executable.bitstreams)) if chunk not in sent
    ]
    wanted = [(Description.PARAMETER, "", len(executable.parameters))]
    wanted += [(Description.INPUT, layer.name, _used_bytes(layer)) for layer in executable.inputs]
    wanted += [(Description.OUTPUT, layer.name, layer.size_bytes) for layer in executable.outputs]
    for description, name, size in wanted:
        covered = _covered(transfers.get((description, name), ()))
        if covered < size:
            of_name = f" '{name}'" if name else ""
            missing.append(f"only {covered} of {size} bytes of {description.name.lower()}{of_name} are moved")
    if not executable.bitstreams:
        missing.append("there are no instructions")
    if not any(isinstance(hint, InterruptHint) for hint in executable.hints):
        missing.append("no interrupt signals its end")
    if missing:
        raise ModelUnsupportedError(
            f"the DMA hints of executable '{executable.name}' are incomplete: {'; '.join(missing)}"
        )


def _used_bytes(layer: Layer) -> int:
    return layer.element_count * layer.data_type.size


def _covered(transfers: Iterable[DmaHint]) -> int:
    """Number of bytes, from the start, that the transfers move without a gap."""
    covered = 0
    for hint in sorted(transfers, key=lambda hint: hint.offset):
        if hint.offset > covered:
            break
        covered = max(covered, hint.offset + hint.size)
    return covered
