"""Some frames of a bag as pictures for the report."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from rosbags.typesys import Stores, get_typestore

from demo.bag.image_bag import COMPRESSED_IMAGE, ImageBag, Record
from edgetpu_driver.images.compressed_images import decode_compressed
from edgetpu_driver.images.encodings import (
    ImageError,
    ImageFault,
    Pixels,
    decode,
    to_rgb,
)

WIDEST = 480
"""Greatest width of pictures in the report, px; larger frames are shrunk. Uncritical."""
PICTURES = 60
"""Largest number of pictures of each node in the report. Uncritical."""


@dataclass(frozen=True)
class Frame:
    """A picture as a data URL, and the image that it shows."""

    number: int
    """Number of the image in the bag, from 0."""
    stamp_ns: int
    width: int
    """Width of the full image, px."""
    height: int
    url: str


def evenly_spaced(count: int, wanted: int) -> list[int]:
    """Return at most `wanted` of the numbers below `count`, including the first and the last."""
    return sorted({round(number) for number in np.linspace(0, count - 1, min(count, wanted))})


def read_frames(bag: ImageBag, wanted: int = PICTURES) -> Iterator[Frame]:
    """Yield evenly spaced images of the bag; malformed images are left out."""
    numbers = set(evenly_spaced(bag.topic.count, wanted))
    images = (record for record in bag.records() if record.topic == bag.topic.name)
    for number, record in enumerate(images):
        if number not in numbers:
            continue
        try:
            pixels = decode_record(record)
        except ImageError:
            continue
        height, width = pixels.shape[:2]
        yield Frame(number, record.stamp_ns, width, height, data_url(pixels))


def decode_record(record: Record) -> Pixels:
    """Decode the image of a record to RGB; raises ImageError for a malformed image."""
    try:
        message: Any = get_typestore(Stores.ROS2_JAZZY).deserialize_cdr(record.cdr, record.type)
    except Exception as error:  # the parser raises errors of many types for a damaged message
        raise ImageError(ImageFault.CONTENT, f"expected a {record.type}; got {error}") from error
    if record.type == COMPRESSED_IMAGE:
        return to_rgb(decode_compressed(message.data, message.format))
    bigendian = bool(message.is_bigendian)
    return to_rgb(
        decode(message.encoding, message.height, message.width, message.step, message.data, bigendian)
    )


def data_url(pixels: Pixels) -> str:
    """Encode an RGB image, uint8 [height, width, 3], as a JPEG in a data URL, shrunk to WIDEST."""
    height, width = pixels.shape[:2]
    if width > WIDEST:
        size = (WIDEST, max(1, round(height * WIDEST / width)))
        pixels = np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), np.uint8)
    _, jpeg = cv2.imencode(".jpg", cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, 80])
    return "data:image/jpeg;base64," + base64.b64encode(jpeg.tobytes()).decode()
