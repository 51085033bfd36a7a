"""Assembly by words: one line per word with its nonzero fields; `from_text` reads it back.

    00b0: enable_scalar=1 v_op=0xa v_offset=1 vs_reg=5 s_op=MOVI s_x=6 imm_scalar=0x10800  # s6 = 0x10800

The number before the colon is the word's byte offset. The offset and comments after # are optional. A line
without fields is a word of zeros if it has an offset; otherwise it is ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from edgetpu_driver.darwinn.instructions.instruction_word import Instruction
from edgetpu_driver.darwinn.instructions.instruction_word_fields import (
    FIELDS,
    IMMEDIATE,
    WORD_BYTES,
    Branch,
    ScalarOp,
    scalar_mnemonic,
)
from edgetpu_driver.darwinn.instructions.scalar_core import is_scalar
from edgetpu_driver.errors import ModelFormatError

_WIDTHS = {field.name: field.width for field in FIELDS}
_MNEMONICS = {name: s_op for s_op in range(2 * IMMEDIATE) if (name := scalar_mnemonic(s_op)) is not None}
_SYMBOLS = {
    ScalarOp.ADD: "+",
    ScalarOp.SUB: "-",
    ScalarOp.AND: "&",
    ScalarOp.ORR: "|",
    ScalarOp.XOR: "^",
    ScalarOp.SHL: "<<",
    ScalarOp.SHR: ">>",
    ScalarOp.ASR: ">> (signed)",
    ScalarOp.EQ: "==",
    ScalarOp.NEQ: "!=",
    ScalarOp.GT: "> (signed)",
    ScalarOp.ULT: "<",
    ScalarOp.GEQ: ">= (signed)",
    ScalarOp.GES: ">=",
}
_COMPARISONS = range(ScalarOp.EQ, ScalarOp.MOV)
_FRAME = {Branch.START: "start", Branch.HALT: "halt", Branch.END: "end"}
_SMALLEST_HEXADECIMAL = 10
"""Smaller numbers are printed without 0x: they have one digit either way."""


def to_text(instructions: Sequence[Instruction]) -> str:
    """The text form, each line ended by a newline."""
    return "".join(
        f"{_line(index * WORD_BYTES, instruction)}\n" for index, instruction in enumerate(instructions)
    )


def from_text(text: str) -> list[Instruction]:
    """The words of a text form; ModelFormatError, naming the line, for anything else."""
    return list(_parse(text.splitlines()))


def field_texts(instruction: Instruction) -> list[str]:
    """The fields that are not zero, each as name=value."""
    return [f"{name}={_value(name, value)}" for name, value in instruction.fields.items()]


def _line(offset: int, instruction: Instruction) -> str:
    line = " ".join([f"{offset:04x}:", *field_texts(instruction)])
    comment = meaning(instruction)
    return f"{line}  # {comment}" if comment else line


def _value(name: str, value: int) -> str:
    if name == "s_op":
        mnemonic = scalar_mnemonic(value)
        if mnemonic is not None:
            return mnemonic
    return number_text(value)


def number_text(value: int) -> str:
    """A number as both forms of assembly print it: hexadecimal if it has more than one digit."""
    return str(value) if value < _SMALLEST_HEXADECIMAL else f"{value:#x}"


def meaning(instruction: Instruction) -> str:
    """The effect of a word, for comments; empty if it is unknown or there is none."""
    if instruction.enable_scalar and not instruction.enable_vector and instruction.branch in _FRAME:
        name = _FRAME[Branch(instruction.branch)]
        return name if instruction.branch == Branch.HALT else f"{name}, {instruction.length_bits} bits"
    if not is_scalar(instruction):
        return ""
    mnemonic = scalar_mnemonic(instruction.s_op)
    if mnemonic is None:
        return "scalar operation not documented"
    operation = ScalarOp(instruction.s_op & ~IMMEDIATE)
    if operation is ScalarOp.NOP:
        return ""
    immediate = bool(instruction.s_op & IMMEDIATE)
    second = f"{instruction.imm_scalar:#x}" if immediate else f"s{instruction.imm_scalar % 32}"
    if operation is ScalarOp.MOV:
        return f"s{instruction.s_x} = {second}"
    kind = "p" if operation in _COMPARISONS else "s"
    return f"{kind}{instruction.s_x} = s{instruction.s_y} {_SYMBOLS[operation]} {second}"


def _parse(lines: Iterable[str]) -> Iterable[Instruction]:
    for number, line in enumerate(lines, start=1):
        offset, colon, rest = line.partition("#")[0].rpartition(":")
        fields = rest.split()
        if not colon and not fields:
            continue
        if colon and not is_offset(offset):
            raise ModelFormatError(f"line {number}: expected a byte offset before the colon, got '{offset}'")
        yield word_of(fields, number)


def is_offset(text: str) -> bool:
    """Whether a text is a byte offset in hexadecimal."""
    try:
        return int(text, 16) >= 0
    except ValueError:
        return False


def word_of(fields: Sequence[str], line: int) -> Instruction:
    """The word with these fields, given as name=value; ModelFormatError, naming the line, if malformed."""
    values: dict[str, int] = {}
    for field in fields:
        name, _, text = field.partition("=")
        if name not in _WIDTHS:
            raise ModelFormatError(f"line {line}: '{name}' is not a field of an instruction")
        if name in values:
            raise ModelFormatError(f"line {line}: the field {name} is given twice")
        values[name] = _number(name, text, line)
    return Instruction(**values)


def _number(name: str, text: str, line: int) -> int:
    if name == "s_op" and text in _MNEMONICS:
        return _MNEMONICS[text]
    try:
        value = int(text, 0)
    except ValueError:
        raise ModelFormatError(f"line {line}: expected a number for {name}, got '{text}'") from None
    if not 0 <= value < 1 << _WIDTHS[name]:
        raise ModelFormatError(f"line {line}: {name} has {_WIDTHS[name]} bits; {text} does not fit")
    return value
