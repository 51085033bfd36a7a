"""A node in the executor under test."""

from __future__ import annotations

from typing import Any

from rclpy.callback_groups import ReentrantCallbackGroup
from std_srvs.srv import Trigger

from edgetpu_driver.node_kit.executor.executor import StaticSingleThreadedExecutor
from testdata.running_nodes.spinning_node import SpinningNode


class Bench(SpinningNode):
    """A node in the executor under test."""

    def __init__(self) -> None:
        super().__init__(StaticSingleThreadedExecutor)

    def settle(self) -> None:
        """Run all callbacks that are ready now."""
        for _ in range(20):
            self.executor.spin_once(0.005)

    def client_of(self, callback: Any, **options: Any) -> Any:
        """Create a service with this callback; return a client that has discovered the service."""
        self.node.create_service(Trigger, "ask", callback, **options)
        client = self.node.create_client(Trigger, "ask", callback_group=ReentrantCallbackGroup())
        self.spin_until(client.service_is_ready)
        return client
