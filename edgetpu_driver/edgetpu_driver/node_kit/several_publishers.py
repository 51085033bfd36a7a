"""A problem for /diagnostics: several nodes publish on a topic that is meant for one."""

from __future__ import annotations

from rclpy.node import Node

_UNKNOWN = "_NODE_NAME_UNKNOWN_"
"""Given (rcl): the name of a node that has not been discovered yet, though its publisher has."""


def several_publishers(node: Node, topic: str) -> str:
    """A line that names the nodes if more than one publishes on a topic, otherwise "".

    Publishers of one node count as one: those of a process that was killed stay in the graph until its lease
    ends, beside those of its successor.
    """
    if node.count_publishers(topic) < 2:  # costs less than the names
        return ""
    names = {
        f"{each.node_namespace.rstrip('/')}/{each.node_name}"
        for each in node.get_publishers_info_by_topic(topic)
        if each.node_name != _UNKNOWN
    }
    if len(names) < 2:
        return ""
    return f"{len(names)} nodes publish on {topic}: {', '.join(sorted(names))}"
