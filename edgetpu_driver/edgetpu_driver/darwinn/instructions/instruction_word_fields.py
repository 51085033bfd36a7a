"""The fields of a 128-bit instruction word and their named values."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

WORD_BYTES = 16
"""Size of an instruction word, inferred from the sizes of all compiled programs."""
WORD_BITS = 8 * WORD_BYTES


class Field(NamedTuple):
    """A field: bits [position, position + width) of the word read as a little-endian number."""

    name: str
    position: int
    width: int


FIELDS = (
    Field("gate", 0, 1),
    Field("pred_reg", 1, 3),
    Field("yes_pred", 4, 1),
    Field("unk_0", 5, 1),
    Field("branch", 6, 5),
    Field("enable_scalar", 11, 1),
    Field("enable_vector", 12, 2),
    Field("vs_reg_v1", 14, 5),
    Field("imm_size", 19, 12),
    Field("v_op", 31, 5),
    Field("v_offset", 36, 8),
    Field("v_cmd", 44, 5),
    Field("vs_reg", 49, 5),
    Field("s_op", 54, 6),
    Field("s_x", 60, 5),
    Field("s_y", 65, 5),
    Field("imm_scalar", 70, 32),
    Field("v_op_2", 102, 3),
    Field("vs_reg_w", 105, 5),
    Field("unk_3", 110, 18),
)
"""From the least significant bit, without gaps; names as in the published decoding."""

LENGTH = Field("length", 19, 32)
"""The length in bits that start and end markers hold instead of imm_size and the fields above it.

The published decoding gives it the 12 bits of imm_size. Compiled programs use up to 21 bits, and all bits
from 51 on are zero in them; the width of 32 is an assumption that they do not contradict.
"""


class Branch(IntEnum):
    """Values of the field branch that frame a program; other values occur but are not understood."""

    NONE = 0x00
    HALT = 0x01
    START = 0x1E
    END = 0x1F


class ScalarOp(IntEnum):
    """Values of the field s_op with a register as second operand."""

    NOP = 0x00
    ADD = 0x01
    SUB = 0x02
    AND = 0x03
    ORR = 0x04
    XOR = 0x05
    SHL = 0x06
    SHR = 0x07
    ASR = 0x08
    EQ = 0x09
    NEQ = 0x0A
    GT = 0x0B
    ULT = 0x0C
    GEQ = 0x0D
    GES = 0x0E
    MOV = 0x0F


IMMEDIATE = 0x20
"""Added to a ScalarOp: the second operand is imm_scalar itself (ADDI, MOVI, ..)."""


class VectorOp(IntEnum):
    """Values of the field v_op that describe a transfer; other values occur but are not understood."""

    LOAD_DESCRIPTOR = 0x0A
    """Word v_offset (0 to 3) of the transfer descriptor becomes scalar register vs_reg."""
    TRANSFER = 0x0C
    """Carry out the transfer that the descriptor describes."""


def scalar_mnemonic(s_op: int) -> str | None:
    """E.g. "ADD" or "MOVI"; None for an operation that is not documented."""
    try:
        name = ScalarOp(s_op & ~IMMEDIATE).name
    except ValueError:
        return None
    return f"{name}I" if s_op & IMMEDIATE else name
