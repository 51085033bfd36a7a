"""Assembly by operations: one line per operation; `from_text` reads it back.

    0010: wait number=0 tiles=0xffff u32[2]=0x7ff80 u32[3]=0x800
    00e0: ring_consumer number=1 tiles=0x1 first_row=0 last_row=0x3f u32[2]=0x80000000 ..
    0b20: scalar s_op=MOVI s_x=6 imm_scalar=0x10800  # s6 = 0x10800

Each line has the name of the operation's kind, its named fields, and as u32[i] the remaining bits of its
32-bit number i. Words of the scalar core have the fields of word_assembly. The offset and comments after #
are optional.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from edgetpu_driver.darwinn.instructions.instruction_word import Instruction
from edgetpu_driver.darwinn.instructions.instruction_word_fields import WORD_BYTES
from edgetpu_driver.darwinn.instructions.operation_fields import OPCODE, named_bits
from edgetpu_driver.darwinn.instructions.operations import FORMS, SCALAR_WORD, Kind, Operation
from edgetpu_driver.darwinn.instructions.tensor_operation import (
    read_offset,
    read_requantisation,
    requantises,
)
from edgetpu_driver.darwinn.instructions.word_assembly import (
    field_texts,
    is_offset,
    meaning,
    number_text,
    word_of,
)
from edgetpu_driver.darwinn.requantisation import Requantisation
from edgetpu_driver.errors import InputError, ModelFormatError

_KINDS = {form.name: kind for kind, form in FORMS.items() if form.name != SCALAR_WORD}
_FRAME = ("start", "end")
_IMPLIED = ("branch=", "enable_scalar=")
_LANE = re.compile(r"u32\[(\d{1,3})\]")
_LANE_BITS = 32
"""Unnamed bits are printed as words of this length."""


def to_text(operations: Sequence[Operation], offset: int = 0) -> str:
    """The text form, each line ended by a newline. offset: of the first operation, in bytes."""
    lines = []
    for operation in operations:
        comment = comment_on(operation)
        line = " ".join([f"{offset:04x}:", operation.name, *_fields(operation)])
        lines.append(f"{line}  # {comment}\n" if comment else f"{line}\n")
        offset += WORD_BYTES * operation.words
    return "".join(lines)


def from_text(text: str) -> list[Operation]:
    """The operations of a text form; ModelFormatError, naming the line, for anything else."""
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        offset, colon, rest = line.partition("#")[0].rpartition(":")
        if colon and not is_offset(offset):
            raise ModelFormatError(f"line {number}: expected a byte offset before the colon, got '{offset}'")
        name, *fields = rest.split() or [""]
        if name:
            found.append(_parsed(name, fields, number))
        elif colon:
            raise ModelFormatError(f"line {number}: expected the name of an operation")
    return found


def decoded_fields(operation: Operation) -> dict[str, int]:
    """The named bits of an operation; for a word of the scalar core, only nonzero fields."""
    if operation.kind.scalar and operation.words == 1:
        return Instruction.decode(operation.encode()).fields
    return {bits.name: operation.field(bits.first, bits.last) for bits in named_bits(operation.kind)}


def comment_on(operation: Operation) -> str:
    """A description of the operation's effect; empty if it is unknown."""
    if operation.kind.scalar and operation.words == 1:
        return meaning(Instruction.decode(operation.encode()))
    if not requantises(operation):
        return ""
    return _requantisation_text(read_requantisation(operation), read_offset(operation))


def _requantisation_text(read: Requantisation, offset: int) -> str:
    total = f"(sum {offset:+d})" if offset else "sum"
    return (
        f"clip({read.multiplier:.9g} * {total}, {read.minimum:.9g}, {read.maximum:.9g}) "
        f"+ {read.output_zero_point}"
    )


def _fields(operation: Operation) -> list[str]:
    if operation.kind.scalar and operation.words == 1:
        texts = field_texts(Instruction.decode(operation.encode()))
        hidden = _IMPLIED if operation.name in _FRAME else _IMPLIED[1:]
        return [text for text in texts if not text.startswith(hidden)]
    rest = operation.with_field(OPCODE.first, OPCODE.last, 0)
    texts = []
    for bits in named_bits(operation.kind):
        texts.append(f"{bits.name}={number_text(operation.field(bits.first, bits.last))}")
        rest = rest.with_field(bits.first, bits.last, 0)
    lanes = range(WORD_BYTES * 8 * operation.words // _LANE_BITS)
    values = ((lane, rest.field(_LANE_BITS * lane, _LANE_BITS * lane + _LANE_BITS - 1)) for lane in lanes)
    return texts + [f"u32[{lane}]={value:#x}" for lane, value in values if value]


def _parsed(name: str, fields: Sequence[str], line: int) -> Operation:
    if name == SCALAR_WORD or name in _FRAME:
        branch = [f"branch={_KINDS[name].opcode}"] if name in _FRAME else []
        word = word_of([*branch, "enable_scalar=1", *fields], line)
        operation = _checked(int.from_bytes(word.encode(), "little"), line)
        if operation.name != name:
            raise ModelFormatError(f"line {line}: expected {name}; these are the fields of {operation.name}")
        return operation
    if name not in _KINDS:
        raise ModelFormatError(
            f"line {line}: '{name}' is not an operation; expected one of {', '.join(_KINDS)}"
        )
    return _assembled(_KINDS[name], fields, line)


def _assembled(kind: Kind, fields: Sequence[str], line: int) -> Operation:
    operation = Operation.of(kind.opcode << OPCODE.first | kind.scalar << OPCODE.last)
    named = {bits.name: bits for bits in named_bits(kind)}
    given: set[str] = set()
    for text in fields:
        name, _, number = text.partition("=")
        lane = _LANE.fullmatch(name)
        if name in given:
            raise ModelFormatError(f"line {line}: the field {name} is given twice")
        given.add(name)
        try:
            value = int(number, 0)
        except ValueError:
            raise ModelFormatError(f"line {line}: expected a number for {name}, got '{number}'") from None
        if lane is not None:
            if not 0 <= value < 1 << _LANE_BITS or int(lane[1]) >= 4 * operation.words:
                raise ModelFormatError(f"line {line}: {text} does not fit into {4 * operation.words} numbers")
            operation = operation._replace(value=operation.value | value << _LANE_BITS * int(lane[1]))
        elif name not in named:
            raise ModelFormatError(f"line {line}: '{name}' is not a field of {operation.name}")
        else:
            operation = _with(operation, named[name].first, named[name].last, value, f"line {line}: {name}")
    if operation.kind != kind:
        raise ModelFormatError(f"line {line}: u32[0] changes the kind of the operation")
    return operation


def _with(operation: Operation, first: int, last: int, value: int, what: str) -> Operation:
    try:
        return operation.with_field(first, last, value)
    except InputError:
        raise ModelFormatError(f"{what} has {last - first + 1} bits; {value:#x} does not fit") from None


def _checked(value: int, line: int) -> Operation:
    try:
        return Operation.of(value)
    except ModelFormatError as error:
        raise ModelFormatError(f"line {line}: {error}") from None
