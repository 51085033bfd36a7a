"""Checks that nodes still publish results of good messages: a broken node might still answer services."""

from __future__ import annotations

import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from rclpy.impl.implementation_singleton import rclpy_implementation as _rclpy
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile
from sensor_msgs.msg import Image
from std_msgs.msg import Float32MultiArray, Header

from edgetpu_msgs.msg import ServoError
from fuzz.message_values import class_named

_PERIOD = 0.05
"""Time between two good messages, s."""
_SAMPLES = 10
"""Number of samples in each message of a signal: a spectrum needs some hundreds."""
_NO_RESULTS = ("heartbeat", "debug_image", "label_info", "labels", "status", "transition_event")
"""Topics of a node that carry no results."""
_SIZE = (48, 64)
SpinUntil = Callable[[Callable[[], bool], float], bool]


class ResultWatch:
    """Sends good messages to nodes and counts what they publish."""

    def __init__(self, node: Node, spin_until: SpinUntil) -> None:
        """spin_until: spins the node until a condition holds, for a limited time in seconds."""
        self._node, self._spin_until = node, spin_until
        self._publishers: dict[str, tuple[Publisher, Callable[[int], Any]]] = {}
        self._results: Counter[str] = Counter()
        self._watched: set[str] = set()
        """Topics of results that are subscribed to."""
        self._sent = 0

    def silent(self, names: Iterable[str], seconds: float) -> list[str]:
        """Send good messages for `seconds`; return the nodes that have published no result."""
        waiting = set(names)
        self._results.clear()
        end = time.monotonic() + seconds
        while waiting and time.monotonic() < end:
            for name in waiting:  # its topics may be discovered later than the node
                with suppress(_rclpy.NodeNameNonExistentError):
                    self._watch(name)
            for publisher, message in self._publishers.values():
                for _ in range(_SAMPLES if publisher.msg_type is Float32MultiArray else 1):
                    self._sent += 1
                    publisher.publish(message(self._sent))
            self._spin_until(lambda: False, _PERIOD)
            waiting -= self._results.keys()
        return sorted(waiting)

    def _watch(self, name: str) -> None:
        for topic, (kind, *_) in self._node.get_subscriber_names_and_types_by_node(name, "/"):
            message = _GOOD.get(kind)
            if message is not None and topic not in self._publishers:
                publisher = self._node.create_publisher(class_named(kind), topic, QoSProfile(depth=100))
                self._publishers[topic] = publisher, message

        def count(_message: Any) -> None:
            self._results[name] += 1

        for topic, (kind, *_) in self._node.get_publisher_names_and_types_by_node(name, "/"):
            is_result = topic.startswith(f"/{name}/") and topic.rpartition("/")[2] not in _NO_RESULTS
            if is_result and topic not in self._watched:
                self._watched.add(topic)
                self._node.create_subscription(class_named(kind), topic, count, 10)


def _image(number: int) -> Image:
    height, width = _SIZE
    rows, columns = np.mgrid[:height, :width]
    pixels = (rows * 5 + (columns + number % 3) * 3 + 80 * (rows // 8 % 2)).astype(np.uint8)
    return Image(
        header=_header(),
        height=height,
        width=width,
        encoding="mono8",
        step=width,
        data=array("B", pixels.tobytes()),
    )


def _servo_error(_number: int) -> ServoError:
    """A target to steer at, as the spot tracker may have been told to look for another one."""
    return ServoError(header=_header(), valid=True, confidence=1.0, bearing_x=0.1)


def _header() -> Header:
    seconds, nanoseconds = divmod(time.time_ns(), 10**9)
    return Header(stamp=Time(sec=seconds, nanosec=nanoseconds), frame_id="camera")


def _signal(number: int) -> Float32MultiArray:
    return Float32MultiArray(data=array("f", [float(np.sin(number / 5))]))


_GOOD: dict[str, Callable[[int], Any]] = {
    "sensor_msgs/msg/Image": _image,
    "edgetpu_msgs/msg/ServoError": _servo_error,
    "std_msgs/msg/Float32MultiArray": _signal,
}
"""By message type: makes the good message of a number."""
