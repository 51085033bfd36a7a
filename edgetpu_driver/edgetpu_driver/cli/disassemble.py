"""`edgetpu disassemble`: the operations or words of models and bitstreams as text, or counts of fields."""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from edgetpu_driver.cli.device_and_model import compiled_parts
from edgetpu_driver.cli.terminal import Answer, Progress
from edgetpu_driver.darwinn.instructions import operation_assembly, word_assembly
from edgetpu_driver.darwinn.instructions.field_statistics import field_statistics
from edgetpu_driver.darwinn.instructions.instruction_word import disassemble as words_of
from edgetpu_driver.darwinn.instructions.instruction_word_fields import WORD_BYTES
from edgetpu_driver.darwinn.instructions.operations import Chunk, Operation, split
from edgetpu_driver.darwinn.instructions.requested_transfers import Transfer, transfers
from edgetpu_driver.darwinn.instructions.tensor_operation import read_requantisation, requantises
from edgetpu_driver.errors import ModelFormatError, ModelUnsupportedError
from edgetpu_driver.tflite.checks.file_checks import read_model_file

_TFLITE = b"TFL3"


@dataclass(frozen=True)
class _Bitstream:
    file: Path
    executable: str
    """Type of the executable; empty for a bare bitstream."""
    chunk: int
    data: bytes
    parts: Chunk
    """The bitstream, split into operations."""

    @property
    def title(self) -> str:
        part = f" {self.executable} bitstream {self.chunk}" if self.executable else ""
        return f"{self.file}{part}: {len(self.data) // WORD_BYTES} words"


def disassemble(options: argparse.Namespace, progress: Progress) -> Answer:
    """Show the instructions of files, or count their fields."""
    bitstreams = [each for path in options.files for each in _bitstreams(path)]
    if options.stats:
        return _statistics(bitstreams)
    listings, texts = [], []
    with progress.counting("disassembling", len(bitstreams)) as advance:
        for bitstream in bitstreams:
            words = words_of(bitstream.data)
            moves, obstacle = _transfers(words)
            if options.words:
                shown, text = {"instructions": [word.fields for word in words]}, word_assembly.to_text(words)
            else:
                shown, text = _operations(bitstream), _operation_lines(bitstream)
            requested = {"transfers": [vars(move) for move in moves], "transfers_obstacle": obstacle}
            listings.append(_described(bitstream) | shown | requested)
            texts.append(f"# {bitstream.title}\n{text}{_transfer_lines(moves, obstacle)}".rstrip())
            advance()
    return Answer({"bitstreams": listings}, "\n\n".join(texts))


def _bitstreams(path: Path) -> list[_Bitstream]:
    data = read_model_file(path)
    if data[4:8] != _TFLITE:
        if not data or len(data) % WORD_BYTES:
            raise ModelFormatError(
                f"{path} is neither a .tflite file nor a bitstream, which is a whole number of "
                f"{WORD_BYTES}-byte instructions; it has {len(data)} bytes"
            )
        return [_Bitstream(path, "", 0, data, split([data])[0])]
    return [
        _Bitstream(path, executable.type.name, chunk, bitstream.data, parts)
        for model in compiled_parts(path, data)
        for executable in (model.caching, model.execution)
        if executable is not None
        for chunk, (bitstream, parts) in enumerate(
            zip(executable.bitstreams, split(each.data for each in executable.bitstreams), strict=True)
        )
    ]


def _operations(bitstream: _Bitstream) -> dict[str, Any]:
    return {
        "operations": [_operation(each) for each in bitstream.parts.operations],
        "rest_bytes": len(bitstream.parts.rest),
        "operations_obstacle": bitstream.parts.obstacle or None,
    }


def _operation(operation: Operation) -> dict[str, Any]:
    described: dict[str, Any] = {
        "name": operation.name,
        "words": operation.words,
        "number": operation.number if operation.numbered else None,
        "tiles": operation.tiles,
        "fields": operation_assembly.decoded_fields(operation),
        "bits": f"{operation.value:#x}",
    }
    if requantises(operation):
        described["requantisation"] = asdict(read_requantisation(operation))
    return described


def _operation_lines(bitstream: _Bitstream) -> str:
    lines, rest = operation_assembly.to_text(bitstream.parts.operations), len(bitstream.parts.rest)
    if not rest:
        return lines
    start = len(bitstream.data) - rest
    return f"{lines}# {rest} bytes from {start:04x} on are unknown: {bitstream.parts.obstacle}\n"


def _described(bitstream: _Bitstream) -> dict[str, Any]:
    return {
        "file": bitstream.file,
        "executable": bitstream.executable,
        "chunk": bitstream.chunk,
        "words": len(bitstream.data) // WORD_BYTES,
    }


def _transfers(words: Any) -> tuple[list[Transfer], str | None]:
    try:
        return transfers(words), None
    except ModelUnsupportedError as error:
        return [], str(error)


def _transfer_lines(moves: list[Transfer], obstacle: str | None) -> str:
    if obstacle is not None:
        return f"# the transfers are not known: {obstacle}\n"
    return "".join(
        f"# transfer by {move.instruction * WORD_BYTES:04x}: tag {move.tag}, {move.size} bytes "
        f"at {move.address:#x}\n"
        for move in moves
    )


def _statistics(bitstreams: list[_Bitstream]) -> Answer:
    counts = field_statistics(each.data for each in bitstreams)
    value = {"bitstreams": [_described(each) for each in bitstreams], "statistics": counts}
    lines = [f"# {each.title}" for each in bitstreams]
    for name, values in counts.items():
        lines.append(name)
        lines += [f"  {number:#x}  {count}" for number, count in values.items()]
    return Answer(value, "\n".join(lines))
