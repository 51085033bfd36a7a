"""The scalar core: each documented operation, predication, and refused programs."""

from __future__ import annotations

import pytest

from edgetpu_driver.darwinn.instructions.instruction_word import Instruction, disassemble
from edgetpu_driver.darwinn.instructions.instruction_word_fields import IMMEDIATE, ScalarOp
from edgetpu_driver.darwinn.instructions.program_frame import ProgramBuilder, halt, move_immediate
from edgetpu_driver.darwinn.instructions.scalar_core import ScalarCore
from edgetpu_driver.errors import ModelUnsupportedError

NEGATIVE = 0xFFFF_FFF0  # -16


def scalar(operation: int, x: int, y: int, z: int) -> Instruction:
    return Instruction(enable_scalar=1, s_op=operation, s_x=x, s_y=y, imm_scalar=z)


@pytest.mark.parametrize(
    ("operation", "y", "z", "result"),
    [
        (ScalarOp.ADD, 0xFFFF_FFFF, 2, 1),
        (ScalarOp.SUB, 1, 2, 0xFFFF_FFFF),
        (ScalarOp.AND, 0b1100, 0b1010, 0b1000),
        (ScalarOp.ORR, 0b1100, 0b1010, 0b1110),
        (ScalarOp.XOR, 0b1100, 0b1010, 0b0110),
        (ScalarOp.SHL, 0x8000_0001, 1, 2),
        (ScalarOp.SHR, NEGATIVE, 4, 0x0FFF_FFFF),
        (ScalarOp.ASR, NEGATIVE, 4, 0xFFFF_FFFF),
        (ScalarOp.MOV, 7, 9, 9),
    ],
)
def test_arithmetic_with_a_register_or_an_immediate(operation: ScalarOp, y: int, z: int, result: int) -> None:
    core = ScalarCore()
    core.registers[1:3] = [y, z]
    core.execute(scalar(operation, 3, 1, 2))
    core.execute(scalar(operation | IMMEDIATE, 4, 1, z))
    assert core.registers[:5] == [0, y, z, result, result]


@pytest.mark.parametrize(
    ("operation", "y", "z", "result"),
    [
        (ScalarOp.EQ, 5, 5, True),
        (ScalarOp.EQ, 5, 6, False),
        (ScalarOp.NEQ, 5, 6, True),
        (ScalarOp.GT, 1, NEGATIVE, True),
        (ScalarOp.GT, 1, 1, False),
        (ScalarOp.ULT, 1, NEGATIVE, True),
        (ScalarOp.ULT, NEGATIVE, 1, False),
        (ScalarOp.GEQ, 1, 1, True),
        (ScalarOp.GEQ, NEGATIVE, 1, False),
        (ScalarOp.GES, NEGATIVE, 1, True),
    ],
)
def test_comparisons_set_a_predicate(operation: ScalarOp, y: int, z: int, result: bool) -> None:
    core = ScalarCore()
    core.registers[1] = y
    core.predicates[6] = not result
    core.execute(scalar(operation | IMMEDIATE, 6, 1, z))
    assert core.predicates[6] is result
    assert core.registers[6] == 0


def test_nop_changes_nothing() -> None:
    core = ScalarCore()
    core.execute(Instruction(enable_scalar=1))
    assert core.registers == [0] * 32
    assert core.predicates == [False] * 8


@pytest.mark.parametrize(
    ("predicate", "yes_pred", "executed"), [(True, 1, True), (True, 0, False), (False, 0, True)]
)
def test_predicated_instructions_execute_when_the_predicate_has_the_value(
    predicate: bool, yes_pred: int, executed: bool
) -> None:
    core = ScalarCore()
    core.predicates[3] = predicate
    core.execute(
        Instruction(enable_scalar=1, s_op=0x2F, s_x=1, imm_scalar=5, gate=1, pred_reg=3, yes_pred=yes_pred)
    )
    assert core.registers[1] == (5 if executed else 0)


def test_built_program_runs_to_its_halt() -> None:
    builder = ProgramBuilder()
    builder.move(1, 40)
    builder.append(scalar(ScalarOp.ADD | IMMEDIATE, 2, 1, 2))
    core = ScalarCore()
    assert core.run(disassemble(builder.build())) == 3
    assert core.registers[2] == 42


def test_program_without_halt_is_refused() -> None:
    with pytest.raises(ModelUnsupportedError, match="the program of 1 instructions does not halt"):
        ScalarCore().run([move_immediate(0, 1)])


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        (Instruction(enable_scalar=1, s_op=0x34), "instruction 0: scalar operation 0x34 is not documented"),
        (Instruction(enable_scalar=1, enable_vector=1), "instruction 0 is not one of the scalar core alone"),
        (Instruction(enable_scalar=1, branch=4), "instruction 0 is not one of the scalar core alone"),
        (Instruction(), "instruction 0 is not one of the scalar core alone"),
        (scalar(0x26, 1, 1, 32), "instruction 0: SHLI by 32 bits is not documented"),
        (scalar(0x29, 8, 1, 0), "instruction 0: there are 8 predicates; 8 is not one of them"),
    ],
)
def test_undocumented_operations_are_refused(instruction: Instruction, message: str) -> None:
    with pytest.raises(ModelUnsupportedError, match=message):
        ScalarCore().run([instruction, halt()])
