"""A supervisor notices through ~/heartbeat that a node hangs."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from builtin_interfaces.msg import Time

from edgetpu_driver.node_kit.heartbeat import QOS_HEARTBEAT
from testdata.running_nodes.killed_nodes import suspend

try:
    from rclpy.event_handler import SubscriptionEventCallbacks
except ImportError:  # ROS 2 Humble
    from rclpy.qos_event import SubscriptionEventCallbacks


def test_a_node_that_hangs_loses_its_liveliness_and_gets_it_back(graph: Any, start_node: Any) -> None:
    alive: list[int] = []
    graph.node.create_subscription(
        Time,
        "/watched/heartbeat",
        lambda _: None,
        QOS_HEARTBEAT,
        event_callbacks=SubscriptionEventCallbacks(liveliness=lambda event: alive.append(event.alive_count)),
    )
    process = start_node("edgetpu_driver", "edgetpu_node", "-r", "__node:=watched", backend="cpu")
    graph.spin_until(lambda: alive[-1:] == [1])
    suspend(process)  # as a callback that never returns would, for the executor
    graph.spin_until(lambda: alive[-1:] == [0])
    os.kill(process.pid, signal.SIGCONT)
    graph.spin_until(lambda: alive[-1:] == [1])
    process.stop()
