"""The results that a drive waits for after each image."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rclpy.node import Node

from edgetpu_driver.node_kit.messages.message_stamps import nanoseconds_of


class AwaitedResults:
    """The latest message on each watched topic, and the stamp up to which all of them have arrived."""

    def __init__(self) -> None:
        self.latest: dict[str, Any] = {}
        """Latest message by topic."""
        self._stamps: dict[str, int] = {}
        """Stamp of the latest message by topic, ns; -1 before the first message."""

    def watch(
        self, node: Node, message_type: type[Any], topic: str, on_result: Callable[[Any, int], None]
    ) -> None:
        """Also wait for this topic. on_result: called with each message and its stamp, ns."""
        self._stamps[topic] = -1

        def receive(message: Any) -> None:
            self.latest[topic] = message
            self._stamps[topic] = nanoseconds_of(message.header.stamp)
            on_result(message, self._stamps[topic])

        node.create_subscription(message_type, topic, receive, 10)

    @property
    def oldest(self) -> int:
        """Stamp of the newest image with a result on every topic, ns; -1 if a topic has had no result."""
        return min(self._stamps.values())

    @property
    def silent(self) -> tuple[str, ...]:
        """The topics that have had no result."""
        return tuple(topic for topic, stamp in self._stamps.items() if stamp < 0)
