"""Runs a camera process and one or two graphs of nodes, and counts their results for the camera's images."""

from __future__ import annotations

import importlib
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from bench.compared_nodes import MODELS, result_topic
from edgetpu_driver.node_kit.executor.held_interrupts import held_interrupts

_ROOT = Path(__file__).resolve().parents[1]
_START_TIMEOUT = 30.0  # s until every node has answered
_SETTLE_SECONDS = 1.0
"""Time after the last image within which all results arrive, s."""
_RESULT_QUEUE = 5000
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_STAMP = struct.Struct("<4xiI")
"""Stamp of the header at the start of a serialised message: encoding (skipped), seconds, nanoseconds."""


@dataclass(frozen=True)
class Turn:
    """Figures of one graph for the images of one turn."""

    published: int
    """Number of images from the camera."""
    lost: int
    """Number of images without a result, for the node that lost most of them."""
    p99: float
    """99th percentile of the slowest node's delays from stamp to result, s; infinite without results."""
    cpu_seconds: float
    """Processor time of the graph's processes, s."""


class Graph:
    """The processes of a graph in its own namespace, and the delays of its results."""

    def __init__(
        self, namespace: str, commands: Sequence[Sequence[str]], names: Collection[str] = MODELS
    ) -> None:
        """`commands`: one per process; the nodes `names` subscribe to "image" in the namespace."""
        self.namespace = namespace
        self.delays: dict[str, list[float]] = {name: [] for name in names}
        """Delays from stamp to result, s, by node."""
        ros = ("--ros-args", "-r", f"__ns:={namespace}", "--log-level", "error")
        self._processes = [_start([*command, *ros]) for command in commands]

    @property
    def pids(self) -> list[int]:
        """Process IDs of the graph."""
        return [process.pid for process in self._processes]

    @property
    def answers(self) -> bool:
        """Whether every node has published a result."""
        return all(self.delays.values())

    def cpu_seconds(self) -> float:
        """User and system time of all processes so far, s."""
        ticks = 0
        for pid in self.pids:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / _TICKS_PER_SECOND

    def stop(self) -> None:
        """Interrupt the processes, and kill those that do not end."""
        for process in reversed(self._processes):  # the driver comes first and has to end last
            process.send_signal(signal.SIGINT)
            _end(process)


class Session:
    """A camera process, and a node here that receives all results; a context manager."""

    def __init__(self) -> None:
        self._graphs: list[Graph] = []
        self._camera = _start([sys.executable, "-m", "bench.camera"], stdout=subprocess.PIPE)

    def __enter__(self) -> Session:
        import rclpy
        from rclpy.executors import SingleThreadedExecutor
        from rclpy.signals import SignalHandlerOptions

        try:
            rclpy.init(signal_handler_options=SignalHandlerOptions.NO)  # KeyboardInterrupt ends it
            self._node = rclpy.create_node("bench")
            self._executor = SingleThreadedExecutor()
            self._executor.add_node(self._node)
            self._read_line()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def start(
        self, namespace: str, commands: Sequence[Sequence[str]], names: Collection[str] = MODELS
    ) -> Graph:
        """Start a graph and show it images until all its nodes answer; raises TimeoutError if they do not."""
        graph = Graph(namespace, commands, names)
        self._graphs.append(graph)
        for name in names:
            self._subscribe(graph, name)
        end = time.monotonic() + _START_TIMEOUT
        while not graph.answers:
            if time.monotonic() > end:
                silent = ", ".join(name for name, delays in graph.delays.items() if not delays)
                raise TimeoutError(f"expected answers of all nodes in {namespace}; none from {silent}")
            self._show(graph, 20, 0.5)
        return graph

    def set_template(self, graph: Graph) -> None:
        """Set a part of the scene as template of the suite's pattern tracker."""
        from bench.camera import TEMPLATE, image_message, scene

        service: Any = importlib.import_module("edgetpu_msgs.srv").SetTemplate
        client = self._node.create_client(service, f"{graph.namespace}/pattern_tracker/set_template")
        client.wait_for_service(_START_TIMEOUT)
        view = scene()[0]
        request = service.Request(patch=image_message(TEMPLATE.of(view)), view=image_message(view))
        answer = client.call_async(request)
        self._executor.spin_until_future_complete(answer, _START_TIMEOUT)
        if answer.result() is None or not answer.result().success:
            raise RuntimeError(f"no template: {answer.result()}")

    def device_status(self, graph: Graph) -> Any:
        """The next edgetpu_msgs/DeviceStatus of a graph's driver; raises TimeoutError if there is none."""
        kind: Any = importlib.import_module("edgetpu_msgs.msg").DeviceStatus
        received: list[Any] = []
        subscription = self._node.create_subscription(
            kind, f"{graph.namespace}/edgetpu/status", received.append, 10
        )
        end = time.monotonic() + _START_TIMEOUT
        while not received:
            if time.monotonic() > end:
                raise TimeoutError(f"the driver in {graph.namespace} publishes no status")
            with held_interrupts():
                self._executor.spin_once(0.1)
        self._node.destroy_subscription(subscription)
        return received[-1]

    def measure(self, graph: Graph, rate: float, seconds: float) -> Turn:
        """Show a graph images at `rate` Hz for `seconds` s."""
        for delays in graph.delays.values():
            delays.clear()
        before = graph.cpu_seconds()
        published = self._show(graph, rate, seconds)
        used = graph.cpu_seconds() - before
        lost = published - min(map(len, graph.delays.values()))
        p99 = max(
            float(np.percentile(delays, 99)) if delays else float("inf") for delays in graph.delays.values()
        )
        return Turn(published, lost, p99, used)

    def _subscribe(self, graph: Graph, name: str) -> None:
        from rclpy.qos import QoSProfile

        delays = graph.delays[name]

        def receive(message: bytes, info: Any) -> None:
            seconds, nanoseconds = _STAMP.unpack_from(message)
            # The time at which the middleware received the result: this process must not add to the delay.
            delays.append(1e-9 * (info["received_timestamp"] - nanoseconds) - seconds)

        result = result_topic(name)
        topic = f"{graph.namespace}/{name}/{result.topic}"
        qos = QoSProfile(depth=_RESULT_QUEUE)
        self._node.create_subscription(result.message_type, topic, receive, qos, raw=True)

    def _show(self, graph: Graph, rate: float, seconds: float) -> int:
        """Let the camera publish to a graph, and receive the results; return the number of images."""
        assert self._camera.stdin is not None
        self._camera.stdin.write(f"{graph.namespace} {rate} {seconds}\n")
        self._camera.stdin.flush()
        end = time.monotonic() + seconds + _SETTLE_SECONDS
        while (left := end - time.monotonic()) > 0:
            with held_interrupts():
                self._executor.spin_once(left)
        return int(self._read_line())

    def _read_line(self) -> str:
        assert self._camera.stdout is not None
        return self._camera.stdout.readline()

    def _stop(self) -> None:
        import rclpy

        if hasattr(self, "_node"):
            self._executor.shutdown()
            self._node.destroy_node()
            rclpy.try_shutdown()
        assert self._camera.stdin is not None
        self._camera.stdin.close()  # which ends the camera
        for graph in self._graphs:
            graph.stop()
        _end(self._camera)


def _start(command: Sequence[str], stdout: int | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=stdout, text=True)


def _end(process: subprocess.Popen[str]) -> None:
    try:
        process.wait(5.0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
