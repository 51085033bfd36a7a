"""What a USB backend may raise at any point, what becomes of the handle, and forked processes."""

from __future__ import annotations

import errno
import gc
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from usb.core import USBError

from edgetpu_driver import CompiledModel, CpuEngine, EdgeTpu, ProgramRunner, VirtualEdgeTpu
from edgetpu_driver.errors import DeviceBusyError, DeviceError, DeviceLostError, TransferError
from edgetpu_driver.usb.connector import Phase
from edgetpu_driver.usb.discovery import find_sticks
from edgetpu_driver.usb.handles import CLOSE_ATTEMPTS, close_handle, close_left_open, is_left_open
from edgetpu_driver.usb.link import UsbLink
from edgetpu_driver.virtual.graph_packer import pack
from testdata.devices.virtual_backend import FIRMWARE

INPUT = np.full((1, 16), 200, np.uint8)


class Misbehaving(VirtualEdgeTpu):
    """A virtual stick whose backend raises what a test asks for, and counts who talks to it."""

    def __init__(self, serial: str = "") -> None:
        super().__init__(serial=serial)
        self.raises: dict[str, list[BaseException]] = {}
        """By the name of the method: raised by its next calls, one each."""

    def _maybe_raise(self, method: str) -> None:
        if self.raises.get(method):
            raise self.raises[method].pop(0)

    def open_device(self, dev: Any) -> Any:
        self._maybe_raise("open_device")
        return super().open_device(dev)

    def close_device(self, dev_handle: Any) -> None:
        self._maybe_raise("close_device")
        super().close_device(dev_handle)

    def release_interface(self, dev_handle: Any, intf: int) -> None:
        self._maybe_raise("release_interface")
        super().release_interface(dev_handle, intf)

    def enumerate_devices(self) -> Any:
        self._maybe_raise("enumerate_devices")
        return super().enumerate_devices()

    def ctrl_transfer(self, *arguments: Any) -> int:
        self._maybe_raise("ctrl_transfer")
        return super().ctrl_transfer(*arguments)

    def bulk_write(self, *arguments: Any) -> int:
        self._maybe_raise("bulk_write")
        return super().bulk_write(*arguments)

    def bulk_read(self, *arguments: Any) -> int:
        self._maybe_raise("bulk_read")
        return super().bulk_read(*arguments)


class Robot:
    """A misbehaving stick, a model on it, and what the model gives."""

    def __init__(self, graph: bytes) -> None:
        self.model = CompiledModel.parse(pack(graph, name="dense"), "dense")
        self.expected: NDArray[Any] = CpuEngine(graph).run({"x": INPUT})["y"]
        self.stick = Misbehaving()
        self.stick.register_model(self.model, graph)
        self.tpu = EdgeTpu.open(usb_backend=self.stick)

    def is_right(self) -> bool:
        return bool(np.array_equal(self.tpu.run(self.model, {"x": INPUT})["y"], self.expected))


@pytest.fixture
def robot(make_dense: Callable[[int], bytes]) -> Robot:
    return Robot(make_dense(1))


FAULTS = (
    USBError("no", errno=errno.EACCES),
    USBError("no", errno=errno.EBUSY),
    OSError(5, "no"),
    ValueError("no"),
    NotImplementedError("no"),
    MemoryError(),
)


@pytest.mark.parametrize("method", ["bulk_write", "bulk_read"])
@pytest.mark.parametrize("fault", FAULTS, ids=repr)
def test_whatever_a_transfer_raises_is_recovered_from(robot: Robot, method: str, fault: Exception) -> None:
    assert robot.is_right()
    robot.stick.raises[method] = [fault]
    assert robot.is_right()
    assert robot.tpu.info().retries == 1


@pytest.mark.parametrize("fault", FAULTS, ids=repr)
def test_whatever_control_transfers_raise_is_a_device_error(robot: Robot, fault: Exception) -> None:
    robot.stick.raises["ctrl_transfer"] = [fault] * 10_000
    with pytest.raises(DeviceError):
        robot.tpu.info()
    robot.stick.raises.clear()
    assert robot.is_right()


@pytest.mark.parametrize("method", ["enumerate_devices", "open_device"])
@pytest.mark.parametrize("fault", FAULTS, ids=repr)
def test_whatever_the_search_for_sticks_raises_is_a_device_error(method: str, fault: Exception) -> None:
    stick = Misbehaving()
    stick.raises[method] = [fault] * 10
    with pytest.raises(DeviceError):
        EdgeTpu.open(usb_backend=stick)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EBUSY])
@pytest.mark.parametrize("boot_mode", [False, True])
def test_a_stick_that_appears_before_its_permissions_is_opened_again(boot_mode: bool, number: int) -> None:
    class AheadOfUdev(VirtualEdgeTpu):
        was_reset = False

        def reset_device(self, dev_handle: Any) -> None:
            self.was_reset = True
            super().reset_device(dev_handle)

        def open_device(self, dev: Any) -> Any:
            if self.was_reset:
                self.was_reset = False
                raise USBError("no", errno=number)
            return super().open_device(dev)

    EdgeTpu.open(AheadOfUdev(boot_mode=boot_mode), firmware=FIRMWARE).close()


def test_a_refusal_in_the_middle_of_a_transfer_does_not_advise_to_install_the_udev_rule(robot: Robot) -> None:
    sticks = find_sticks(robot.stick)
    robot.tpu.close()
    link = UsbLink(robot.stick, sticks[0])
    robot.stick.raises["bulk_read"] = [USBError("Access denied", errno=errno.EACCES)]
    with pytest.raises(TransferError, match="the system withdrew its access to the open stick") as raised:
        link.read_event()
    assert "udev" not in str(raised.value)
    link.close()


