"""Nodes in separate processes, and the test's own node."""

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
"""Time after SIGINT until `ros2 launch` sends SIGTERM, s."""


class NodeProcess:
    """A node, started as by `ros2 run` but forked; everything that it prints is kept."""

    def __init__(self, forker: NodeForker, package: str, executable: str, arguments: list[str]) -> None:
        from ament_index_python.packages import get_package_prefix

        path = Path(get_package_prefix(package)) / "lib" / package / executable
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - as long-lived as the process
        assert path.is_file()
        self._process = forker.start([str(path), *arguments], self._log)

    @property
    def output(self) -> str:
        """What the node has printed."""
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
        """Ask the node to stop; assert that it does so in time, with status 0 and without complaints."""
        start = time.monotonic()
        self._process.send_signal(number)
        status = self.wait()
        seconds = time.monotonic() - start
        assert status == 0, f"status {status}: {self.output}"
        assert "Traceback" not in self.output
        assert "Exception" not in self.output
        assert seconds < STOP_SECONDS

    def end(self) -> None:
        """Stop the node, unless it has ended, and wait for its end."""
        self._process.send_signal(signal.SIGINT)
        self.wait()

    def kill(self) -> None:
        """End the node as by a crash."""
        self._process.kill()
        self._process.wait(PATIENCE)

    @property
    def pid(self) -> int:
        """Process ID of the node."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the node is still running."""
        return self._process.poll() is None


@dataclass(frozen=True)
class _Meeting:
    """The client by which a node was met, and the entities that had been made here until then."""

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
        """Also spin this node."""
        self._executor.add_node(node)

    def remove_node(self, node: Any) -> None:
        """Stop spinning this node."""
        self._executor.remove_node(node)

    def spin_until(self, condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
        """Run callbacks until the condition holds; fail if it does not within `seconds`."""
        from testdata.running_nodes.spinning_node import spin_until

        spin_until(condition, lambda: self._executor.spin_once(timeout_sec=0.05), seconds)

    def spin_for(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Run callbacks for `seconds`, or until the condition `until` holds."""
        end = time.monotonic() + seconds
        while not until() and time.monotonic() < end:
            self._executor.spin_once(timeout_sec=0.01)

    def call(self, kind: Any, service: str, **fields: Any) -> Any:
        """Call a service ~/x of a node when it has been discovered; return the response."""
        (response,) = self.call_at_once(kind, service, [fields])
        return response

    def call_at_once(self, kind: Any, service: str, requests: list[dict[str, Any]]) -> list[Any]:
        """Send up to 10 requests (the depth of the queue) without waiting in between; return the answers."""
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

        Its messages and answers before that are lost (ros2/rmw_fastrtps issue 842). A node discovers entities
        in the order in which they were made, and therefore the newest one last: the client that is made here.
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
        """Wait until a driver reports its device as ready. Before that, models load, but requests fail."""
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
        """Subscribe to a topic; return a list that fills with messages while the graph spins."""
        messages: list[Any] = []
        self.node.create_subscription(kind, topic, messages.append, qos)
        return messages

    def diagnostics(self) -> list[Any]:
        """The diagnostics of all nodes since the first call, in a list that fills while the graph spins."""
        from diagnostic_msgs.msg import DiagnosticArray

        if self._diagnostics is None:
            self._diagnostics = self.collect(DiagnosticArray, "/diagnostics")
        return self._diagnostics
