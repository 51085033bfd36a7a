"""Diagnosis of faults: the chip's own report, and whether draining suffices."""

from __future__ import annotations

import atexit
import gc
import logging
import subprocess
import sys
import threading
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver import CompiledModel, CpuEngine, EdgeTpu, VirtualEdgeTpu
from edgetpu_driver.errors import ChipFaultError, DeviceLostError, TransferLengthError
from edgetpu_driver.stick import final_release
from edgetpu_driver.usb.chip_faults import Interrupt, chip_fault, drain, take_interrupts
from edgetpu_driver.usb.discovery import find_sticks
from edgetpu_driver.usb.link import UsbLink
from edgetpu_driver.usb.registers import Register
from edgetpu_driver.virtual.fault_injection import Fault, Transfer
from edgetpu_driver.virtual.graph_packer import pack

X = np.arange(16, dtype=np.uint8).reshape(1, 16)


@pytest.fixture
def graph(make_dense: Callable[[int], bytes]) -> bytes:
    return make_dense(1)


@pytest.fixture
def model(graph: bytes) -> CompiledModel:
    return CompiledModel.parse(pack(graph, name="dense"))


@pytest.fixture
def stick(graph: bytes, model: CompiledModel) -> VirtualEdgeTpu:
    return VirtualEdgeTpu().register_model(model, graph)


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Callable[[], list[tuple[int, str]]]:
    """Levels and texts of what the test logs, without what becomes of sticks that earlier tests dropped."""
    gc.collect()
    ours = threading.get_ident()
    return lambda: [(each.levelno, each.getMessage()) for each in caplog.records if each.thread == ours]


def run(tpu: EdgeTpu, model: CompiledModel) -> NDArray[np.uint8]:
    return tpu.run(model, {"x": X})["y"]


def test_a_repeated_fatal_error_is_raised_with_its_registers(
    stick: VirtualEdgeTpu, model: CompiledModel
) -> None:
    with EdgeTpu.open(usb_backend=stick) as tpu:
        stick.fail(Fault.CHIP_FAULT, Transfer.BULK_OUT, times=2)
        says = "reports FATAL_ERROR, hib_error_status 0x2, hib_first_error_status 0x2, .* currentPc 0x40"
        with pytest.raises(ChipFaultError, match=says):
            run(tpu, model)


