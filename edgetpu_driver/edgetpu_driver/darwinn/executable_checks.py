"""Validation of parsed executables: indices, ranges, sizes and layouts."""

from __future__ import annotations

from collections.abc import Mapping

from edgetpu_driver.darwinn.executable import (
    Description,
    Direction,
    DmaHint,
    Executable,
    Hint,
    InstructionBitstream,
    InstructionHint,
    InterruptHint,
    Layer,
)
from edgetpu_driver.darwinn.output_tiles import check_layout
from edgetpu_driver.errors import ModelFormatError

INSTRUCTION_BYTES = 16
"""Size of an instruction word, bytes."""
MAX_LAYER_BYTES = 1 << 25  # a 4K colour image; outputs are far smaller, since the chip has 8 MiB of memory
_LARGEST_SCRATCH = 1 << 25
"""Most bytes of scratch memory on the host. Uncritical: the only golden model with any has 672."""
_MOST_MOVED = 1 << 29
"""Most bytes that all transfers of a run move. Uncritical: a stick takes seconds for them."""
INPUT_OVERREAD_BYTES = 64  # hints may read past an input to fill the last word of the link
_INTERRUPTS = 4
"""Number of scalar-core interrupts, counted from 0; each has a tag on the wire."""
_Limits = Mapping[tuple[Description, str], int]
_ADDRESS_FIELD_BITS = 32
"""An address is inserted as two halves of 32 bits."""


def check_executable(executable: Executable, path: str) -> None:
    """Raise ModelFormatError, naming the field, if the executable is inconsistent."""
    if executable.batch_size < 1 or not 0 <= executable.scratch_size_bytes <= _LARGEST_SCRATCH:
        raise ModelFormatError(
            f"{path}: batch size {executable.batch_size}, scratch size {executable.scratch_size_bytes}; "
            f"expected at least 1, and at most {_LARGEST_SCRATCH} bytes"
        )
    for index, bitstream in enumerate(executable.bitstreams):
        _check_bitstream(f"{path}.instruction_bitstreams[{index}]", bitstream)
    for kind, layers in (("input", executable.inputs), ("output", executable.outputs)):
        names = [layer.name for layer in layers]
        if len(set(names)) != len(names):
            raise ModelFormatError(f"{path}: {kind} layers share a name: {sorted(names)}")
        for layer in layers:
            _check_layer(f"{path}: {kind} layer '{layer.name}'", layer)
    for layer in executable.outputs:
        check_layout(layer)
    limits = _limits(executable)
    for index, hint in enumerate(executable.hints):
        _check_hint(f"{path}.dma_hints[{index}]", hint, executable, limits)
    moved = sum(_size(hint, executable) for hint in executable.hints)
    if moved > _MOST_MOVED:
        raise ModelFormatError(f"{path}.dma_hints move {moved} bytes; expected at most {_MOST_MOVED}")


def _check_bitstream(path: str, bitstream: InstructionBitstream) -> None:
    size = len(bitstream.data)
    if size == 0 or size % INSTRUCTION_BYTES:
        raise ModelFormatError(
            f"{path} is not a whole number of {INSTRUCTION_BYTES}-byte instructions: {size}"
        )
    for field in bitstream.field_offsets:
        if not 0 <= field.bit <= 8 * size - _ADDRESS_FIELD_BITS:
            raise ModelFormatError(f"{path} has {8 * size} bits; an address field is declared at {field.bit}")


def _check_layer(path: str, layer: Layer) -> None:
    needed = layer.element_count * layer.data_type.size
    if min(layer.shape) < 1 or layer.execution_count < 1:
        raise ModelFormatError(f"{path} has shape {layer.shape}, {layer.execution_count} times per inference")
    if not needed <= layer.size_bytes <= MAX_LAYER_BYTES:
        raise ModelFormatError(
            f"{path} of shape {layer.shape} declares a size of {layer.size_bytes} bytes; "
            f"expected {needed} to {MAX_LAYER_BYTES}"
        )


def _limits(executable: Executable) -> _Limits:
    """The end of the valid byte range of each input and output, in bytes of one batch item."""
    limits = {
        (Description.INPUT, layer.name): layer.size_bytes * layer.execution_count + INPUT_OVERREAD_BYTES
        for layer in executable.inputs
    }
    return limits | {
        (Description.OUTPUT, layer.name): layer.size_bytes * layer.execution_count
        for layer in executable.outputs
    }


def _check_hint(path: str, hint: Hint, executable: Executable, limits: _Limits) -> None:
    if isinstance(hint, InstructionHint) and not 0 <= hint.chunk < len(executable.bitstreams):
        raise ModelFormatError(f"{path} sends bitstream {hint.chunk} of {len(executable.bitstreams)}")
    if isinstance(hint, InterruptHint) and not 0 <= hint.number < _INTERRUPTS:
        raise ModelFormatError(f"{path} waits for interrupt {hint.number} of {_INTERRUPTS}")
    if isinstance(hint, DmaHint):
        _check_transfer(path, hint, executable, limits)


def _size(hint: Hint, executable: Executable) -> int:
    """Bytes that a transfer moves."""
    if isinstance(hint, InstructionHint):
        return len(executable.bitstreams[hint.chunk].data)
    return hint.size if isinstance(hint, DmaHint) else 0


def _check_transfer(path: str, hint: DmaHint, executable: Executable, limits: _Limits) -> None:
    if hint.description is Description.PARAMETER:
        limit = len(executable.parameters)
    elif hint.description is Description.SCRATCH:
        limit = executable.scratch_size_bytes
    elif (hint.description, hint.name) in limits:
        limit = limits[hint.description, hint.name]
    else:
        names = sorted(name for kind, name in limits if kind is hint.description)
        raise ModelFormatError(f"{path} names the layer '{hint.name}'; there are {names}")
    end = hint.offset + hint.size
    if hint.offset < 0 or hint.size < 1 or end > limit:
        raise ModelFormatError(f"{path} moves bytes {hint.offset} to {end} of '{hint.name}'; it has {limit}")
    if not 0 <= hint.batch < executable.batch_size:
        raise ModelFormatError(f"{path} is for item {hint.batch} of a batch of {executable.batch_size}")
    outfeed = hint.description is Description.OUTPUT
    if hint.description is not Description.SCRATCH and outfeed != (hint.direction is Direction.OUTFEED):
        raise ModelFormatError(f"{path} moves {hint.description.name} in direction {hint.direction.name}")
