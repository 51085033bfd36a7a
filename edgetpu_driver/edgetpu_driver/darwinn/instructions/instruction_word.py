"""One instruction word as a set of named fields, and whole bitstreams to and from such words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.darwinn.instructions.instruction_word_fields import (
    FIELDS,
    LENGTH,
    WORD_BYTES,
    Field,
)
from edgetpu_driver.errors import InputError, ModelFormatError


@dataclass(frozen=True, slots=True)
class Instruction:
    """A 128-bit word. `encode` refuses values that a field cannot hold."""

    gate: int = 0
    """1: execute only if the predicate register pred_reg equals yes_pred."""
    pred_reg: int = 0
    yes_pred: int = 0
    unk_0: int = 0
    branch: int = 0
    enable_scalar: int = 0
    enable_vector: int = 0
    vs_reg_v1: int = 0
    imm_size: int = 0
    v_op: int = 0
    v_offset: int = 0
    v_cmd: int = 0
    vs_reg: int = 0
    s_op: int = 0
    s_x: int = 0
    """Scalar destination: a register, or a predicate register for comparisons."""
    s_y: int = 0
    """First scalar operand."""
    imm_scalar: int = 0
    """Second scalar operand: an immediate, or the number of a register."""
    v_op_2: int = 0
    vs_reg_w: int = 0
    unk_3: int = 0

    @classmethod
    def decode(cls, word: bytes) -> Instruction:
        """The instruction in 16 bytes; ModelFormatError for another number of bytes."""
        if len(word) != WORD_BYTES:
            raise ModelFormatError(f"an instruction has {WORD_BYTES} bytes; got {len(word)}")
        number = int.from_bytes(word, "little")
        return cls(*((number >> field.position) & ((1 << field.width) - 1) for field in FIELDS))

    def encode(self) -> bytes:
        """The 16 bytes; InputError if a field's value does not fit."""
        number = 0
        for field, value in zip(FIELDS, _VALUES(self), strict=True):
            if value:  # few fields of a word are nonzero
                if not 0 < value < 1 << field.width:
                    raise _too_large(field, value)
                number |= value << field.position
        return number.to_bytes(WORD_BYTES, "little")

    @property
    def length_bits(self) -> int:
        """Length held by a start or end marker, in bits."""
        number = int.from_bytes(self.encode(), "little")
        return (number >> LENGTH.position) & ((1 << LENGTH.width) - 1)

    @property
    def fields(self) -> dict[str, int]:
        """The fields that are not zero, by name, from the least significant bit on."""
        return {field.name: value for field, value in zip(FIELDS, _VALUES(self), strict=True) if value}


_VALUES = attrgetter(*(field.name for field in FIELDS))


def with_length(branch: int, length_bits: int) -> Instruction:
    """A scalar word with that branch and length; InputError if the length needs more than 32 bits."""
    if not 0 <= length_bits < 1 << LENGTH.width:
        raise _too_large(LENGTH, length_bits)
    bare = int.from_bytes(Instruction(branch=branch, enable_scalar=1).encode(), "little")
    return Instruction.decode((bare | length_bits << LENGTH.position).to_bytes(WORD_BYTES, "little"))


def field_arrays(data: bytes) -> dict[str, NDArray[np.uint32]]:
    """The fields of all words of a bitstream: uint32[words] by name.

    ModelFormatError unless data is a whole number of words. 16,000 words take about 1 ms.
    """
    if len(data) % WORD_BYTES:
        raise ModelFormatError(
            f"a bitstream is a whole number of {WORD_BYTES}-byte instructions; "
            f"byte {len(data) - len(data) % WORD_BYTES} starts an incomplete one"
        )
    halves = np.frombuffer(data, "<u8").reshape(-1, 2)
    return {field.name: _extract(halves[:, 0], halves[:, 1], field) for field in FIELDS}


def disassemble(data: bytes) -> list[Instruction]:
    """The words of a bitstream; ModelFormatError unless data is a whole number of them."""
    columns = field_arrays(data)
    return [
        Instruction(*row) for row in zip(*(columns[field.name].tolist() for field in FIELDS), strict=True)
    ]


def assemble(instructions: Iterable[Instruction]) -> bytes:
    """The bitstream of the instructions; InputError if a field's value does not fit."""
    return b"".join(instruction.encode() for instruction in instructions)


def _extract(low: NDArray[np.uint64], high: NDArray[np.uint64], field: Field) -> NDArray[np.uint32]:
    position, mask = field.position, np.uint64((1 << field.width) - 1)
    if position >= 64:
        bits = high >> np.uint64(position - 64)
    elif position + field.width <= 64:
        bits = low >> np.uint64(position)
    else:
        bits = low >> np.uint64(position) | high << np.uint64(64 - position)
    return (bits & mask).astype(np.uint32)


def _too_large(field: Field, value: int) -> InputError:
    return InputError(f"the field {field.name} has {field.width} bits; {value:#x} does not fit")
