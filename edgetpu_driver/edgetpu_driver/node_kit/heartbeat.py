"""The heartbeat of a node: a message that its executor publishes for as long as it spins."""

from __future__ import annotations

from builtin_interfaces.msg import Time
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.qos import LivelinessPolicy, QoSProfile

from edgetpu_driver.node_kit.executor.steady_timers import create_steady_timer

HEARTBEAT_PERIOD = 0.5
"""Seconds between two messages: six in HEARTBEAT_LEASE, so that a few may come late."""

HEARTBEAT_LEASE = 3.0
"""Seconds without a message after which a subscriber is notified that the node is no longer alive.

Six periods: longer than a busy machine delays a callback, shorter than the 20 s after which DDS notices
that a process has gone.
"""

QOS_HEARTBEAT = QoSProfile(
    depth=1,
    liveliness=LivelinessPolicy.MANUAL_BY_TOPIC,
    liveliness_lease_duration=Duration(seconds=HEARTBEAT_LEASE),
)
"""For publisher and subscribers. A subscriber with it gets the event `liveliness` when a node hangs."""


def start_heartbeat(node: Node) -> None:
    """Start to publish the node's time on ~/heartbeat, from its executor's thread.

    A hung callback stops it, even if the middleware's threads continue. It uses real time, also when the
    graph runs on simulated time.
    """
    publisher = node.create_publisher(Time, "~/heartbeat", QOS_HEARTBEAT)
    create_steady_timer(node, HEARTBEAT_PERIOD, lambda: publisher.publish(node.get_clock().now().to_msg()))
