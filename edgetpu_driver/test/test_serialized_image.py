"""Images are read from their serialised form as rclpy reads them, without copies of their pixels."""

from __future__ import annotations

import array
import struct

import pytest

pytest.importorskip("sensor_msgs", reason="needs ROS 2")

from builtin_interfaces.msg import Time
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import Image
from std_msgs.msg import Header

from edgetpu_driver.images.encodings import ImageError
from edgetpu_driver.node_kit.images.image_messages import image_from_message
from edgetpu_driver.node_kit.images.serialized_image import SerializedImage, read_image

FIELDS = ("header", "height", "width", "encoding", "is_bigendian", "step")


def image(frame_id: str = "camera", encoding: str = "mono8", pixels: bytes = bytes(range(8))) -> Image:
    header = Header(stamp=Time(sec=-3, nanosec=999_999_999), frame_id=frame_id)
    data = array.array("B", pixels)
    return Image(header=header, height=2, width=4, encoding=encoding, is_bigendian=1, step=4, data=data)


@pytest.mark.parametrize("frame_id", ["", "a", "ab", "abc", "abcd", "kamera_für_drohne"])
@pytest.mark.parametrize("encoding", ["", "rgb8", "mono8", "mono16", "8UC1", "bayer_rggb8"])
def test_every_field_is_that_of_the_message(frame_id: str, encoding: str) -> None:
    message = image(frame_id, encoding)
    read = read_image(serialize_message(message))
    assert isinstance(read, SerializedImage)
    assert all(getattr(read, field) == getattr(message, field) for field in FIELDS)
    assert bytes(read.data) == bytes(message.data)


def test_an_image_without_pixels_has_no_data() -> None:
    assert len(read_image(serialize_message(image(pixels=b""))).data) == 0


def test_big_endian_messages_are_read() -> None:
    # The padding after is_bigendian aligns the step.
    fields = struct.pack(">iI I4s II I6s Bx II", 7, 8, 4, b"cam\0", 2, 4, 6, b"mono8\0", 0, 4, 8)
    read = read_image(b"\x00\x00\x00\x00" + fields + bytes(range(8)))
    assert (read.header.stamp.sec, read.header.stamp.nanosec, read.header.frame_id) == (7, 8, "cam")
    assert (read.height, read.width, read.encoding, read.is_bigendian, read.step) == (2, 4, "mono8", 0, 4)
    assert bytes(read.data) == bytes(range(8))


@pytest.mark.parametrize("frame_id", [b"\x04\0\0\0c\xe9m\0", b"\0\0\0\0"], ids=["Latin 1", "no byte"])
def test_other_texts_than_rclpy_writes_are_read_as_rclpy_does(frame_id: bytes) -> None:
    fields = struct.pack("<II I6s Bx II", 2, 4, 6, b"mono8\0", 0, 4, 8)
    message = struct.pack("<4sII", b"\x00\x01\x00\x00", 7, 8) + frame_id + fields + bytes(range(8))
    read, expected = read_image(message), deserialize_message(message, Image)
    assert isinstance(read, SerializedImage)
    assert all(getattr(read, field) == getattr(expected, field) for field in FIELDS)


def test_pixels_are_decoded_from_the_serialised_message_without_a_copy() -> None:
    message = serialize_message(image())
    pixels = image_from_message(read_image(message))
    assert pixels.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert not pixels.flags.owndata
    assert not pixels.flags.writeable


@pytest.mark.parametrize("length", [4, 11, 15, 20, 24, 30, 35, 39, 43, 50])
def test_a_message_that_ends_early_is_refused(length: int) -> None:
    message = bytes(serialize_message(image()))
    assert len(message) == 60
    with pytest.raises(ImageError, match=f"got {length} bytes"):
        read_image(message[:length])
