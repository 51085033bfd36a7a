"""`edgetpu program assemble` and `extract`: programs between text, bytes and models."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from edgetpu_driver.cli.device_and_model import compiled_parts
from edgetpu_driver.cli.output_file import write_output
from edgetpu_driver.cli.terminal import Answer, Progress, table
from edgetpu_driver.darwinn.executable import Executable
from edgetpu_driver.darwinn.instructions import operation_assembly, word_assembly
from edgetpu_driver.darwinn.instructions.instruction_word import assemble as encoded
from edgetpu_driver.darwinn.instructions.instruction_word_fields import WORD_BYTES
from edgetpu_driver.darwinn.instructions.operations import join
from edgetpu_driver.darwinn.instructions.program_frame import framed
from edgetpu_driver.errors import InputError, ModelFormatError
from edgetpu_driver.files.compiled_file_names import plain_stem
from edgetpu_driver.tflite.checks.file_checks import read_model_file
from edgetpu_driver.tflite.file_tables import IDENTIFIER

LARGEST_TEXT = 1 << 26
"""Maximum size of a text, bytes. A larger file is not a program and would only fill the memory."""
_TEXTS = (".txt", ".asm")


def assemble(options: argparse.Namespace, progress: Progress) -> Answer:  # noqa: ARG001
    """Assemble a text into a bitstream file."""
    program = assembled(options.text, frame=options.frame)
    write_output(options.output, program)
    words = len(program) // WORD_BYTES
    value = {"file": options.output, "words": words, "bytes": len(program)}
    return Answer(value, f"{options.output}: {words} words, {len(program)} bytes")


def extract(options: argparse.Namespace, progress: Progress) -> Answer:  # noqa: ARG001
    """Write the bitstreams and parameters of a compiled model to separate files."""
    parts = compiled_parts(options.model, read_model_file(options.model))
    written = []
    for number, part in enumerate(parts, 1):
        stem = plain_stem(options.model) + (f".part{number}" if len(parts) > 1 else "")
        for kind, executable in (("caching", part.caching), ("execution", part.execution)):
            for name, data in _contents(executable) if executable is not None else ():
                path = options.output / f"{stem}.{kind}{name}.bin"
                write_output(path, data)
                written.append((str(path), len(data)))
    value = [{"file": path, "bytes": size} for path, size in written]
    return Answer(value, table(written, ("file", "bytes")))


def program_bytes(path: Path) -> bytes:
    """The bitstream in a file, or of the text in it. Raises ModelNotFoundError and ModelFormatError."""
    if path.suffix.lower() in _TEXTS:
        return assembled(path)
    data = read_model_file(path)
    if data[4:8] == IDENTIFIER:  # a chip would take it for instructions
        raise ModelFormatError(
            f"{path} is a model; expected a program, such as `edgetpu program extract` takes from a model"
        )
    return data


def assembled(path: Path, frame: bool = False) -> bytes:
    """The bitstream of a text; ModelFormatError, with the file and the line, if it is not a program.

    frame: whether to put the frame of a program around it.
    """
    data = read_model_file(path)
    if len(data) > LARGEST_TEXT:
        raise ModelFormatError(f"{path}: expected at most {LARGEST_TEXT} bytes of text; got {len(data)}")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ModelFormatError(f"{path}: expected text in UTF-8; got another byte at {error.start}") from None
    try:
        body = _encoded(text)
        program = framed(body) if frame else body
    except (ModelFormatError, InputError) as error:
        raise ModelFormatError(f"{path}: {error}") from None
    if not program:
        raise ModelFormatError(f"{path}: expected at least one instruction")
    return program


def _encoded(text: str) -> bytes:
    """Encode a text by operations, or by words if its first line has no operation name."""
    for line in text.splitlines():
        fields = line.partition("#")[0].rpartition(":")[2].split()
        if fields:
            by_words = "=" in fields[0]
            return (
                encoded(word_assembly.from_text(text))
                if by_words
                else join(operation_assembly.from_text(text))
            )
    return encoded(word_assembly.from_text(text))


def _contents(executable: Executable) -> Iterator[tuple[str, bytes]]:
    for chunk, bitstream in enumerate(executable.bitstreams):
        yield (f".{chunk}" if len(executable.bitstreams) > 1 else ""), bytes(bitstream.data)
    if len(executable.parameters):
        yield ".parameters", bytes(executable.parameters)
