"""Nodes in separate processes, and the node of the test."""

from __future__ import annotations

import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from testdata.running_nodes.node_forker import NodeForker, content
from testdata.timeouts import PATIENCE

STOP_SECONDS = 5.0
"""Seconds after SIGINT until `ros2 launch` sends SIGTERM."""


class NodeProcess:
    """A node started as `ros2 run` would, but forked; everything it prints is kept."""

    def __init__(self, forker: NodeForker, package: str, executable: str, arguments: list[str]) -> None:
        from ament_index_python.packages import get_package_prefix

        path = Path(get_package_prefix(package)) / "lib" / package / executable
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - as long-lived as the process
        assert path.is_file()
        self._process = forker.start([str(path), *arguments], self._log)

    @property
    def output(self) -> str:
        """What it has printed."""
        return content(self._log)

    def wait(self) -> int:
        """Wait for the process to end by itself; its exit status."""
        try:
            return self._process.wait(PATIENCE)
        except TimeoutError:
            self._process.print_stacks()
            time.sleep(1.0)
            pytest.fail(f"the node did not end within {PATIENCE:g} s:\n{self.output}")

    def stop(self, number: int = signal.SIGINT) -> None:
        """Ask it to stop and assert that it does, in time, with status 0 and no complaint."""
        start = time.monotonic()
        self._process.send_signal(number)
        status = self.wait()
        seconds = time.monotonic() - start
        assert status == 0, self.output
        assert "Traceback" not in self.output
        assert "Exception" not in self.output
        assert seconds < STOP_SECONDS

    def end(self) -> None:
        """Have it stop, unless it has ended, and wait until then."""
        self._process.send_signal(signal.SIGINT)
        self.wait()

    def kill(self) -> None:
        """End it as a crash would."""
        self._process.kill()
        self._process.wait(PATIENCE)

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None


@dataclass(frozen=True)
class _Meeting:
    """The client that a node was met with, and what was made here until then."""

    client: Any
    known: frozenset[Any]


class Graph:
    """The test's own node in the ROS graph."""

    def __init__(self) -> None:
        import rclpy
        from rclpy.executors import SingleThreadedExecutor

        rclpy.init()
        self.node = rclpy.create_node("tester")
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self.node)
        self._clients: dict[str, Any] = {}
        self._meetings: dict[str, _Meeting] = {}
        self._diagnostics: list[Any] | None = None

    def close(self) -> None:
        """End the node and its context."""
        import rclpy

        self._executor.shutdown()
        self.node.destroy_node()
        rclpy.shutdown()

    def add_node(self, node: Any) -> None:
        """Spin this node, too."""
        self._executor.add_node(node)

    def remove_node(self, node: Any) -> None:
        """Stop spinning this node."""
        self._executor.remove_node(node)

    def spin_until(self, condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
        """Run callbacks until the condition holds; fails when it does not in time."""
        from testdata.running_nodes.spinning_node import spin_until

        spin_until(condition, lambda: self._executor.spin_once(timeout_sec=0.05), seconds)

    def spin_for(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Run callbacks for so long, or until the condition holds."""
        end = time.monotonic() + seconds
        while not until() and time.monotonic() < end:
            self._executor.spin_once(timeout_sec=0.01)

    def call(self, kind: Any, service: str, **fields: Any) -> Any:
        """Call a service ~/x of a node once it is found; return the response."""
        (response,) = self.call_at_once(kind, service, [fields])
        return response

    def call_at_once(self, kind: Any, service: str, requests: list[dict[str, Any]]) -> list[Any]:
        """Send requests, at most 10 (the depth of the queue), without waiting in between; the responses."""
        client = self._clients.get(service)
        if client is None:
            client = self._clients[service] = self.node.create_client(kind, service)
        self.meet(service.rpartition("/")[0])
        self.spin_until(client.service_is_ready)
        futures = [client.call_async(kind.Request(**fields)) for fields in requests]
        self.spin_until(lambda: all(future.done() for future in futures))
        return [future.result() for future in futures]

    def meet(self, node: str) -> None:
        """Wait until a node knows all subscriptions and clients that were made here so far.

        What it publishes and answers before is lost (ros2/rmw_fastrtps issue 842). It gets to know them in
        the order in which they were made, and so the newest of them last: the client that is made here.
        """
        from rcl_interfaces.srv import GetParameters

        from testdata.running_nodes.spinning_node import ask_until_answered

        client = self._client_to_meet(node)
        ask_until_answered(
            client, GetParameters.Request(), lambda: self._executor.spin_once(timeout_sec=0.05)
        )

    def _client_to_meet(self, node: str) -> Any:
        """A client of the node that is newer than all subscriptions and all other clients here."""
        from rcl_interfaces.srv import GetParameters

        meeting = self._meetings.pop(node, None)
        others = {each.client for each in self._meetings.values()}
        made = {*self.node.subscriptions, *self.node.clients} - others
        if meeting is not None and made <= meeting.known:
            self._meetings[node] = meeting
            return meeting.client
        if meeting is not None:
            self.node.destroy_client(meeting.client)
            made.discard(meeting.client)
        client = self.node.create_client(GetParameters, f"{node}/get_parameters")
        self._meetings[node] = _Meeting(client, frozenset(made | {client}))
        return client

    def await_device(self, driver: str = "/edgetpu") -> None:
        """Wait until a driver says that its device is ready. Before, models load but requests fail."""
        from rclpy.qos import DurabilityPolicy, QoSProfile

        from edgetpu_msgs.msg import DeviceStatus

        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        states: list[int] = []
        subscription = self.node.create_subscription(
            DeviceStatus, f"{driver}/status", lambda status: states.append(status.state), latched
        )
        self.spin_until(lambda: DeviceStatus.READY in states)
        self.node.destroy_subscription(subscription)

    def collect(self, kind: Any, topic: str, qos: Any = 10) -> list[Any]:
        """Subscribe; the list fills while the graph spins."""
        messages: list[Any] = []
        self.node.create_subscription(kind, topic, messages.append, qos)
        return messages

    def diagnostics(self) -> list[Any]:
        """The reports of all nodes since the first call; the list fills while the graph spins."""
        from diagnostic_msgs.msg import DiagnosticArray

        if self._diagnostics is None:
            self._diagnostics = self.collect(DiagnosticArray, "/diagnostics")
        return self._diagnostics
