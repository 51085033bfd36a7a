"""Every fault in every phase, followed by forty correct inferences from one thread and from four.

Faults apply where they can occur: a wrong event needs an event, a bit error in a register needs a control
transfer. Waits are simulated. A fault ends when its transfer has timed out or the stick is on the bus again;
the two seconds for recovery start then.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver import CompiledModel, CpuEngine, EdgeTpu, VirtualEdgeTpu
from edgetpu_driver.errors import DeviceError
from edgetpu_driver.usb.link import TIMEOUT_MS
from edgetpu_driver.virtual import usb_port
from edgetpu_driver.virtual.fault_injection import SLOW_SECONDS, Fault, Transfer, can_strike
from edgetpu_driver.virtual.graph_packer import pack
from edgetpu_driver.virtual.simulated_clock import SimulatedClock
from testdata.devices.fake_timers import Clock
from testdata.devices.virtual_backend import FIRMWARE

INFERENCES = 40
THREADS = 4
BACK_AT_WORK_SECONDS = 2.0

# The transfers of a phase; the number counts the successful ones of that kind before.
PHASES: dict[str, tuple[tuple[Transfer, int], ...]] = {
    "bring-up": ((Transfer.CONTROL, 20), (Transfer.RESET, 0)),
    "upload": ((Transfer.BULK_OUT, 1), (Transfer.EVENT, 0)),
    "input": ((Transfer.BULK_OUT, 1),),
    "output": ((Transfer.OUTPUT, 0),),
    "event": ((Transfer.EVENT, 0),),
    "idle": ((Transfer.CONTROL, 0),),
}
MATRIX = [
    pytest.param(fault, phase, *strike, id=f"{fault.name}-{phase}-{strike[0].name}")
    for phase, strikes in PHASES.items()
    for fault in Fault
    for strike in strikes
    if can_strike(fault, strike[0])
]


class Watch(SimulatedClock):
    """Measures the time spent in transfers that timed out."""

    def __init__(self) -> None:
        super().__init__()
        self.timed_out = 0.0

    def sleep(self, seconds: float) -> None:
        if seconds == TIMEOUT_MS / 1000:
            self.timed_out += seconds
        super().sleep(seconds)


@pytest.fixture(autouse=True)
def _no_real_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only simulated waits pass while a stick is about to appear, however long this process stands still."""
    monkeypatch.setattr(usb_port, "time", Clock())


@dataclass(frozen=True)
class Task:
    """A model with inputs and their expected outputs."""

    model: CompiledModel
    graph: bytes
    inputs: list[NDArray[np.uint8]]
    expected: list[NDArray[Any]]


@pytest.fixture(scope="module")
def task() -> Callable[[Callable[[int], bytes]], Task]:
    @cache
    def make(make_dense: Callable[[int], bytes]) -> Task:
        graph = make_dense(1)
        inputs = list(np.random.default_rng(1).integers(0, 256, (32, 1, 16), np.uint8))
        cpu = CpuEngine(graph)
        expected = [cpu.run({"x": x})["y"] for x in inputs]
        return Task(CompiledModel.parse(pack(graph, name="dense")), graph, inputs, expected)

    return make


class Robot:
    """A user of a stick who retries after errors and plugs the stick in when it is gone."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.stick = VirtualEdgeTpu().register_model(task.model, task.graph)
        self.stick.clock = self.watch = Watch()
        self.wrong: list[int] = []
        self._lock = threading.Lock()

    def open(self) -> EdgeTpu:
        return self.persistently(lambda: EdgeTpu.open(usb_backend=self.stick, firmware=FIRMWARE))

    def infer(self, tpu: EdgeTpu, number: int) -> None:
        case = number % len(self.task.inputs)
        x = self.task.inputs[case]
        y = self.persistently(lambda: tpu.run(self.task.model, {"x": x})["y"])
        if not np.array_equal(y, self.task.expected[case]):
            self.wrong.append(number)

    def persistently(self, work: Callable[[], Any]) -> Any:
        for _ in range(40):
            try:
                return work()
            except DeviceError:  # noqa: PERF203 - that is what trying again is
                with self._lock:
                    self.see_to_the_stick()
        pytest.fail("the stick did not come back to work")

    def see_to_the_stick(self) -> None:
        if self.stick.is_plugged:
            self.watch.sleep(0.1)
        else:
            self.stick.plug()


def disturb(robot: Robot, fault: Fault, phase: str, on: Transfer, after: int) -> EdgeTpu:
    """Open the stick, inject the fault in the phase, stop after the first correct result."""
    if phase == "bring-up":
        robot.stick.fail(fault, on, after)
    start, earlier = robot.watch.monotonic(), robot.watch.timed_out
    tpu = robot.open()
    if phase != "bring-up":
        if phase != "upload":
            robot.infer(tpu, 0)
        robot.stick.fail(fault, on, after)
        start, earlier = robot.watch.monotonic(), robot.watch.timed_out
    if phase == "idle":
        robot.persistently(tpu.info)
    robot.infer(tpu, 1)
    assert not robot.stick.faults.waiting
    lost = robot.watch.monotonic() - start - (robot.watch.timed_out - earlier)
    assert lost < BACK_AT_WORK_SECONDS + (SLOW_SECONDS if fault is Fault.SLOW_REENUMERATION else 0)
    return tpu


@pytest.mark.parametrize(("fault", "phase", "on", "after"), MATRIX)
def test_a_fault_spoils_no_result_and_costs_two_seconds_at_most(
    task: Any, make_dense: Any, fault: Fault, phase: str, on: Transfer, after: int
) -> None:
    robot = Robot(task(make_dense))
    with disturb(robot, fault, phase, on, after) as tpu:
        recoveries = tpu.info().recoveries
        for number in range(INFERENCES):
            robot.infer(tpu, number)
        assert tpu.info().recoveries == recoveries
    assert robot.wrong == []


@pytest.mark.parametrize(("fault", "phase", "on", "after"), MATRIX)
def test_nor_does_it_to_four_callers_at_once(
    task: Any, make_dense: Any, fault: Fault, phase: str, on: Transfer, after: int
) -> None:
    robot = Robot(task(make_dense))
    if phase == "bring-up":
        robot.stick.fail(fault, on, after)

    def work(first: int) -> None:
        for number in range(first, first + INFERENCES // THREADS):
            robot.infer(tpu, number)
            if number % 20 == 10:
                robot.persistently(tpu.info)

    with robot.open() as tpu:
        if phase not in ("bring-up", "upload"):
            robot.infer(tpu, 0)
        if phase != "bring-up":
            robot.stick.fail(fault, on, after)
        threads = [threading.Thread(target=work, args=(first,)) for first in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not robot.stick.faults.waiting
        assert tpu.info().inferences >= INFERENCES
    assert robot.wrong == []


@pytest.mark.parametrize("fault", [Fault.BIT_ERROR, Fault.UNPLUG, Fault.STALL])
def test_a_fault_at_any_control_transfer_of_bring_up_is_survived(
    task: Any, make_dense: Any, fault: Fault
) -> None:
    struck = 0
    for after in range(100):
        robot = Robot(task(make_dense))
        robot.stick.fail(fault, Transfer.CONTROL, after)
        with robot.open() as tpu:
            if robot.stick.faults.waiting:
                break
            struck += 1
            for number in range(4):
                robot.infer(tpu, number)
        assert robot.wrong == []
    assert struck == 56
