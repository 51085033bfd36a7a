"""Steps on the scalar core: a program for the core alone, and single-stepping."""

from __future__ import annotations

from itertools import pairwise

from edgetpu_driver.cli.confirm.outcome import Refuted, Values
from edgetpu_driver.cli.confirm.trial_stick import TrialStick
from edgetpu_driver.darwinn.instructions.instruction_word import Instruction
from edgetpu_driver.darwinn.instructions.instruction_word_fields import IMMEDIATE, ScalarOp
from edgetpu_driver.darwinn.instructions.program_frame import ProgramBuilder
from edgetpu_driver.stick.core_debugging import CoreState, halt, read_core, run, single_step
from edgetpu_driver.usb.framing import Event, Frame, Tag
from edgetpu_driver.usb.link import UsbLink

_DESCRIPTOR = (20, 21, 22, 23)
"""Scalar registers with the transfer descriptor of the trial program; any four would do."""
_MASK = 0xFFFFFFFF
"""Scalar registers have 32 bits."""
_MOST_STEPS = 8
"""Maximum number of steps: more than needed to pass two loads, even with others before them."""


def scalar_core(stick: TrialStick) -> Values:
    """Run a program that computes, compares and sends an interrupt, then read the registers."""
    program = _computing()

    def run_it(link: UsbLink) -> tuple[Event, CoreState]:
        link.send(program)
        return link.read_event(), read_core(link)

    event, core = stick.tpu.with_link(run_it)
    found = {
        "s1": core.registers[1],
        "s2": core.registers[2],
        "s4": core.registers[4],
        "s5": core.registers[5],
    }
    values = {
        **found,
        "predicates": core.predicates,
        "program_counter": core.program_counter,
        "run_status": core.status_name,
    }
    stick.check_unharmed("a program of the scalar core")
    if event.tag is not Tag.INTERRUPT_0:
        raise Refuted(f"it ended with {event.tag.name}", values)
    if {name: value & _MASK for name, value in found.items()} != {"s1": 40, "s2": 42, "s4": 7, "s5": 0}:
        raise Refuted("the registers hold other values than the program gave them", values)
    if [bool(each) for each in core.predicates] != [number == 3 for number in range(8)]:
        raise Refuted("p3 alone should be set; the predicates read as something else", values)
    return values


def single_stepping(stick: TrialStick) -> Values:
    """Halt the core, send a program, step through two loads, then let it run to its interrupt."""

    def step_through(link: UsbLink) -> list[CoreState]:
        halt(link)
        states = [read_core(link)]
        link.send(_loading({number: states[0].registers[number] + 1 & _MASK for number in (1, 2)}))
        while len(states) <= _MOST_STEPS and states[-1].registers[2] == states[0].registers[2]:
            single_step(link)
            states.append(read_core(link))
        run(link)
        link.read_event()
        return states

    states = stick.tpu.with_link(step_through)
    changed = [
        [number for number in (1, 2) if before.registers[number] != after.registers[number]]
        for before, after in pairwise(states)
    ]
    values = {
        "changed_registers": changed,
        "program_counters": [each.program_counter for each in states],
        "run_statuses": [each.status_name for each in states],
    }
    stick.check_unharmed("single-stepping")
    if [each for each in changed if each] != [[1], [2]]:
        raise Refuted("a step should load one register, first s1, then s2", values)
    return values


def _computing() -> Frame:
    builder = ProgramBuilder()
    builder.move(1, 40)
    builder.append(_word(ScalarOp.ADD, 2, 1, 2))
    for register in (4, 5):
        builder.move(register, 0)
    for predicate in range(8):
        builder.append(_word(ScalarOp.GT, predicate, 2, 41 if predicate == 3 else 42))
    builder.append(_word(ScalarOp.MOV, 4, 0, 7, gate=1, pred_reg=3, yes_pred=1))
    builder.append(_word(ScalarOp.MOV, 5, 0, 7, gate=1, pred_reg=3))
    return _interrupting(builder)


def _loading(registers: dict[int, int]) -> Frame:
    builder = ProgramBuilder()
    for register, value in registers.items():
        builder.move(register, value)
    return _interrupting(builder)


def _interrupting(builder: ProgramBuilder) -> Frame:
    for register, value in zip(_DESCRIPTOR, (0, 0, 0, Tag.INTERRUPT_0), strict=True):
        builder.move(register, value)
    builder.transfer(_DESCRIPTOR)
    return Frame(Tag.INSTRUCTIONS, builder.build())


def _word(operation: ScalarOp, x: int, y: int, value: int, **fields: int) -> Instruction:
    return Instruction(enable_scalar=1, s_op=operation | IMMEDIATE, s_x=x, s_y=y, imm_scalar=value, **fields)
