"""Programs of users on a stick, which can be used afterwards whatever happened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np
import pytest

from edgetpu_driver import EdgeTpu, ProgramRunner, VirtualEdgeTpu
from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.darwinn.instructions.instruction_word import Instruction
from edgetpu_driver.darwinn.instructions.instruction_word_fields import IMMEDIATE, ScalarOp
from edgetpu_driver.darwinn.instructions.program_frame import ProgramBuilder
from edgetpu_driver.errors import (
    DeviceBusyError,
    DeviceError,
    DeviceLostError,
    InputError,
    ModelFormatError,
    ProtocolError,
    TransferTimeoutError,
)
from edgetpu_driver.stick.core_debugging import RunStatus
from edgetpu_driver.usb.framing import Event, Tag
from edgetpu_driver.usb.registers import POWER_STATE, Register
from edgetpu_driver.virtual.fault_injection import Fault, Transfer

ASLEEP = 2


@pytest.fixture
def stick() -> VirtualEdgeTpu:
    return VirtualEdgeTpu()


@pytest.fixture
def runner(stick: VirtualEdgeTpu) -> Iterator[ProgramRunner]:
    with ProgramRunner.open(stick) as runner:
        yield runner


def adding(value: int, *, interrupt: bool = True, undocumented: bool = False) -> bytes:
    """A program that adds a number to s1 and says that it is done."""
    builder = ProgramBuilder()
    builder.append(
        Instruction(enable_scalar=1, s_op=ScalarOp.ADD | IMMEDIATE, s_x=1, s_y=1, imm_scalar=value)
    )
    if undocumented:
        builder.append(Instruction(enable_scalar=1, v_op=3))
    if interrupt:
        builder.move(9, 4)
        builder.transfer((0, 0, 0, 9))
    return builder.build()


@pytest.fixture
def matrix(make_dense: Callable[[int], bytes]) -> CompiledModel:
    from edgetpu_driver.toolchain.dense_compiler import compile_dense

    return CompiledModel.parse(compile_dense(make_dense(3)).file)


def upload(runner: ProgramRunner, model: CompiledModel) -> None:
    assert model.caching is not None
    result = runner.run(model.caching.bitstreams[0].data, parameters=bytes(model.caching.parameters))
    assert [event.tag for event in result.events] == [Tag.INTERRUPT_0]


def test_a_program_gives_its_events_and_the_core(runner: ProgramRunner) -> None:
    result = runner.run(adding(5))
    assert result.events == (Event(0, 0, Tag.INTERRUPT_0),)
    assert result.output == b""
    assert result.core.registers[:10] == (0, 5, 0, 0, 0, 0, 0, 0, 0, 4)
    assert result.core.predicates == (0,) * 8
    assert len(result.core.registers) == 32
    assert runner.run(adding(6)).core.registers[1] == 11


def test_both_programs_of_a_matrix_give_what_the_driver_does(
    stick: VirtualEdgeTpu, matrix: CompiledModel
) -> None:
    x = np.arange(16, dtype=np.uint8).reshape(1, 16)
    with EdgeTpu.open(stick) as tpu:
        expected = tpu.run(matrix, {"x": x})["y"]
    size = matrix.execution.inputs[0].size_bytes
    with ProgramRunner.open(stick) as runner:
        upload(runner, matrix)
        padded = x.tobytes().ljust(size, b"\x80")
        result = runner.run(matrix.execution.bitstreams[0].data, inputs=[padded])
    assert len(result.output) == size
    assert result.output[: expected.size] == expected.tobytes()


def test_stepping_shows_each_instruction(runner: ProgramRunner) -> None:
    start = runner.load(adding(3))
    assert (start.status_name, start.program_counter) == ("HALTED", 0)
    states = [runner.step() for _ in range(3)]
    assert [state.program_counter for state in states] == [1, 2, 3]
    assert [state.registers[1] for state in states] == [0, 3, 3]
    runner.resume()
    assert runner.read_event().tag is Tag.INTERRUPT_0
    assert runner.halt().run_status == RunStatus.HALTED


def test_data_that_come_before_they_are_asked_for_wait(runner: ProgramRunner, matrix: CompiledModel) -> None:
    assert matrix.caching is not None
    runner.load(matrix.caching.bitstreams[0].data)
    runner.send(parameters=bytes(matrix.caching.parameters))
    runner.resume()
    assert runner.read_event().tag is Tag.INTERRUPT_0


def test_waiting_ends_in_time_and_the_next_call_finds_a_fresh_stick(
    stick: VirtualEdgeTpu, matrix: CompiledModel
) -> None:
    with ProgramRunner.open(stick, timeout=0.5) as runner:
        runner.run(adding(5))
        begin = stick.clock.monotonic()
        with pytest.raises(TransferTimeoutError) as caught:
            runner.run(matrix.execution.bitstreams[0].data)
        assert stick.clock.monotonic() - begin < 1.0
        assert str(caught.value).startswith(
            "no answer within 0.5 s waiting for 256 bytes of output; the core"
        )
        assert runner.run(adding(1)).core.registers[1] == 1


def test_an_event_that_does_not_come_is_named(runner: ProgramRunner) -> None:
    with pytest.raises(
        TransferTimeoutError, match="no answer within 6 s waiting for an event; the core is at"
    ):
        runner.run(adding(1), events=2)


def test_a_virtual_stick_says_why_it_hangs(runner: ProgramRunner) -> None:
    reason = "the virtual stick hangs: instruction 2: what v_op 0x3 with v_offset 0 does is not established"
    with pytest.raises(ProtocolError, match=reason):
        runner.run(adding(1, interrupt=False, undocumented=True))
    with pytest.raises(TransferTimeoutError, match=reason):
        runner.run(adding(1, undocumented=True))


def asleep(stick: VirtualEdgeTpu) -> bool:
    registers = stick._chip._registers
    return POWER_STATE.of(registers[Register.scu_ctrl_3]) == ASLEEP


class Stop(BaseException):
    """Any other end."""


@pytest.mark.parametrize("failure", [None, KeyboardInterrupt, Stop])
def test_the_stick_is_fit_for_the_next_user(
    failure: type[BaseException] | None, stick: VirtualEdgeTpu, matrix: CompiledModel
) -> None:
    x = {"x": np.zeros((1, 16), np.uint8)}
    with EdgeTpu.open(stick) as tpu:
        expected = tpu.run(matrix, x)["y"]
    with suppress(KeyboardInterrupt, Stop), ProgramRunner.open(stick) as runner:
        with pytest.raises(DeviceError):
            runner.run(adding(1, undocumented=True))
        if failure is not None:
            raise failure
    assert stick.hang_reason == ""
    assert asleep(stick)
    with EdgeTpu.open(stick) as tpu:
        np.testing.assert_array_equal(tpu.run(matrix, x)["y"], expected)
        assert tpu.info().recoveries == 0


def test_an_interrupted_transfer_is_followed_by_a_reset(
    stick: VirtualEdgeTpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ProgramRunner.open(stick) as runner:
        runner.run(adding(7))

        def interrupted(*_: object) -> int:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(stick, "bulk_read", interrupted)
            with pytest.raises(KeyboardInterrupt):
                runner.run(adding(1))
        assert runner.core().registers[1] == 0


def test_the_stick_is_in_exclusive_use_meanwhile(stick: VirtualEdgeTpu, runner: ProgramRunner) -> None:
    assert runner.run(adding(1)).events
    with pytest.raises(DeviceBusyError):
        EdgeTpu.open(stick)


def test_a_stick_that_does_not_come_back_is_named(stick: VirtualEdgeTpu) -> None:
    runner = ProgramRunner.open(stick)
    stick.unplug()
    with pytest.raises(DeviceLostError, match="unplug it and plug it in again"):
        runner.close()
    runner.close()
    with pytest.raises(DeviceLostError, match="this ProgramRunner is closed"):
        runner.core()


def test_the_failure_of_a_program_is_not_hidden_by_that_of_the_reset(stick: VirtualEdgeTpu) -> None:
    def run_and_lose_the_stick() -> None:
        with ProgramRunner.open(stick) as runner:
            try:
                runner.run(adding(1, undocumented=True))
            finally:
                stick.unplug()

    with pytest.raises(TransferTimeoutError):
        run_and_lose_the_stick()


def test_a_fault_of_the_chip_is_reported(stick: VirtualEdgeTpu, runner: ProgramRunner) -> None:
    stick.fail(Fault.CHIP_FAULT, Transfer.EVENT)
    with pytest.raises(DeviceError, match="the chip stopped and reports FATAL_ERROR"):
        runner.run(adding(1))
    assert runner.run(adding(1)).core.registers[1] == 1


@pytest.mark.parametrize("program", [b"", b"x", bytes(15), bytes(17)])
def test_anything_but_a_program_is_refused(program: bytes, runner: ProgramRunner) -> None:
    with pytest.raises(ModelFormatError, match="expected a program of 16-byte instructions"):
        runner.run(program)
    with pytest.raises(ModelFormatError):
        runner.load(program)


def test_values_that_are_not_numbers_are_refused(runner: ProgramRunner) -> None:
    with pytest.raises(InputError, match="bytes of output; got -1"):
        runner.run(adding(1), output_bytes=-1)
    with pytest.raises(InputError, match="events; got -2"):
        runner.run(adding(1), events=-2)
    with pytest.raises(InputError, match="expected a number of bytes; got 0"):
        runner.read_output(0)
    with pytest.raises(InputError, match="expected a timeout"):
        ProgramRunner.open(VirtualEdgeTpu(), timeout=float("nan"))


def test_a_program_that_does_not_tell_what_it_sends_needs_the_numbers(runner: ProgramRunner) -> None:
    builder = ProgramBuilder()
    builder.append(Instruction(enable_scalar=1, s_op=0x34))
    with pytest.raises(InputError, match="say how much output and how many events to read; instruction 1"):
        runner.run(builder.build())
    with pytest.raises(ProtocolError, match="the virtual stick hangs: instruction 1"):
        runner.run(builder.build(), output_bytes=0, events=0)
