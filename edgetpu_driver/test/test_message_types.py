"""Message types are found by their names."""

from __future__ import annotations

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")

from sensor_msgs.msg import Imu

from edgetpu_driver.node_kit.fatal_error import FatalError
from edgetpu_driver.node_kit.messages.message_types import message_type


@pytest.mark.parametrize("name", ["sensor_msgs/msg/Imu", "sensor_msgs/Imu"])
def test_types_are_found_by_name(name: str) -> None:
    assert message_type(name) is Imu


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Imu", "expected a message type as package/msg/Type"),
        ("sensor_msgs/msg/Nose", "there is no message type sensor_msgs/msg/Nose"),
        ("no_such_msgs/msg/Imu", "is no_such_msgs installed"),
        ("os/path", "expected a message type"),
    ],
)
def test_a_type_that_there_is_not_is_refused(name: str, reason: str) -> None:
    with pytest.raises(FatalError, match=reason):
        message_type(name)
