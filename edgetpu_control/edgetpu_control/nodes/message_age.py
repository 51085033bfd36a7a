"""Checks the age of messages by their stamps, so that old ones do not steer a robot."""

from __future__ import annotations

from typing import Any

from std_msgs.msg import Header

from edgetpu_driver.node_kit.base_node import BaseNode
from edgetpu_driver.node_kit.messages.message_stamps import seconds_of


def stamp_of(message: Any) -> float:
    """Return the stamp of a message, s; 0 if it has none."""
    header = getattr(message, "header", None)
    return seconds_of(header) if isinstance(header, Header) else 0.0


def is_timely(node: BaseNode, topic: str, age: float) -> bool:
    """Whether a message is at most `timeout` old, and at most as far ahead of the node's clock. age: s.

    Any other message is counted as dropped, and the first of a topic is logged.
    """
    timeout: float = node.values["timeout"]
    if -timeout <= age <= timeout:
        return True
    node.counters.dropped += 1
    node.report_once(
        (topic, age > 0),
        f"message on {node.resolve_topic_name(topic)} skipped: expected a stamp of the last {timeout:g} s "
        f"(timeout); got one {abs(age):.2f} s {'old' if age > 0 else 'ahead of this clock'}; "
        + ("it came too late, or " if age > 0 else "")
        + "use_sim_time or the clocks of the computers differ",
    )
    return False
