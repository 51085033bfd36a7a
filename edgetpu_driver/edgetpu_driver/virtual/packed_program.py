"""Programs for the virtual Edge TPU: instruction streams of the real form that carry only a digest.

These streams have the real frame and load the addresses that real programs load. The immediates of their
scalar moves hold a sequence derived from the digest, so that every program is unique.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from edgetpu_driver.darwinn.executable import Description, FieldOffset, InstructionBitstream, Position
from edgetpu_driver.darwinn.instructions.instruction_word import Instruction
from edgetpu_driver.darwinn.instructions.instruction_word_fields import FIELDS, WORD_BITS
from edgetpu_driver.darwinn.instructions.program_frame import ProgramBuilder
from edgetpu_driver.darwinn.instructions.scalar_core import REGISTERS

_ADDRESS_BIT = next(field.position for field in FIELDS if field.name == "imm_scalar")


def bitstream(
    digest: bytes,
    length: int,
    inputs: Sequence[str],
    outputs: Sequence[str],
    operation: Sequence[Instruction] = (),
) -> InstructionBitstream:
    """A program of `length` instructions that depends only on the digest.

    inputs, outputs: names of the layers whose addresses it loads, besides the addresses of parameters and
    scratch.
    operation: words that are inserted unchanged.
    """
    builder = ProgramBuilder()
    fields = []
    for register, (description, name, position) in enumerate(_address_targets(inputs, outputs)):
        index = builder.move(register % REGISTERS, 0)
        fields.append(FieldOffset(description, name, position, bit=index * WORD_BITS + _ADDRESS_BIT))
    for instruction in operation:
        builder.append(instruction)
    for register, word in enumerate(_words(digest, length - len(builder))):
        builder.move(register % REGISTERS, word)
    return InstructionBitstream(builder.build(), tuple(fields))


def _address_targets(
    inputs: Sequence[str], outputs: Sequence[str]
) -> list[tuple[Description, str, Position]]:
    """The addresses that a program loads, in the order of real programs."""
    lower, upper = Position.LOWER_32BIT, Position.UPPER_32BIT
    targets = [(Description.PARAMETER, "", lower), (Description.PARAMETER, "", upper)]
    if outputs:
        targets += [(Description.SCRATCH, "", lower), (Description.SCRATCH, "", upper)]
    for description, names in ((Description.INPUT, inputs), (Description.OUTPUT, outputs)):
        for name in names:
            targets += [(description, name, upper), (description, name, lower)]
    return targets


def _words(digest: bytes, count: int) -> list[int]:
    """32-bit words derived from the digest."""
    return [int(word) for word in np.frombuffer(hashlib.shake_256(digest).digest(4 * count), "<u4")]
