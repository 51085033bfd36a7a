"""The connection of a drive to the nodes of the suite: messages, service calls and callbacks."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import rclpy
from rcl_interfaces.srv import GetParameters
from rclpy.executors import SingleThreadedExecutor
from rclpy.signals import SignalHandlerOptions

from edgetpu_driver.errors import EdgeTpuError
from edgetpu_driver.node_kit.executor.held_interrupts import held_interrupts

START_SECONDS = 60.0
"""Time limit of the nodes for their first results, in real time, s."""
RESEND_SECONDS = 0.25
"""Time after which a node is asked again whether it answers, s. Uncritical."""
TICK = 0.05
"""Longest single wait in rclpy, s: Python's signal handlers run only between two waits."""


class DriveError(EdgeTpuError):
    """Raised if the nodes publish no results or if rendering fails."""


class SuiteConnection:
    """A ROS node that publishes to the nodes of the suite and calls their services, one call at a time."""

    def __init__(self, name: str) -> None:
        """name: name of the node."""
        # With rclpy's handlers, a signal would shut down the context in the middle of a step.
        rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
        self.node = rclpy.create_node(name)
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self.node)
        self._publishers: dict[str, Any] = {}
        self._clients: dict[str, Any] = {}

    def close(self) -> None:
        """Leave the graph."""
        self._executor.shutdown()
        self.node.destroy_node()
        rclpy.shutdown()

    def publish(self, topic: str, message: Any) -> None:
        """Publish a message to the nodes; raises DriveError if no node subscribes to the topic."""
        if topic not in self._publishers:
            publisher = self._publishers[topic] = self.node.create_publisher(type(message), topic, 10)
            if not self.spin(START_SECONDS, lambda: publisher.get_subscription_count() > 0):
                raise DriveError(f"no node subscribes to {topic}")
        self._publishers[topic].publish(message)

    def call(self, service_type: type[Any], service: str, request: Any = None) -> Any:
        """Call a service, by default with an empty request; return its response.

        Raises DriveError without a response.
        """
        if service not in self._clients:
            self._clients[service] = self.node.create_client(service_type, service)
            self._meet(service.rpartition("/")[0])
        client = self._clients[service]
        if not self.spin(START_SECONDS, client.service_is_ready):
            raise DriveError(f"no node offers {service}")
        future = client.call_async(service_type.Request() if request is None else request)
        if not self.spin(START_SECONDS, future.done):
            raise DriveError(f"no answer from {service}")
        return future.result()

    def _meet(self, node: str) -> None:
        """Wait until a node has discovered the clients made here; raises DriveError if it does not answer.

        Until then its answers are lost (ros2/rmw_fastrtps issue 842), including those to requests made here.
        """
        client = self.node.create_client(GetParameters, f"{node}/get_parameters")
        asked: list[Any] = []
        end = time.monotonic() + START_SECONDS
        while not self.spin(RESEND_SECONDS, lambda: any(each.done() for each in asked)):
            if time.monotonic() > end:
                raise DriveError(f"no answer from {node}")
            if client.service_is_ready():
                asked.append(client.call_async(GetParameters.Request()))
        self.node.destroy_client(client)

    def spin(self, seconds: float, done: Callable[[], bool] = lambda: False) -> bool:
        """Run callbacks until `done` returns True, at most for `seconds`; return whether it did."""
        end = time.monotonic() + seconds
        while not done():
            left = end - time.monotonic()
            if left <= 0:
                return False
            with held_interrupts():
                self._executor.spin_once(timeout_sec=min(left, TICK))
        return True
