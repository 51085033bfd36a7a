"""The transfers that a program requests, read from its scalar code.

A transfer is four loads of a descriptor word from a scalar register, then a trigger. The words are the lower
and upper half of the address, the size in bytes, and the tag of the link (1 input, 2 parameters, 3 output, 4
and above interrupts, whose size is 0). The published decoding calls the third word an offset and lists the
tags 1, 3 and 4; in compiled programs it is the size that the DMA hints give, and parameters have the tag 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgetpu_driver.darwinn.instructions.instruction_word import Instruction
from edgetpu_driver.darwinn.instructions.instruction_word_fields import VectorOp
from edgetpu_driver.darwinn.instructions.scalar_core import ScalarCore, is_scalar

DESCRIPTOR_WORDS = 4
"""Words of the descriptor of a transfer, each loaded from a scalar register."""


@dataclass(frozen=True)
class Transfer:
    """One transfer over the link, as the program describes it."""

    tag: int
    size: int
    """In bytes."""
    address: int
    """64 bits; an offset if the address fields of the bitstream are zero."""
    instruction: int
    """Index of the trigger word."""


def transfers(instructions: Sequence[Instruction]) -> list[Transfer]:
    """The transfers of a program whose scalar code has no branches, in order.

    Words that are not purely scalar are skipped. This is correct if they neither branch nor change scalar
    registers, as in every compiled program seen whose hints are complete. ModelUnsupportedError for an
    undocumented scalar operation.
    """
    core = ScalarCore()
    descriptor = [0] * DESCRIPTOR_WORDS
    found = []
    for index, instruction in enumerate(instructions):
        if not is_scalar(instruction):
            continue
        if core.selects(instruction):
            if instruction.v_op == VectorOp.LOAD_DESCRIPTOR and instruction.v_offset < DESCRIPTOR_WORDS:
                descriptor[instruction.v_offset] = core.registers[instruction.vs_reg]
            elif instruction.v_op == VectorOp.TRANSFER:
                low, high, size, tag = descriptor
                found.append(Transfer(tag, size, high << 32 | low, index))
        core.execute(instruction, index)
    return found
