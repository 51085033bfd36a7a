"""The frame of programs, the builder, and the transfers requested by golden programs."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import pytest

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.darwinn.executable import Description, DmaHint, Executable, InterruptHint
from edgetpu_driver.darwinn.instructions.instruction_word import Instruction, disassemble
from edgetpu_driver.darwinn.instructions.program_frame import (
    HALT_CHUNK,
    HALT_LAST,
    NOP,
    ProgramBuilder,
    check_frame,
    halt,
    move_immediate,
)
from edgetpu_driver.darwinn.instructions.requested_transfers import Transfer, transfers
from edgetpu_driver.errors import InputError, ModelFormatError, ModelUnsupportedError
from testdata import ModelFolder

TAGS = {Description.INPUT: 1, Description.PARAMETER: 2, Description.OUTPUT: 3}
INTERRUPT_TAG = 4


Program = list[Instruction]


@pytest.fixture(scope="module")
def golden_programs(golden: ModelFolder) -> list[tuple[Executable, list[Program]]]:
    """Those of every golden model whose transfers are fully described, with their instructions."""
    found: list[tuple[Executable, list[Program]]] = []
    for path in golden.models("_edgetpu.tflite"):
        model = CompiledModel.load(path)
        executables = [model.execution] if model.caching is None else [model.caching, model.execution]
        found += [
            (each, [disassemble(bitstream.data) for bitstream in each.bitstreams])
            for each in executables
            if each.fully_deterministic
        ]
    return found


def test_smallest_program_is_the_documented_one() -> None:
    builder = ProgramBuilder()
    builder.move(0, 0xABAB)
    program = disassemble(builder.build())
    assert [each.fields for each in program] == [
        {"branch": 0x1E, "enable_scalar": 1, "imm_size": (1 + 5) * 128},
        {"enable_scalar": 1, "s_op": 0x2F, "imm_scalar": 0xABAB},
        {"branch": 0x01, "enable_scalar": 1, "vs_reg_v1": 4},
        *[{"enable_scalar": 1}] * 4,
        {"branch": 0x1F, "enable_scalar": 1, "imm_size": 128},
    ]


def test_builder_says_where_instructions_are() -> None:
    builder = ProgramBuilder()
    assert builder.move(1, 0) == 1
    assert builder.append(NOP) == 2
    assert builder.transfer([0, 1, 2, 3]) == 7
    assert len(builder) == len(builder.build()) // 16 == 14


def test_builder_refuses_registers_that_do_not_exist() -> None:
    with pytest.raises(InputError, match=r"four scalar registers, 0 to 31; got \[0, 1, 2, 32\]"):
        ProgramBuilder().transfer([0, 1, 2, 32])
    with pytest.raises(InputError, match="four scalar registers"):
        ProgramBuilder().transfer([0, 1, 2])


def test_transfers_of_a_built_program_are_those_asked_for() -> None:
    builder = ProgramBuilder()
    for register, value in enumerate((0x8000_0010, 0x2, 4096, 1)):
        builder.move(register, value)
    trigger = builder.transfer([0, 1, 2, 3])
    assert transfers(disassemble(builder.build())) == [Transfer(1, 4096, 0x2_8000_0010, trigger)]


def test_transfers_obey_predicates() -> None:
    builder = ProgramBuilder()
    builder.append(Instruction(enable_scalar=1, v_op=0xC, gate=1, pred_reg=2, yes_pred=1))
    builder.append(Instruction(enable_scalar=1, v_op=0xC, gate=1, pred_reg=2, yes_pred=0))
    assert [each.instruction for each in transfers(disassemble(builder.build()))] == [2]


def test_every_golden_bitstream_has_the_frame_of_a_program(golden_programs: Any) -> None:
    for _, programs in golden_programs:
        for program in programs:
            check_frame(program)
        kinds = [program[-6].vs_reg_v1 for program in programs]
        assert kinds == [HALT_CHUNK] * (len(programs) - 1) + [HALT_LAST]


def test_golden_programs_ask_for_the_transfers_of_their_hints(golden_programs: Any) -> None:
    """Tags, sizes and offsets read from the code, which may split an output."""
    for executable, programs in golden_programs:
        pieces = [each for program in programs for each in transfers(program)]
        for hint in executable.hints:
            if isinstance(hint, InterruptHint):
                assert (pieces[0].tag, pieces[0].size) == (INTERRUPT_TAG + hint.number, 0)
                del pieces[0]
            elif isinstance(hint, DmaHint):
                taken = list(accumulate(piece.size for piece in pieces)).index(hint.size) + 1
                assert {piece.tag for piece in pieces[:taken]} == {TAGS[hint.description]}
                expected = accumulate((piece.size for piece in pieces[: taken - 1]), initial=hint.offset)
                assert [piece.address for piece in pieces[:taken]] == list(expected)
                del pieces[:taken]
        assert pieces == []


def test_transfers_of_a_program_with_unknown_arithmetic_are_refused(golden: ModelFolder) -> None:
    model = CompiledModel.load(golden.model("keras_lstm_mnist_ptq_edgetpu.tflite"))
    program = disassemble(model.execution.bitstreams[0].data)
    with pytest.raises(
        ModelUnsupportedError, match="instruction 839: scalar operation 0x10 is not documented"
    ):
        transfers(program)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda program: program[:6], "at least 7 instructions; got 6"),
        (
            lambda program: program[1:],
            "instruction 0: expected a start with a length of 768 bits; got branch 0x0",
        ),
        (
            lambda program: [*program[:1], NOP, *program[1:]],
            "length of 1024 bits; got branch 0x1e and 896 bits",
        ),
        (lambda program: [*program[:3], NOP, *program[4:]], "instruction 3: expected the end of the program"),
        (
            lambda program: [*program[:5], halt(), *program[6:]],
            "instruction 5: expected the end of the program",
        ),
        (lambda program: [*program[:-1], NOP], "instruction 8: expected the end of the program"),
    ],
    ids=["short", "no start", "wrong length", "no halt", "no NOP", "no end"],
)
def test_program_without_its_frame_is_malformed(
    change: Callable[[list[Instruction]], list[Instruction]], message: str
) -> None:
    builder = ProgramBuilder()
    builder.append(move_immediate(0, 1))
    builder.append(move_immediate(1, 1))
    program = disassemble(builder.build())
    with pytest.raises(ModelFormatError, match=message):
        check_frame(change(program))
