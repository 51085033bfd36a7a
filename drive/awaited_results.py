"""The results that a drive waits for after each image."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rclpy.node import Node

from edgetpu_driver.node_kit.messages.message_stamps import nanoseconds_of


class AwaitedResults:
    """The latest message on each of some topics, and whether all of them are as new as an image."""

    def __init__(self) -> None:
        self.latest: dict[str, Any] = {}
        """By topic."""
        self._stamps: dict[str, int] = {}
        """Of the latest ones, ns; -1 before the first."""

    def watch(
        self, node: Node, message_type: type[Any], topic: str, on_result: Callable[[Any, int], None]
    ) -> None:
        """Wait for this topic, too. on_result: called with each message and its stamp, ns."""
        self._stamps[topic] = -1

        def receive(message: Any) -> None:
            self.latest[topic] = message
            self._stamps[topic] = nanoseconds_of(message.header.stamp)
            on_result(message, self._stamps[topic])

        node.create_subscription(message_type, topic, receive, 10)

    @property
    def oldest(self) -> int:
        """Stamp of the image whose results were all there last, ns; -1 if some topic had none at all."""
        return min(self._stamps.values())

    @property
    def silent(self) -> tuple[str, ...]:
        """The topics without any result."""
        return tuple(topic for topic, stamp in self._stamps.items() if stamp < 0)
