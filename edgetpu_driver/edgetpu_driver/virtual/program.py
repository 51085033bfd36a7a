"""Machine code for the virtual Edge TPU: instruction streams of the real form that only carry a digest.

What an instruction means is known in part only, so no real program can be written here. These streams have
the real frame (start, halt, four NOPs, end marker), load the addresses that real ones load, and hold in the
immediates of scalar moves a sequence that the digest determines, so that every program has bytes of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from edgetpu_driver.darwinn.executable import Description, FieldOffset, InstructionBitstream, Position

INSTRUCTION_BYTES = 16

# Positions of fields in the 128-bit little-endian instruction word.
_BRANCH = 6
_ENABLE_SCALAR = 11
_LENGTH = 19
_SCALAR_OP = 54
_DESTINATION = 60
_IMMEDIATE = 70

_START, _HALT, _END = 0x1E, 0x01, 0x1F
_MOVE_IMMEDIATE = 0x2F
_SCALAR_REGISTERS = 32
_NOPS = 4
_FRAME = 1 + 1 + _NOPS + 1  # start, halt, NOPs, end


def bitstream(
    digest: bytes, length: int, inputs: Sequence[str], outputs: Sequence[str]
) -> InstructionBitstream:
    """A program of `length` instructions that depends on the digest and nothing else.

    inputs, outputs: names of the layers whose addresses it loads, besides those of parameters and scratch.
    """
    targets = _address_targets(inputs, outputs)
    words = _words(digest, length - _FRAME - len(targets))
    body = [_move(index, 0) for index in range(len(targets))]
    body += [_move(index, word) for index, word in enumerate(words)]
    # The start names the bits from itself to the end marker, less one instruction, as real programs do.
    length_bits = (len(body) + _FRAME - 2) * 8 * INSTRUCTION_BYTES
    code = [_instruction(branch=_START, length_bits=length_bits), *body, _instruction(branch=_HALT)]
    code += [_instruction()] * _NOPS
    code.append(_instruction(branch=_END, length_bits=8 * INSTRUCTION_BYTES))
    fields = tuple(
        FieldOffset(description, name, position, bit=8 * INSTRUCTION_BYTES * (1 + index) + _IMMEDIATE)
        for index, (description, name, position) in enumerate(targets)
    )
    return InstructionBitstream(b"".join(code), fields)


def _address_targets(
    inputs: Sequence[str], outputs: Sequence[str]
) -> list[tuple[Description, str, Position]]:
    """Which addresses a program loads, in the order of real ones."""
    lower, upper = Position.LOWER_32BIT, Position.UPPER_32BIT
    targets = [(Description.PARAMETER, "", lower), (Description.PARAMETER, "", upper)]
    if outputs:
        targets += [(Description.SCRATCH, "", lower), (Description.SCRATCH, "", upper)]
    for description, names in ((Description.INPUT, inputs), (Description.OUTPUT, outputs)):
        for name in names:
            targets += [(description, name, upper), (description, name, lower)]
    return targets


def _words(digest: bytes, count: int) -> list[int]:
    """32-bit words drawn from the digest."""
    return [int(word) for word in np.frombuffer(hashlib.shake_256(digest).digest(4 * count), "<u4")]


def _move(index: int, immediate: int) -> bytes:
    """Load a constant into one scalar register after the other."""
    return _instruction(scalar_op=_MOVE_IMMEDIATE, destination=index % _SCALAR_REGISTERS, immediate=immediate)


def _instruction(
    *, branch: int = 0, length_bits: int = 0, scalar_op: int = 0, destination: int = 0, immediate: int = 0
) -> bytes:
    word = (
        branch << _BRANCH
        | 1 << _ENABLE_SCALAR
        | length_bits << _LENGTH
        | scalar_op << _SCALAR_OP
        | destination << _DESTINATION
        | immediate << _IMMEDIATE
    )
    return word.to_bytes(INSTRUCTION_BYTES, "little")
