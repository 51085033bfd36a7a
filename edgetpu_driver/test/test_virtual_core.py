"""The scalar core of a virtual stick: programs of its own, run, halted and single-stepped over the link."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from edgetpu_driver import VirtualEdgeTpu
from edgetpu_driver.darwinn.instructions.instruction_word import Instruction
from edgetpu_driver.darwinn.instructions.instruction_word_fields import IMMEDIATE, ScalarOp, VectorOp
from edgetpu_driver.darwinn.instructions.program_frame import ProgramBuilder, halt, move_immediate
from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.usb.chip_bringup import bring_up
from edgetpu_driver.usb.chip_clock import ClockPreset
from edgetpu_driver.usb.discovery import find_sticks
from edgetpu_driver.usb.framing import Event, Frame, Tag
from edgetpu_driver.usb.link import UsbLink
from edgetpu_driver.usb.registers import Register
from edgetpu_driver.virtual.processor.processor import UNKNOWN_KEPT

INTERRUPT_0 = 4
RUN, HALT, STEP = 1, 2, 3
HALTED = 4


@pytest.fixture
def stick() -> VirtualEdgeTpu:
    return VirtualEdgeTpu()


@pytest.fixture
def link(stick: VirtualEdgeTpu) -> Iterator[UsbLink]:
    with closing(UsbLink(stick, find_sticks(stick)[0])) as link:
        bring_up(link, ClockPreset.HIGH)
        yield link


def program(*words: Instruction, interrupt: int | None = INTERRUPT_0, size: int = 0) -> Frame:
    """A framed program that ends with a transfer of that tag and size, or with none."""
    builder = ProgramBuilder()
    for word in words:
        builder.append(word)
    if interrupt is not None:
        for register, value in zip((20, 21, 22, 23), (0, 0, size, interrupt), strict=True):
            builder.move(register, value)
        builder.transfer((20, 21, 22, 23))
    return Frame(Tag.INSTRUCTIONS, builder.build())


def immediate(operation: ScalarOp, x: int, y: int, value: int, **fields: int) -> Instruction:
    return Instruction(enable_scalar=1, s_op=operation | IMMEDIATE, s_x=x, s_y=y, imm_scalar=value, **fields)


def register(link: UsbLink, number: int) -> int:
    return link.read_register(Register.scalarRegisterFile + 8 * number)


def predicate(link: UsbLink, number: int) -> int:
    return link.read_register(Register.predicateRegisterFile + 8 * number)


def test_a_program_computes_and_ends_with_its_interrupt(link: UsbLink) -> None:
    link.send(program(move_immediate(3, 40), immediate(ScalarOp.ADD, 4, 3, 2)))
    assert link.read_event() == Event(0, 0, Tag.INTERRUPT_0)
    assert [register(link, number) for number in (3, 4, 5)] == [40, 42, 0]


def test_predicates_decide_what_is_executed(link: UsbLink) -> None:
    link.send(
        program(
            move_immediate(0, 7),
            immediate(ScalarOp.GT, 5, 0, 6),
            immediate(ScalarOp.MOV, 1, 0, 1, gate=1, pred_reg=5, yes_pred=1),
            immediate(ScalarOp.MOV, 2, 0, 1, gate=1, pred_reg=5),
            interrupt=None,
        )
    )
    assert (register(link, 1), register(link, 2)) == (1, 0)
    assert [predicate(link, number) for number in range(8)] == [0, 0, 0, 0, 0, 1, 0, 0]


def test_a_halt_that_is_not_selected_is_passed(link: UsbLink) -> None:
    never = Instruction(branch=1, enable_scalar=1, gate=1, yes_pred=1)
    always = Instruction(branch=1, enable_scalar=1, gate=1)
    link.send(program(never, move_immediate(1, 1), always, move_immediate(2, 1), interrupt=None))
    assert (register(link, 1), register(link, 2)) == (1, 0)


def test_registers_stay_from_one_program_to_the_next_until_a_reset(link: UsbLink) -> None:
    link.send(program(move_immediate(1, 5), interrupt=None))
    link.send(program(immediate(ScalarOp.ADD, 1, 1, 1), interrupt=None))
    assert register(link, 1) == 6
    link.reset()
    bring_up(link, ClockPreset.HIGH)
    assert register(link, 1) == 0


def test_a_halted_core_goes_step_by_step_and_then_on(link: UsbLink) -> None:
    link.write_register(Register.scalarCoreRunControl, HALT)
    assert link.read_register(Register.scalarCoreRunStatus) == HALTED
    link.send(program(move_immediate(1, 1), move_immediate(2, 2)))
    seen = []
    for _ in range(3):
        seen.append((link.read_register(Register.currentPc), register(link, 1), register(link, 2)))
        link.write_register(Register.scalarCoreRunControl, STEP)
    assert seen == [(0, 0, 0), (1, 0, 0), (2, 1, 0)]
    assert link.poll_event(1) is None
    link.write_register(Register.scalarCoreRunControl, RUN)
    assert link.read_event().tag is Tag.INTERRUPT_0
    assert link.read_register(Register.currentPc) == 12


def test_a_step_past_the_halt_does_nothing(link: UsbLink) -> None:
    link.write_register(Register.scalarCoreRunControl, HALT)
    link.send(program(interrupt=None))
    for _ in range(4):
        link.write_register(Register.scalarCoreRunControl, STEP)
    assert link.read_register(Register.currentPc) == 1
    link.write_register(Register.scalarCoreRunControl, RUN)
    link.send(program(move_immediate(1, 1), interrupt=None))
    assert register(link, 1) == 1


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (program(immediate(ScalarOp.MOV, 1, 0, 0, branch=2)), "instruction 1: what branch 0x2 does is not"),
        (program(immediate(ScalarOp.SHL, 1, 0, 32)), "instruction 1: SHLI by 32 bits is not documented"),
        (program(Instruction(enable_scalar=1, s_op=0x34)), "instruction 1: scalar operation 0x34 is not"),
        (program(Instruction(enable_scalar=1, unk_0=1)), "instruction 1 is not one of the scalar core alone"),
        (program(Instruction(enable_scalar=1, v_op=9)), "instruction 1: what v_op 0x9 with v_offset 0 does"),
        (
            program(Instruction(enable_scalar=1, v_op=VectorOp.LOAD_DESCRIPTOR, v_offset=4)),
            "instruction 1: what v_op 0xa with v_offset 4 does",
        ),
        (program(interrupt=3, size=8), "instruction 9: a transfer with tag 3 of 8 bytes; the scalar core"),
        (program(interrupt=2, size=64), "instruction 9: a transfer with tag 2 of 64 bytes; the scalar core"),
        (program(interrupt=4, size=1), "instruction 9: a transfer with tag 4 of 1 bytes"),
        (program(interrupt=8), "instruction 9: a transfer with tag 8 of 0 bytes"),
        (Frame(Tag.INSTRUCTIONS, halt().encode()), "a program has at least 7 instructions; got 1"),
        (Frame(Tag.INSTRUCTIONS, move_immediate(1, 1).encode() * 8), "instruction 0: expected a start"),
    ],
)
def test_programs_with_unknown_meaning_hang(
    frame: Frame, reason: str, stick: VirtualEdgeTpu, link: UsbLink
) -> None:
    link.send(frame)
    assert stick.hang_reason.startswith(reason)


def test_a_second_program_before_the_first_has_ended_hangs(stick: VirtualEdgeTpu, link: UsbLink) -> None:
    link.write_register(Register.scalarCoreRunControl, HALT)
    link.send(program())
    link.send(program())
    assert "came before the program ended" in stick.hang_reason


def test_data_that_a_scalar_program_did_not_ask_for_hang_and_the_repeat_is_refused(
    stick: VirtualEdgeTpu, link: UsbLink
) -> None:
    frame, data = program(interrupt=None), Frame(Tag.INPUT_ACTIVATIONS, b"12345678")
    link.send(frame)
    link.send(data)
    assert stick.hang_reason == "no known program starts with a frame with tag 1 of 8 bytes"
    link.reset()
    bring_up(link, ClockPreset.HIGH)
    link.send(frame)
    with pytest.raises(ModelUnsupportedError, match="knows no model"):
        link.send(data)


def test_only_the_last_unknown_instructions_are_remembered(link: UsbLink) -> None:
    def refuses(number: int) -> bool:  # which it does when they come again
        link.send(program(move_immediate(0, number), interrupt=None))
        try:
            link.send(Frame(Tag.INPUT_ACTIVATIONS, b"12345678"))
        except ModelUnsupportedError:
            return True
        link.reset()
        bring_up(link, ClockPreset.HIGH)
        return False

    assert [refuses(0), refuses(0)] == [False, True]
    assert not any(refuses(number) for number in range(1, 1 + UNKNOWN_KEPT))
    assert [refuses(0), refuses(0)] == [False, True]
