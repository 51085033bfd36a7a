"""Stamps of messages as numbers."""

from __future__ import annotations

from builtin_interfaces.msg import Time
from std_msgs.msg import Header


def seconds_of(header: Header) -> float:
    """The stamp of a message, s."""
    return float(header.stamp.sec) + 1e-9 * float(header.stamp.nanosec)


def nanoseconds_of(stamp: Time) -> int:
    """A stamp, ns."""
    return int(stamp.sec) * 10**9 + int(stamp.nanosec)
