"""A compiled model made ready for the link: its DMA hints as a list of transfers with their buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.compiled_model import CompiledModel, sha256
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
from edgetpu_driver.darwinn.output_tiles import TileGather
from edgetpu_driver.darwinn.wire_format import input_to_wire
from edgetpu_driver.errors import InputError, ModelUnsupportedError, ProtocolError
from edgetpu_driver.usb.framing import Frame, Tag
from edgetpu_driver.usb.link import Reception, UsbLink

_Bytes = NDArray[np.uint8]


_Step = Callable[[UsbLink], None]
"""One transfer of a prepared executable."""


def _send(frame: Frame) -> _Step:
    """A frame whose payload is in place already."""
    return lambda link: link.send(frame)


def _send_part(frame: Frame, source: _Bytes) -> _Step:
    """A frame of bytes that are known only now; what reads past their end is zero."""
    payload = frame.payload[: source.size]

    def step(link: UsbLink) -> None:
        payload[:] = source
        link.send(frame)

    return step


def _receive(reception: Reception) -> _Step:
    """Bytes that are used where they arrive."""
    return lambda link: link.receive(reception)


def _receive_part(reception: Reception, target: _Bytes) -> _Step:
    """Bytes that belong into a larger buffer."""
    data = reception.data[: target.size]

    def step(link: UsbLink) -> None:
        link.receive(reception)
        target[:] = data

    return step


def _await_event(tag: Tag) -> _Step:
    def step(link: UsbLink) -> None:
        event = link.read_event()
        if event.tag is not tag:
            raise ProtocolError(f"expected the event {tag.name}; {event.tag.name} came")

    return step


class PreparedExecutable:
    """One executable with its frames and buffers; ModelUnsupportedError if its hints are incomplete."""

    def __init__(self, executable: Executable) -> None:
        _check_complete(executable)
        self.inputs: dict[str, _Bytes] = {}
        """Wire bytes of each input layer, to be filled before `run`."""
        self.outputs: dict[str, _Bytes] = {}
        """Wire bytes of each output layer, valid after `run`."""
        self._executable = executable
        self._scratch = np.zeros(executable.scratch_size_bytes, np.uint8)
        steps = (self._step(hint) for hint in executable.hints)
        self._steps: tuple[_Step, ...] = tuple(step for step in steps if step is not None)

    def run(self, link: UsbLink) -> None:
        """Everything the executable puts on and takes off the wire, in the order of its hints."""
        self._scratch.fill(0)  # what is sent back before it came must not be of an earlier run
        for step in self._steps:
            step(link)

    def _step(self, hint: Hint) -> _Step | None:
        if isinstance(hint, InstructionHint):
            return _send(Frame(Tag.INSTRUCTIONS, self._executable.bitstreams[hint.chunk].data))
        if isinstance(hint, InterruptHint):
            return _await_event(Tag(Tag.INTERRUPT_0 + hint.number))
        if isinstance(hint, FenceHint):
            return None  # every transfer is complete before the next one starts
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
        layer = _layer(self._executable.inputs, hint)
        frame = Frame(Tag.INPUT_ACTIVATIONS, hint.size)
        if _is_whole(hint, self._executable.hints) and hint.size >= layer.size_bytes:
            self.inputs[layer.name] = frame.payload[: layer.size_bytes]
            return _send(frame)
        buffer = self.inputs.setdefault(layer.name, np.zeros(layer.size_bytes, np.uint8))
        return _send_part(frame, buffer[hint.offset : hint.offset + hint.size])

    def _output_step(self, hint: DmaHint) -> _Step:
        layer = _layer(self._executable.outputs, hint)
        reception = Reception(hint.size)
        if _is_whole(hint, self._executable.hints) and hint.size >= layer.size_bytes:
            self.outputs[layer.name] = reception.data[: layer.size_bytes]
            return _receive(reception)
        buffer = self.outputs.setdefault(layer.name, np.zeros(layer.size_bytes, np.uint8))
        return _receive_part(reception, buffer[hint.offset : hint.offset + hint.size])


class PreparedModel:
    """A compiled model ready to run; ModelUnsupportedError with the reason when it cannot run over USB."""

    def __init__(self, model: CompiledModel) -> None:
        model.check_runnable()
        self.model = model
        self._prepare_execution(model.execution)
        self.caching = None if model.caching is None else PreparedExecutable(model.caching)
        self.token = model.parameter_caching_token
        self.cached_bytes = 0 if model.caching is None else len(model.caching.parameters)
        self.place = _place(model)
        """Which part of the chip's memory its parameters take: models of one place displace each other."""
        self.content: object = (model.sha256, self.token)
        """Equal for models that put the same parameters there."""

    def _prepare_execution(self, execution: Executable) -> None:
        model = self.model
        self.execution = PreparedExecutable(execution)
        self._inputs = [
            (spec.name, layer, self.execution.inputs[layer.name])
            for spec, layer in zip(model.inputs, model.input_layers, strict=True)
        ]
        self._outputs = [
            (spec, TileGather(layer), self.execution.outputs[layer.name])
            for spec, layer in zip(model.outputs, model.output_layers, strict=True)
        ]

    def with_cached(self, parameters: bytes) -> PreparedModel:
        """The same model, sharing its buffers, with other bytes of cached parameters in the same place.

        InputError unless they are as many as the model's own.
        """
        if self.model.caching is None or len(parameters) != self.cached_bytes:
            raise InputError(f"expected {self.cached_bytes} cached parameter bytes, got {len(parameters)}")
        other = copy(self)
        other.caching = PreparedExecutable(replace(self.model.caching, parameters=parameters))
        other.content = object()  # unlike any other
        return other

    def with_streamed(self, parameters: bytes) -> PreparedModel:
        """The same model with other bytes of the parameters that are sent with every inference.

        InputError unless they are as many as the model's own.
        """
        expected = len(self.model.execution.parameters)
        if len(parameters) != expected:
            raise InputError(f"expected {expected} streamed parameter bytes, got {len(parameters)}")
        other = copy(self)
        other._prepare_execution(replace(self.model.execution, parameters=parameters))
        return other

    def run(self, link: UsbLink, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """One inference with inputs that were checked, parameters being resident."""
        for name, layer, wire in self._inputs:
            input_to_wire(layer, inputs[name], wire)
        self.execution.run(link)
        return {
            spec.name: gather.gather(wire).view(spec.dtype).reshape(spec.shape)
            for spec, gather, wire in self._outputs
        }


def _place(model: CompiledModel) -> bytes:
    """The caching instructions name the addresses."""
    bitstreams = model.caching.bitstreams if model.caching else ()
    return sha256(b"".join(bitstream.data for bitstream in bitstreams))


def _layer(layers: Sequence[Layer], hint: DmaHint) -> Layer:
    return next(layer for layer in layers if layer.name == hint.name)


def _is_whole(hint: DmaHint, hints: Iterable[Hint]) -> bool:
    """Whether the hint is the only one of its layer and starts at its beginning."""
    return hint.offset == 0 and len(_transfers(hints, hint.description, hint.name)) == 1


def _transfers(hints: Iterable[Hint], description: Description, name: str | None = None) -> list[DmaHint]:
    return [
        hint
        for hint in hints
        if isinstance(hint, DmaHint) and hint.description is description and name in (None, hint.name)
    ]


def _check_complete(executable: Executable) -> None:
    """Everything the executable has must cross the link, and an interrupt must say when it is done."""
    sent = {hint.chunk for hint in executable.hints if isinstance(hint, InstructionHint)}
    missing = [
        f"bitstream {chunk} is never sent" for chunk in range(len(executable.bitstreams)) if chunk not in sent
    ]
    wanted: list[tuple[Description, str | None, int]] = [
        (Description.PARAMETER, None, len(executable.parameters))
    ]
    wanted += [(Description.INPUT, layer.name, _used_bytes(layer)) for layer in executable.inputs]
    wanted += [(Description.OUTPUT, layer.name, layer.size_bytes) for layer in executable.outputs]
    for description, name, size in wanted:
        covered = _covered(_transfers(executable.hints, description, name))
        if covered < size:
            of_name = f" '{name}'" if name else ""
            missing.append(f"only {covered} of {size} bytes of {description.name.lower()}{of_name} are moved")
    if not executable.bitstreams:
        missing.append("there are no instructions")
    if not any(isinstance(hint, InterruptHint) for hint in executable.hints):
        missing.append("no interrupt says that it is done")
    if missing:
        raise ModelUnsupportedError(
            f"the DMA hints of executable '{executable.name}' are incomplete: {'; '.join(missing)}"
        )


def _used_bytes(layer: Layer) -> int:
    return layer.element_count * layer.data_type.size


def _covered(transfers: Iterable[DmaHint]) -> int:
    """Bytes from the start that the transfers move without a gap."""
    covered = 0
    for hint in sorted(transfers, key=lambda hint: hint.offset):
        if hint.offset > covered:
            break
        covered = max(covered, hint.offset + hint.size)
    return covered
