"""Reads a sensor_msgs/Image from its serialised form (CDR) without copying the pixels.

rclpy copies the bytes of an image four times on the way to a message, which takes as long as an inference.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from builtin_interfaces.msg import Time
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import Image
from std_msgs.msg import Header

from edgetpu_driver.images.encodings import ImageError, ImageFault

_BYTE_ORDERS = {b"\x00\x00": ">", b"\x00\x01": "<"}
"""By the first two bytes of a message: plain CDR, big or little endian."""

_HEADER_BYTES = 4
"""Bytes before the first field; alignment is counted from their end."""


@dataclass(frozen=True)
class SerializedImage:
    """The fields of a sensor_msgs/Image; `data` is a view of the serialised message."""

    header: Header
    height: int
    width: int
    encoding: str
    is_bigendian: int
    step: int
    data: memoryview


def read_image(message: bytes) -> SerializedImage | Image:
    """Read a serialised sensor_msgs/Image; one in another form than plain CDR is left to rclpy.

    Raises ImageError for a message that cannot be read.
    """
    order = _BYTE_ORDERS.get(message[:2])
    try:
        return deserialize_message(message, Image) if order is None else _read(message, order)
    except Exception as error:  # rclpy's reader and the middleware's have no common class of exceptions
        raise ImageError(
            ImageFault.CONTENT, f"expected a serialised sensor_msgs/Image; got {len(message)} bytes: {error}"
        ) from error


def _read(message: bytes, order: str) -> SerializedImage:
    """Read the fields in their order; 32-bit numbers are aligned to 4 bytes."""
    view = memoryview(message)[_HEADER_BYTES:]
    words = struct.Struct(f"{order}2I")
    seconds, nanoseconds = struct.unpack_from(f"{order}iI", view)
    frame_id, end = _read_string(view, 8, order)
    height, width = words.unpack_from(view, _aligned(end))
    encoding, end = _read_string(view, _aligned(end) + 8, order)
    is_bigendian = view[end] if end < len(view) else _missing()
    step, length = words.unpack_from(view, _aligned(end + 1))
    start = _aligned(end + 1) + 8
    if start + length > len(view):
        _missing()
    header = Header(stamp=Time(sec=seconds, nanosec=nanoseconds), frame_id=frame_id)
    return SerializedImage(header, height, width, encoding, is_bigendian, step, view[start : start + length])


def _read_string(view: memoryview, offset: int, order: str) -> tuple[str, int]:
    """The string at an offset, and the offset of its end; its length includes a zero byte at the end.

    As in rclpy, invalid UTF-8 is replaced, and an empty string may have no byte at all.
    """
    (length,) = struct.unpack_from(f"{order}I", view, offset)
    start = offset + 4
    if start + length > len(view):
        _missing()
    return str(view[start : start + max(length - 1, 0)], "utf-8", "replace"), start + length


def _aligned(offset: int) -> int:
    return (offset + 3) & ~3


def _missing() -> int:
    raise struct.error("the message ends early")
