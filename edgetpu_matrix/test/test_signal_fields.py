"""Numbers out of messages of any type."""

from __future__ import annotations

import array

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")

from builtin_interfaces.msg import Time
from geometry_msgs.msg import Vector3
from rclpy.clock import Clock
from sensor_msgs.msg import Imu, LaserScan
from std_msgs.msg import Float32MultiArray, Header, String, UInt8MultiArray, UInt64

from edgetpu_driver.node_kit.fatal_error import FatalError
from edgetpu_matrix.nodes.signal_fields import SignalReader

IMU = Imu(
    header=Header(stamp=Time(sec=7), frame_id="imu"),
    angular_velocity=Vector3(x=1.0, y=2.0, z=3.0),
    linear_acceleration=Vector3(x=4.0, y=5.0, z=6.0),
)
ARRAY = Float32MultiArray(data=[1.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize(
    ("message", "fields", "expected"),
    [
        (IMU, "angular_velocity.z", [3]),
        (IMU, "linear_acceleration.x, angular_velocity.y", [4, 2]),
        (ARRAY, "data", [1, 2, 3, 4]),
        (ARRAY, "data[1]", [2]),
        (ARRAY, "data[-1]", [4]),
        (ARRAY, "data[1::2]", [2, 4]),
        (ARRAY, "data[:2]", [1, 2]),
        (ARRAY, "data[:]", [1, 2, 3, 4]),
        (ARRAY, "data[-2:-1]", [3]),
        (LaserScan(ranges=[5.0, 6.0]), "ranges,range_max", [5, 6, 0]),
    ],
)
def test_fields_are_put_one_behind_the_other(message: object, fields: str, expected: list[float]) -> None:
    assert SignalReader(type(message), fields).values(message).tolist() == expected


def test_bytes_can_be_samples() -> None:
    message = UInt8MultiArray(data=array.array("B", b"\x01\x00\xff\xff\x00\x80"))
    assert SignalReader(UInt8MultiArray, "data", "int16").values(message).tolist() == [1, -1, -32768]
    assert SignalReader(UInt8MultiArray, "data[1::2]", "int16").values(message).tolist() == [-1]
    assert SignalReader(UInt8MultiArray, "data").values(message).tolist() == [1, 0, 255, 255, 0, 128]


@pytest.mark.parametrize(
    "fields", ["", "nose", "angular_velocity.w", "angular_velocity.x.y", "__class__", "angular_velocity."]
)
def test_a_field_that_there_is_not_is_refused(fields: str) -> None:
    with pytest.raises(FatalError, match="expected the path of a field of Imu"):
        SignalReader(Imu, fields)


@pytest.mark.parametrize("fields", ["data[]", "data[-]", "data[1-]", "data[-:]", "data[::0]", "data[1::2:3]"])
def test_elements_that_are_not_numbers_are_refused(fields: str) -> None:
    with pytest.raises(FatalError, match="expected the path of a field of Float32MultiArray"):
        SignalReader(Float32MultiArray, fields)


@pytest.mark.parametrize(
    ("message", "fields", "sample_format"),
    [
        (IMU, "angular_velocity", ""),
        (IMU, "header.frame_id", ""),
        (ARRAY, "data[4]", ""),
        (UInt8MultiArray(data=array.array("B", b"abc")), "data", "int16"),
        (UInt64(data=4), "data", "int16"),
        (ARRAY, "data", "int16"),
    ],
)
def test_a_message_without_numbers_is_refused(message: object, fields: str, sample_format: str) -> None:
    with pytest.raises(ValueError, match="expected numbers in"):
        SignalReader(type(message), fields, sample_format).values(message)


def test_the_refusal_of_a_long_text_is_short() -> None:
    with pytest.raises(ValueError, match="expected numbers in data: could not convert string") as refused:
        SignalReader(String, "data").values(String(data="[" * 1_000_000))
    assert len(str(refused.value)) < 300


def test_a_message_without_a_header_is_stamped_with_its_arrival() -> None:
    clock = Clock()
    before = clock.now()
    with_header, without = SignalReader(Imu, "angular_velocity.x"), SignalReader(Float32MultiArray, "data")
    assert with_header.header(IMU, clock) == IMU.header
    stamp = without.header(ARRAY, clock).stamp
    assert before.nanoseconds <= stamp.sec * 10**9 + stamp.nanosec <= clock.now().nanoseconds
    assert (with_header.has_header, without.has_header) == (True, False)
