"""The frame of a program, and a builder for new programs.

Every compiled program seen, of both executables and in several chunks, has this frame:

    start    branch 0x1E; a length of (words - 2) * 128 bits: all words but the start and end markers
    ...
    halt     branch 0x01; vs_reg_v1 is 4, or 1 where another chunk follows
    NOP      four times
    end      branch 0x1F; a length of 128 bits

The published example halts with vs_reg_v1 = 0 and has the same length in its start marker. Words inside a
program may look like parts of the frame, because vector instructions span several words.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgetpu_driver.darwinn.instructions.instruction_word import Instruction, assemble, with_length
from edgetpu_driver.darwinn.instructions.instruction_word_fields import (
    IMMEDIATE,
    WORD_BITS,
    WORD_BYTES,
    Branch,
    ScalarOp,
    VectorOp,
)
from edgetpu_driver.darwinn.instructions.scalar_core import REGISTERS
from edgetpu_driver.errors import InputError, ModelFormatError

NOP = Instruction(enable_scalar=1)
END = with_length(Branch.END, WORD_BITS)
HALT_LAST = 4
"""vs_reg_v1 of the halt that ends an executable's last chunk."""
HALT_CHUNK = 1
"""vs_reg_v1 of the halt that ends any chunk before the last."""

_NOPS = 4
"""NOPs between the halt and the end, as in every compiled program."""
_TAIL = 1 + _NOPS + 1
_FRAME = 1 + _TAIL
"""Words from the halt to the end, and words of the whole frame."""


def start(word_count: int) -> Instruction:
    """The start marker of a program of `word_count` words, including the frame."""
    return with_length(Branch.START, (word_count - 2) * WORD_BITS)


def halt(kind: int = HALT_LAST) -> Instruction:
    """Stop the scalar core; kind is the value of vs_reg_v1."""
    return Instruction(branch=Branch.HALT, enable_scalar=1, vs_reg_v1=kind)


def move_immediate(register: int, value: int) -> Instruction:
    """Load a 32-bit constant into a scalar register."""
    return Instruction(enable_scalar=1, s_op=ScalarOp.MOV | IMMEDIATE, s_x=register, imm_scalar=value)


def check_frame(instructions: Sequence[Instruction]) -> None:
    """Raise ModelFormatError, naming the word, unless the program has a valid frame."""
    count = len(instructions)
    if count < _FRAME:
        raise ModelFormatError(f"a program has at least {_FRAME} instructions; got {count}")
    if instructions[0] != start(count):
        raise ModelFormatError(
            f"instruction 0: expected a start with a length of {(count - 2) * WORD_BITS} bits; "
            f"got branch {instructions[0].branch:#x} and {instructions[0].length_bits} bits"
        )
    tail = instructions[-_TAIL:]
    expected = (halt(tail[0].vs_reg_v1), *(NOP for _ in range(_NOPS)), END)
    for index, (actual, wanted) in enumerate(zip(tail, expected, strict=True), start=count - _TAIL):
        if actual != wanted:
            raise ModelFormatError(
                f"instruction {index}: expected the end of the program with {wanted.fields}; "
                f"got {actual.fields}"
            )


def framed(body: bytes) -> bytes:
    """The bitstream of a program with these words between the start and the halt.

    InputError unless body is a whole number of words.
    """
    if len(body) % WORD_BYTES:
        raise InputError(f"expected whole words of {WORD_BYTES} bytes; got {len(body)} bytes")
    first = start(len(body) // WORD_BYTES + _FRAME)
    return first.encode() + body + assemble([halt(), *[NOP] * _NOPS, END])


class ProgramBuilder:
    """Collects instructions and puts the frame around them."""

    def __init__(self) -> None:
        self._body: list[Instruction] = []

    def __len__(self) -> int:
        """Words of the program so far, including the frame."""
        return len(self._body) + _FRAME

    def append(self, instruction: Instruction) -> int:
        """Add an instruction; returns its index in the program, e.g. for its address field."""
        self._body.append(instruction)
        return len(self._body)

    def move(self, register: int, value: int) -> int:
        """Add a load of a 32-bit constant into a scalar register; returns its index in the program."""
        return self.append(move_immediate(register, value))

    def transfer(self, registers: Sequence[int]) -> int:
        """Add a transfer described by four scalar registers; returns the index of its trigger.

        registers: hold the lower and upper half of the address, the size in bytes, and the tag; InputError
        for another number of them and for one that the core does not have.
        """
        if len(registers) != 4 or not all(0 <= register < REGISTERS for register in registers):
            raise InputError(f"expected four scalar registers, 0 to {REGISTERS - 1}; got {list(registers)}")
        for word, register in enumerate(registers):
            self.append(
                Instruction(enable_scalar=1, v_op=VectorOp.LOAD_DESCRIPTOR, v_offset=word, vs_reg=register)
            )
        return self.append(Instruction(enable_scalar=1, v_op=VectorOp.TRANSFER))

    def build(self, halt_kind: int = HALT_LAST) -> bytes:
        """The bitstream; InputError if a field's value does not fit."""
        frame_end = [halt(halt_kind), *[NOP] * _NOPS, END]
        return assemble([start(len(self)), *self._body, *frame_end])
