"""The scalar core: 32 registers of 32 bits, 8 predicates, and the documented operations.

The operations are those of the published decoding. Compiled programs confirm them in part: they compute sizes
and offsets of transfers with moves, additions and masks, and the results equal their DMA hints (see
`requested_transfers`).
"""

from __future__ import annotations

from collections.abc import Callable

from edgetpu_driver.darwinn.instructions.instruction_word import Instruction
from edgetpu_driver.darwinn.instructions.instruction_word_fields import (
    IMMEDIATE,
    Branch,
    ScalarOp,
    scalar_mnemonic,
)
from edgetpu_driver.errors import ModelUnsupportedError

REGISTERS = 32
"""Number of scalar registers: instructions have 5 bits for them."""
PREDICATES = 8
"""Number of predicates: one-bit registers that enable instructions."""

_MASK = 0xFFFFFFFF
"""Results are truncated to the length of a register."""
_BITS = 32
"""Length of a register."""


def _signed(value: int) -> int:
    return value - (1 << _BITS) if value >> (_BITS - 1) else value


_ARITHMETIC: dict[ScalarOp, Callable[[int, int], int]] = {
    ScalarOp.ADD: lambda y, z: y + z,
    ScalarOp.SUB: lambda y, z: y - z,
    ScalarOp.AND: lambda y, z: y & z,
    ScalarOp.ORR: lambda y, z: y | z,
    ScalarOp.XOR: lambda y, z: y ^ z,
    ScalarOp.SHL: lambda y, z: y << z,
    ScalarOp.SHR: lambda y, z: y >> z,
    ScalarOp.ASR: lambda y, z: _signed(y) >> z,
    ScalarOp.MOV: lambda _, z: z,
}
_COMPARISONS: dict[ScalarOp, Callable[[int, int], bool]] = {
    ScalarOp.EQ: lambda y, z: y == z,
    ScalarOp.NEQ: lambda y, z: y != z,
    ScalarOp.GT: lambda y, z: _signed(y) > _signed(z),
    ScalarOp.ULT: lambda y, z: y < z,
    ScalarOp.GEQ: lambda y, z: _signed(y) >= _signed(z),
    ScalarOp.GES: lambda y, z: y >= z,
}
_SHIFTS = (ScalarOp.SHL, ScalarOp.SHR, ScalarOp.ASR)


def is_scalar(instruction: Instruction) -> bool:
    """Whether a word is for the scalar core only, optionally with part of a transfer."""
    return instruction.enable_scalar == 1 and not (
        instruction.branch
        or instruction.enable_vector
        or instruction.unk_0
        or instruction.vs_reg_v1
        or instruction.imm_size
        or instruction.v_cmd
        or instruction.v_op_2
        or instruction.vs_reg_w
        or instruction.unk_3
    )


class ScalarCore:
    """Registers and predicates, initially zero, and their changes by instructions."""

    def __init__(self) -> None:
        self.registers = [0] * REGISTERS
        """Unsigned 32-bit values."""
        self.predicates = [False] * PREDICATES

    def run(self, instructions: list[Instruction]) -> int:
        """Execute a program up to its halt; returns the index of the halt.

        ModelUnsupportedError for words that are not of the scalar core, undocumented operations, and
        programs that do not halt.
        """
        for index, instruction in enumerate(instructions):
            if instruction.branch == Branch.HALT and self.selects(instruction):
                return index
            if instruction.branch not in (Branch.START, Branch.HALT):
                self.execute(instruction, index)
        raise ModelUnsupportedError(f"the program of {len(instructions)} instructions does not halt")

    def selects(self, instruction: Instruction) -> bool:
        """Whether the instruction's predicate enables it."""
        return not instruction.gate or self.predicates[instruction.pred_reg] == bool(instruction.yes_pred)

    def execute(self, instruction: Instruction, index: int = 0) -> None:
        """Execute the scalar operation of one word if its predicate enables it.

        index: of the word, for messages. ModelUnsupportedError for an undocumented operation.
        """
        if not is_scalar(instruction):
            raise ModelUnsupportedError(
                f"instruction {index} is not one of the scalar core alone: {instruction.fields}"
            )
        if not self.selects(instruction):
            return
        mnemonic = scalar_mnemonic(instruction.s_op)
        if mnemonic is None:
            raise ModelUnsupportedError(
                f"instruction {index}: scalar operation {instruction.s_op:#x} is not documented"
            )
        operation = ScalarOp(instruction.s_op & ~IMMEDIATE)
        y = self.registers[instruction.s_y]
        z = instruction.imm_scalar
        if not instruction.s_op & IMMEDIATE:
            z = self.registers[z % REGISTERS]
        if operation in _SHIFTS and z >= _BITS:
            raise ModelUnsupportedError(f"instruction {index}: {mnemonic} by {z} bits is not documented")
        if operation in _ARITHMETIC:
            self.registers[instruction.s_x] = _ARITHMETIC[operation](y, z) & _MASK
        elif operation in _COMPARISONS:
            self._set_predicate(instruction.s_x, _COMPARISONS[operation](y, z), index)

    def _set_predicate(self, number: int, value: bool, index: int) -> None:
        if number >= PREDICATES:
            raise ModelUnsupportedError(
                f"instruction {index}: there are {PREDICATES} predicates; {number} is not one of them"
            )
        self.predicates[number] = value