def test_a_fatal_error_is_got_over_by_a_reset(
    stick: VirtualEdgeTpu, model: CompiledModel, graph: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with EdgeTpu.open(usb_backend=stick) as tpu:
        stick.fail(Fault.CHIP_FAULT, Transfer.BULK_OUT)
        np.testing.assert_array_equal(run(tpu, model), CpuEngine(graph).run({"x": X})["y"])
        assert tpu.info().recoveries == 1
    assert "hib_error_status 0x2" in caplog.text


def test_a_fatal_error_between_inferences_is_found_by_the_next_look(
    stick: VirtualEdgeTpu, model: CompiledModel
) -> None:
    with EdgeTpu.open(usb_backend=stick) as tpu:
        loaded = tpu.load(model)
        loaded.run({"x": X})
        stick.fail(Fault.CHIP_FAULT, Transfer.CONTROL)
        assert tpu.info().recoveries == 1
        assert not loaded.resident


def test_error_registers_are_named_even_without_an_interrupt(stick: VirtualEdgeTpu) -> None:
    link = UsbLink(stick, find_sticks(stick)[0])
    link.write_register(Register.Error_ScalarCore, 5)
    assert str(chip_fault(link)) == "the chip stopped and reports Error_ScalarCore 0x5"
    link.close()


def test_a_chip_without_errors_reports_none(stick: VirtualEdgeTpu) -> None:
    link = UsbLink(stick, find_sticks(stick)[0])
    assert chip_fault(link) is None
    assert take_interrupts(link) == Interrupt(0)
    link.close()


def test_a_dead_chip_reports_nothing_without_waiting(stick: VirtualEdgeTpu) -> None:
    link = UsbLink(stick, find_sticks(stick)[0])
    stick.fail(Fault.TIMEOUT, Transfer.CONTROL, times=100)
    before = stick.clock.monotonic()
    assert chip_fault(link) is None
    assert stick.clock.monotonic() - before < 0.2
    link.close()


def test_closing_a_dead_stick_does_not_take_long(
    stick: VirtualEdgeTpu, caplog: pytest.LogCaptureFixture
) -> None:
    tpu = EdgeTpu.open(usb_backend=stick)
    stick.fail(Fault.TIMEOUT, Transfer.CONTROL, times=1000)
    before = stick.clock.monotonic()
    tpu.close()
    assert stick.clock.monotonic() - before < 0.2
    assert "the Edge TPU at 2-1 was not shut down" in caplog.text


def test_a_thermal_warning_is_counted_logged_and_acknowledged(
    stick: VirtualEdgeTpu, model: CompiledModel, caplog: pytest.LogCaptureFixture
) -> None:
    with EdgeTpu.open(usb_backend=stick) as tpu:
        stick.fail(Fault.THERMAL_WARNING, Transfer.BULK_OUT)
        run(tpu, model)
        assert tpu.registers()[Register.top_level_int_3_status] == 1
        assert (tpu.info().thermal_warnings, tpu.info().thermal_warnings) == (1, 1)
        assert (tpu.info().recoveries, tpu.registers()[Register.top_level_int_3_status]) == (0, 0)
    assert "the Edge TPU at 2-1 is hot: 40 degrees Celsius" in caplog.text


def test_an_output_that_is_too_long_is_drained_without_a_reset_or_an_upload(
    stick: VirtualEdgeTpu, model: CompiledModel, graph: bytes
) -> None:
    with EdgeTpu.open(usb_backend=stick) as tpu:
        run(tpu, model)
        stick.fail(Fault.EXTRA_BYTES, Transfer.OUTPUT)
        np.testing.assert_array_equal(run(tpu, model), CpuEngine(graph).run({"x": X})["y"])
        info = tpu.info()
    assert (info.retries, info.recoveries, info.uploads) == (1, 0, 1)


def test_an_end_that_did_not_come_needs_a_reset(stick: VirtualEdgeTpu, model: CompiledModel) -> None:
    with EdgeTpu.open(usb_backend=stick) as tpu:
        run(tpu, model)
        stick.fail(Fault.WRONG_EVENT, Transfer.EVENT)
        run(tpu, model)
        info = tpu.info()
    assert (info.retries, info.recoveries, info.uploads) == (1, 1, 2)


def test_draining_an_idle_chip_finds_no_end_of_a_program(stick: VirtualEdgeTpu) -> None:
    link = UsbLink(stick, find_sticks(stick)[0])
    assert not drain(link)
    link.close()


def test_an_output_that_is_too_long_again_is_reported(stick: VirtualEdgeTpu, model: CompiledModel) -> None:
    with EdgeTpu.open(usb_backend=stick) as tpu:
        stick.fail(Fault.EXTRA_BYTES, Transfer.OUTPUT)
        stick.fail(Fault.EXTRA_BYTES, Transfer.OUTPUT, after=3)  # draining takes two reads
        with pytest.raises(TransferLengthError, match="expected 8 bytes; got at least 16"):
            run(tpu, model)
        run(tpu, model)


def test_no_inference_reads_the_interrupt_endpoint(
    stick: VirtualEdgeTpu, model: CompiledModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    with EdgeTpu.open(usb_backend=stick) as tpu:
        run(tpu, model)
        monkeypatch.setattr(stick, "intr_read", lambda *_: pytest.fail("it was read"))
        run(tpu, model)


def test_a_backend_without_interrupt_transfers_will_do(
    stick: VirtualEdgeTpu, model: CompiledModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object) -> int:
        raise NotImplementedError

    monkeypatch.setattr(stick, "intr_read", missing)
    with EdgeTpu.open(usb_backend=stick) as tpu:
        stick.fail(Fault.STALL, Transfer.OUTPUT)
        run(tpu, model)
        assert tpu.info().recoveries == 1


def test_a_process_that_ends_without_closing_the_stick_puts_it_to_sleep() -> None:
    program = """
import atexit
from edgetpu_driver import EdgeTpu, VirtualEdgeTpu
stick = VirtualEdgeTpu()
atexit.register(lambda: print("asleep" if stick._chip._registers.asleep else "awake"))
tpu = EdgeTpu.open(usb_backend=stick)
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (result.stdout, result.stderr) == ("asleep\n", "")


def test_sticks_that_were_closed_or_dropped_leave_nothing_to_do_at_exit(stick: VirtualEdgeTpu) -> None:
    EdgeTpu.open(usb_backend=stick).close()
    gc.collect()  # what earlier tests left
    callbacks, unreleased = atexit._ncallbacks(), set(final_release._unreleased)
    for _ in range(3):
        EdgeTpu.open(usb_backend=stick).close()
        EdgeTpu.open(usb_backend=stick)
        gc.collect()
    assert atexit._ncallbacks() == callbacks
    assert set(final_release._unreleased) <= unreleased


def test_one_that_cannot_be_released_at_exit_keeps_no_other_from_it(
    monkeypatch: pytest.MonkeyPatch, logged: Callable[[], list[tuple[int, str]]]
) -> None:
    def fail() -> None:
        raise DeviceLostError("the stick did not come up")

    monkeypatch.setattr(final_release, "_unreleased", {})
    owners: tuple[set[int], set[int]] = set(), set()
    released: list[str] = []
    final_release.FinalRelease(owners[0], lambda: released.append("first"))
    final_release.FinalRelease(owners[1], fail)
    final_release._release_all()
    assert (released, logged()) == (["first"], [(logging.WARNING, "the stick did not come up")])


def test_a_recovered_fault_is_a_warning_in_the_log(
    stick: VirtualEdgeTpu, model: CompiledModel, logged: Callable[[], list[tuple[int, str]]]
) -> None:
    with EdgeTpu.open(usb_backend=stick) as tpu:
        stick.fail(Fault.STALL, Transfer.OUTPUT)
        run(tpu, model)
    ((level, text),) = logged()
    assert level == logging.WARNING
    assert text.startswith("the Edge TPU failed, trying again: reading 1024 bytes from endpoint 0x81")
