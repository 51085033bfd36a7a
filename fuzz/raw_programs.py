"""Users' programs on a virtual chip, which may run or refuse them or hang, but must not crash."""

from __future__ import annotations

from edgetpu_driver.darwinn.instructions.program_frame import ProgramBuilder, move_immediate
from edgetpu_driver.darwinn.programs.dense_program import DenseProgram
from edgetpu_driver.darwinn.requantisation import Requantisation
from edgetpu_driver.usb.framing import HEADER, Tag
from edgetpu_driver.virtual.processor.processor import Processor
from edgetpu_driver.virtual.program_library import ProgramLibrary
from fuzz.corpus import Sample

_RUN, _HALT, _SINGLE_STEP = 1, 2, 3
_ALL_TAGS = 0xFF
_CREDIT_BYTES = 8
_MOST_BYTES = 1 << 17
_STEPS = 16


def program_samples() -> list[Sample]:
    """The two programs of a matrix, and a program for the scalar core only."""
    matrix = DenseProgram(256, Requantisation(1.0, -128.0, 127.0, 128, 0, 128))
    builder = ProgramBuilder()
    for register in range(4):
        builder.append(move_immediate(register, 4 * (register == 3)))
    builder.transfer((0, 1, 2, 3))
    return [
        Sample("caching", matrix.caching().data),
        Sample("execution", matrix.execution("x", "y").data),
        Sample("scalar", builder.build()),
    ]


def run_program(data: bytes) -> tuple[str, int]:
    """Step through a program, run it and send what it requests.

    Returns the reason why it hangs, and the number of its events.
    """
    chip = Processor(ProgramLibrary())
    chip.control(_HALT, _ALL_TAGS)
    chip.take(HEADER.pack(len(data), Tag.INSTRUCTIONS) + data, _ALL_TAGS)
    for _ in range(_STEPS):
        chip.control(_SINGLE_STEP, _ALL_TAGS)
    chip.control(_RUN, _ALL_TAGS)
    for tag, units in enumerate(chip.credits):
        size = _CREDIT_BYTES * units
        if tag != Tag.INSTRUCTIONS and 0 < size <= _MOST_BYTES:
            chip.take(HEADER.pack(size, tag) + bytes(size), _ALL_TAGS)
    return chip.hang_reason, len(chip.events)
