"""The executor that keeps its wait set: how a spin ends, and which executor is chosen."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")

from rclpy.executors import ExternalShutdownException
from rclpy.task import Future

from edgetpu_driver.node_kit.executor import executor as executor_module
from edgetpu_driver.node_kit.executor.callback_guard import GuardedExecutor
from edgetpu_driver.node_kit.executor.executor import (
    StaticSingleThreadedExecutor,
    make_executor,
    missing_names,
)
from edgetpu_driver.node_kit.fatal_error import FatalError
from testdata.running_nodes.node_in_executor import Bench
from testdata.timeouts import PATIENCE


def test_it_can_spin_until_a_future_is_done(bench: Bench) -> None:
    bench.settle()
    future = Future()
    fired: list[bool] = []

    def finish() -> None:
        bench.node.create_timer(0.05, lambda: fired.append(True))
        future.set_result(7)

    bench.executor.create_task(finish)
    bench.executor.spin_until_future_complete(future, PATIENCE)
    assert future.result() == 7
    bench.executor.spin_until_future_complete(Future(), 0.001)
    bench.spin_until(lambda: bool(fired))


def test_a_wait_ends_after_its_time(bench: Bench) -> None:
    bench.settle()
    seconds = []
    for _ in range(5):  # on a busy machine one of them may be late
        start = time.monotonic()
        bench.executor.spin_once(0.05)
        seconds.append(time.monotonic() - start)
    assert 0.04 < min(seconds) < 1.0


def test_the_end_of_the_context_is_an_external_shutdown(bench: Bench) -> None:
    bench.settle()
    bench.context.try_shutdown()
    with pytest.raises(ExternalShutdownException):
        bench.executor.spin_once(1.0)


@pytest.mark.parametrize("suspended", [False, True])
def test_another_thread_can_shut_it_down(bench: Bench, suspended: bool) -> None:
    async def wait() -> None:
        await Future()

    if suspended:
        bench.executor.create_task(wait)
    spinning = threading.Thread(target=bench.executor.spin, daemon=True)
    spinning.start()
    time.sleep(0.1)
    bench.executor.shutdown()
    spinning.join(PATIENCE)
    assert not spinning.is_alive()
    bench.executor.spin_once(PATIENCE)  # returns at once


def test_a_callback_can_shut_it_down(bench: Bench) -> None:
    bench.node.create_timer(0.01, bench.executor.shutdown)
    bench.executor.spin()


def test_its_end_ends_suspended_work(bench: Bench) -> None:
    ended: list[str] = []

    async def wait(name: str) -> None:
        try:
            await Future()
        finally:
            ended.append(name)

    bench.executor.create_task(wait, "a")
    bench.settle()
    bench.executor.create_task(wait, "b")
    bench.settle()
    assert not ended
    bench.executor.shutdown()
    assert ended == ["a", "b"]


SPIN = """
import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from edgetpu_driver.node_kit.executor.executor import StaticSingleThreadedExecutor

rclpy.init()
executor = StaticSingleThreadedExecutor()
node = Node("idle")
executor.add_node(node)
executor.spin_once(0.0)
executor.spin_once(0.0)
try:
    print("spins", flush=True)
    executor.spin()
except (KeyboardInterrupt, ExternalShutdownException):
    pass  # spin() returns without an error if the context ends between two waits
print("ended", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_with_rclpy_s_signal_handlers_a_signal_ends_the_wait(number: int) -> None:
    with subprocess.Popen([sys.executable, "-c", SPIN], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "spins\n"
        time.sleep(0.1)
        process.send_signal(number)
        try:
            output, _ = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert output == "ended\n"


@pytest.mark.usefixtures("graph")
class TestTheChoice:
    def test_the_static_executor_is_the_default(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("EDGETPU_EXECUTOR", raising=False)
        assert type(make_executor()) is StaticSingleThreadedExecutor

    def test_rclpys_own_can_be_chosen(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("EDGETPU_EXECUTOR", "rclpy")
        assert type(make_executor()) is GuardedExecutor

    def test_another_name_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("EDGETPU_EXECUTOR", "fast")
        with pytest.raises(FatalError, match="EDGETPU_EXECUTOR: expected static or rclpy; got 'fast'"):
            make_executor()

    def test_rclpys_own_is_used_where_a_private_name_is_missing(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("EDGETPU_EXECUTOR", raising=False)
        monkeypatch.setattr(executor_module, "ADDERS", ("add_nothing",))
        assert missing_names() == ["WaitSet.add_nothing"]
        assert type(make_executor()) is GuardedExecutor
