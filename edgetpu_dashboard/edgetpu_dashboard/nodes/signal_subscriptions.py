"""Subscribes to the numbers that running nodes receive and publish besides their results."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Set
from typing import Any

from rclpy.impl.implementation_singleton import rclpy_implementation as _rclpy
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data

from edgetpu_dashboard.live.message_numbers import new_curves, numbers_of, stamp_of
from edgetpu_dashboard.live.result_curves import ResultCurves
from edgetpu_driver.node_kit.messages.message_types import message_type
from edgetpu_driver.node_kit.printable_text import one_line


class SignalSubscriptions:
    """One subscription for each topic and type, whichever nodes use it. For the executor's thread."""

    def __init__(
        self, node: Node, add: Callable[[ResultCurves, float, Mapping[str, float], float], None]
    ) -> None:
        """add: called with curves, the time now, s, the row to add to them, and its age by its stamp, s."""
        self._node, self._add = node, add
        self._curves: dict[tuple[str, str], ResultCurves] = {}
        """By topic and type: nodes may disagree about the type, and may change it when they restart."""
        self._subscriptions: dict[tuple[str, str], Any] = {}

    def curves(self, topic: str, kind: str) -> ResultCurves:
        """Return the curves of a topic, of one of SIGNAL_TYPES; the first call subscribes to it.

        A topic that is used with two types is received with the one that came first.
        """
        key = topic, kind
        if key not in self._curves:
            curves = self._curves[key] = new_curves(kind)
            try:
                self._subscriptions[key] = self._node.create_subscription(
                    message_type(kind),
                    topic,
                    lambda message: self._on_message(curves, kind, message),
                    qos_profile_sensor_data,
                )
            except _rclpy.RCLError as error:  # not allowed by the policy, or the other type is there
                self._node.get_logger().warning(f"{topic} is not shown: {one_line(error)}")
        return self._curves[key]

    def keep(self, used: Set[tuple[str, str]]) -> None:
        """Forget all other topics and types."""
        freed = {topic for topic, _ in self._curves.keys() - used}
        for key in [*self._curves]:
            if key not in used or (key[0] in freed and key not in self._subscriptions):
                del self._curves[key]
                if key in self._subscriptions:
                    self._node.destroy_subscription(self._subscriptions.pop(key))

    def _on_message(self, curves: ResultCurves, kind: str, message: Any) -> None:
        latency = 1e-9 * self._node.get_clock().now().nanoseconds - stamp_of(message)
        self._add(curves, time.monotonic(), numbers_of(kind, message), latency)