@pytest.mark.parametrize("fault", [USBError("io", errno=errno.EIO), OSError(5, "io"), ValueError("io")])
def test_a_stick_that_cannot_be_released_at_once_is_not_lost(robot: Robot, fault: Exception) -> None:
    robot.stick.raises = {"bulk_read": [fault], "release_interface": [fault], "close_device": [fault]}
    assert robot.is_right()
    robot.tpu.close()
    robot.tpu = EdgeTpu.open(usb_backend=robot.stick)
    assert robot.is_right()


def test_a_handle_that_stays_open_is_closed_before_the_next_one_is_opened(robot: Robot) -> None:
    failure = USBError("io", errno=errno.EIO)
    robot.stick.raises = {"release_interface": [failure], "close_device": [failure] * CLOSE_ATTEMPTS}
    robot.tpu.close()
    robot.tpu = EdgeTpu.open(usb_backend=robot.stick)
    assert robot.is_right()


def test_a_handle_that_cannot_be_closed_is_not_blamed_on_another_process(robot: Robot) -> None:
    failure = USBError("io", errno=errno.EIO)
    robot.stick.raises = {"release_interface": [failure] * 100, "close_device": [failure] * 100}
    robot.tpu.close()
    with pytest.raises(DeviceBusyError, match="this process could not close the stick after a fault"):
        EdgeTpu.open(usb_backend=robot.stick)


def test_handles_that_two_sticks_cannot_close_at_the_same_time_are_both_kept() -> None:
    other = ["second"]

    class Bus:
        """Closes nothing; the second stick is to be closed while the first is tried again."""

        def release_interface(self, _handle: str, _interface: int) -> None: ...

        def close_device(self, handle: str) -> None:
            if is_retried and handle == "first" and other:
                close_handle(self, other.pop(), 0, "2-2")
            raise USBError("io", errno=errno.EIO)

    bus, is_retried = Bus(), False
    close_handle(bus, "first", 0, "2-1")
    is_retried = True
    close_left_open(bus)
    assert [is_left_open(bus, path) for path in ("2-1", "2-2")] == [True, True]


def test_an_interrupt_while_the_serial_number_is_read_leaves_no_handle_open() -> None:
    stick = Misbehaving(serial="7")

    def interrupt(phase: Phase, _bus_path: str) -> None:
        if phase is Phase.STARTING:
            stick.raises = {"ctrl_transfer": [KeyboardInterrupt()]}

    with pytest.raises(KeyboardInterrupt):
        EdgeTpu.open(stick, serial="7", on_phase=interrupt)
    EdgeTpu.open(stick).close()


def test_an_interrupt_while_a_stick_is_released_leaves_no_handle_open(robot: Robot) -> None:
    robot.stick.raises = {"release_interface": [KeyboardInterrupt()]}
    with pytest.raises(KeyboardInterrupt):
        robot.tpu.close()
    robot.tpu = EdgeTpu.open(usb_backend=robot.stick)
    assert robot.is_right()


def _in_child(work: Callable[[], object]) -> int:
    """Run `work` in a forked process; its exit status, 100 if the work raised DeviceLostError."""
    gc.collect()  # finalisers of what is left of earlier tests may need threads that the child lacks
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        except DeviceLostError:
            status = 100
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class TestForkedProcesses:
    def test_one_that_collects_the_object_says_nothing_to_the_stick(self, robot: Robot) -> None:
        def collect() -> None:
            robot.stick.raises = {"ctrl_transfer": [ValueError()], "close_device": [ValueError()]}
            del robot.tpu
            gc.collect()
            assert [len(each) for each in robot.stick.raises.values()] == [1, 1]

        assert _in_child(collect) == 0
        assert robot.is_right()

    def test_one_that_closes_it_says_nothing_to_the_stick(self, robot: Robot) -> None:
        def close() -> None:
            robot.stick.raises = {"ctrl_transfer": [ValueError()], "close_device": [ValueError()]}
            robot.tpu.close()
            assert [len(each) for each in robot.stick.raises.values()] == [1, 1]

        assert _in_child(close) == 0
        assert robot.is_right()

    def test_one_that_uses_it_is_refused(self, robot: Robot) -> None:
        assert _in_child(robot.is_right) == 100
        assert robot.is_right()

    def test_one_that_was_forked_during_a_call_does_not_wait_for_it(self, robot: Robot) -> None:
        with robot.tpu._session.lock:
            assert _in_child(robot.tpu.close) == 0

    def test_one_that_closes_a_program_runner_says_nothing_to_the_stick(self) -> None:
        stick = Misbehaving()
        runner = ProgramRunner.open(stick)

        def close() -> None:
            stick.raises = {"enumerate_devices": [ValueError()], "close_device": [ValueError()]}
            runner.close()
            assert [len(each) for each in stick.raises.values()] == [1, 1]

        assert _in_child(close) == 0
        runner.close()

    def test_one_that_uses_a_program_runner_is_refused(self) -> None:
        with ProgramRunner.open(Misbehaving()) as runner:
            assert _in_child(runner.core) == 100

    def test_one_that_was_forked_during_a_program_does_not_wait_for_it(self) -> None:
        with ProgramRunner.open(Misbehaving()) as runner, runner._link.lock:
            assert _in_child(runner.close) == 0
