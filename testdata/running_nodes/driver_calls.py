"""Messages to a driver node, and its answers."""

from __future__ import annotations

from typing import Any

from rclpy.qos import DurabilityPolicy, QoSProfile

from edgetpu_msgs.msg import Tensor

LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)


def numbers(*values: int, **fields: Any) -> Tensor:
    """The input of the model "sums" as a message."""
    data = bytes(value % 256 for value in values)
    return Tensor(**{"name": "numbers", "dtype": Tensor.INT8, "shape": [1, 4], "data": data} | fields)


def outcome(response: Any) -> tuple[bool, int, str]:
    """The fields that all answers have: success, error code and message."""
    return response.success, response.error.value, response.message
