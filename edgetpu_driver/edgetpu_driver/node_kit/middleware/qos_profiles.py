"""The QoS profiles of publishers, subscriptions and services; that of heartbeats is in heartbeat.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

QOS_RESULTS = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)
"""Reliable and with a queue of 10, the default of ROS 2."""

QOS_DEBUG = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE)
"""For debug images. Reliable, because viewers ask for that by default."""

QOS_LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
"""For states: a subscriber that comes later gets the last message too."""

QOS_SERVICE = QoSProfile(depth=1000)
"""For services and their clients: a request or an answer that finds a full queue is lost without a trace.

50 clients with 10 requests in flight fill half of it. With Fast DDS every client of a service receives the
answers to all clients and selects its own, so a client's queue must hold as many as the service's.
"""


def subscription_qos(values: Mapping[str, Any]) -> QoSProfile:
    """The profile of images and signals that the parameters `qos_reliability` and `qos_depth` ask for."""
    reliability = ReliabilityPolicy[values["qos_reliability"].upper()]
    return QoSProfile(depth=values["qos_depth"], reliability=reliability)
