"""Stamps of messages as seconds."""

from __future__ import annotations

from std_msgs.msg import Header


def seconds_of(header: Header) -> float:
    """The stamp of a message, s."""
    return float(header.stamp.sec) + 1e-9 * float(header.stamp.nanosec)
