"""Numbers of standard messages that nodes receive and publish, such as velocities, as rows for curves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from edgetpu_dashboard.live.result_curves import ResultCurves

MOST_NUMBERS = 8
"""Number of values of an array that become curves, the first ones."""

_NUMBERS: Mapping[str, tuple[str, ...]] = {
    "geometry_msgs/msg/Twist": ("linear.x", "angular.z"),
    "geometry_msgs/msg/TwistStamped": ("twist.linear.x", "twist.angular.z"),
    "nav_msgs/msg/Odometry": ("twist.twist.linear.x", "twist.twist.angular.z"),
    "std_msgs/msg/Float32": ("data",),
    "std_msgs/msg/Float64": ("data",),
    "std_msgs/msg/Float32MultiArray": ("data",),
    "std_msgs/msg/Float64MultiArray": ("data",),
}
"""Paths of the numbers of each type."""

_MEANINGS = {"linear.x": ("speed", "m/s"), "angular.z": ("turn rate, left positive", "rad/s")}
"""Meanings and units of fields whose message says what they are."""

SIGNAL_TYPES = tuple(_NUMBERS)
"""Types of messages that are shown, whichever node publishes or receives them."""


def new_curves(kind: str) -> ResultCurves:
    """Return empty curves for a type, with the fields that all its messages have."""
    fields = [_field(path) for path in _NUMBERS[kind]]
    known = all(field in _MEANINGS for field in fields)
    return ResultCurves(dict.fromkeys(fields, "") if known else None)


def meaning_of(field: str) -> tuple[str, str]:
    """Return what a field of a row is, and its unit; both empty if the message does not say."""
    return _MEANINGS.get(field, ("", ""))


def numbers_of(kind: str, message: Any) -> dict[str, float]:
    """Return the numbers of a message of one of SIGNAL_TYPES, by field."""
    row: dict[str, float] = {}
    for path in _NUMBERS[kind]:
        value = reduce(getattr, path.split("."), message)
        field = _field(path)
        if isinstance(value, float):
            row[field] = value
        else:
            row |= {f"{field}[{n}]": float(each) for n, each in enumerate(value[:MOST_NUMBERS])}
    return row


def _field(path: str) -> str:
    """Return the name of the number at a path, the same for all types of messages."""
    return path.rpartition("twist.")[2]


def stamp_of(message: Any) -> float:
    """Return the time of a message, s; NaN if it has none."""
    header = getattr(message, "header", None)
    seconds = header.stamp.sec + 1e-9 * header.stamp.nanosec if header is not None else 0.0
    return seconds or math.nan


@dataclass(frozen=True)
class Signal:
    """A topic with numbers that a node publishes, or subscribes to."""

    topic: str
    """Without the namespace of the dashboard."""
    published: bool
    curves: ResultCurves
