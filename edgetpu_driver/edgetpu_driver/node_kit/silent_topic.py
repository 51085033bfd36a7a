"""Log messages about topics: no message has arrived for long, or they arrive now."""

from __future__ import annotations

import time
from collections.abc import Callable

from rclpy.node import Node

from edgetpu_driver.node_kit.executor.steady_timers import create_steady_timer

SILENCE = 10.0
"""Seconds without messages after which this is logged. Chosen: longer than most cameras take to start."""

_CHECK_PERIOD = 1.0
"""Seconds between two checks of the topics of a node. Uncritical: SILENCE is longer."""


class SilentTopic:
    """Reports once when the messages on a topic stop, and when they resume.

    Increment `received` with each message, and call `check` about once a second. Time counts from the first
    check, when the node runs, and again from the first publisher: other nodes may take longer to start.
    """

    def __init__(self, node: Node, topic: str, subject: str, reason: Callable[[], str] | None = None) -> None:
        """topic: resolved name. subject: of the messages, in the plural. reason: why there may be none."""
        self._node, self._topic, self._subject = node, topic, subject
        self._reason = self._without_publisher if reason is None else reason
        self.received = 0
        self._received_before = 0
        self._silent_since = 0.0
        self._was_published: bool | None = None
        """None: not checked yet."""
        self._reported = False

    def check(self) -> None:
        """Log that messages have stopped or resumed since the last call."""
        now = time.monotonic()
        if self._expects_more():
            self._silent_since = now
        if self.received != self._received_before:
            since = "again" if self._received_before else "now"
            self._received_before, self._silent_since = self.received, now
            if self._reported:
                self._reported = False
                self._node.get_logger().info(f"{self._subject} arrive on {self._topic} {since}")
        elif not self._reported and now - self._silent_since >= SILENCE:
            self._reported = True
            self._node.get_logger().warning(
                f"no {self._subject} on {self._topic} for {SILENCE:.0f} s "
                f"({self.received or 'none'} before that){self._reason()}"
            )

    def _expects_more(self) -> bool:
        """Whether this is the first check, or the first one after a publisher has appeared."""
        before = self._was_published
        self._was_published = bool(before or self.received or self._node.count_publishers(self._topic))
        return self._was_published != before

    def _without_publisher(self) -> str:
        return "" if self._node.count_publishers(self._topic) else "; it has no publisher"


class SilentTopics:
    """The topics of a node, checked for messages once a second."""

    def __init__(self, node: Node, subject: str) -> None:
        """subject: name of the messages in the log, in the plural."""
        self._node, self._subject = node, subject
        self._topics: list[SilentTopic] = []
        create_steady_timer(node, _CHECK_PERIOD, self._check)

    def watch(self, topic: str) -> SilentTopic:
        """Check a topic, given by its resolved name. The caller counts its messages in `received`."""
        self._topics.append(SilentTopic(self._node, topic, self._subject))
        return self._topics[-1]

    def _check(self) -> None:
        for each in self._topics:
            each.check()
