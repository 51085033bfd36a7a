"""Convert sensor_msgs/Image and CompressedImage to pixels, with cv_bridge if it is installed."""

from __future__ import annotations

import array
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sensor_msgs.msg import CompressedImage, Image
from std_msgs.msg import Header

from edgetpu_driver.images.compressed_images import decode_compressed
from edgetpu_driver.images.encodings import (
    ENCODINGS,
    ImageError,
    ImageFault,
    Pixels,
    check_layout,
    decode,
    is_grey,
    row_bytes,
)
from edgetpu_driver.node_kit.images.serialized_image import SerializedImage

# Not every version of cv_bridge has the newer names of YUV 4:2:2; none converts encodings without a colour.
_BRIDGE_ENCODINGS = frozenset(ENCODINGS) - {"uyvy", "yuyv", "8UC1", "8UC3"}


def _find_cv_bridge() -> Any:
    try:
        from cv_bridge import CvBridge
    except (ImportError, AttributeError):  # AttributeError: built against another NumPy
        return None
    return CvBridge()


_bridge = _find_cv_bridge()


def image_from_message(message: Image | SerializedImage) -> Pixels:
    """Decode an image: uint8 [H, W] for grey encodings, [H, W, 3] RGB for all others. Raises ImageError."""
    encoding, height, width = message.encoding, message.height, message.width
    if _bridge is None or not _bridge_reads(message):
        return decode(encoding, height, width, message.step, message.data, bool(message.is_bigendian))
    check_layout(encoding, height, width, message.step, len(message.data))
    try:
        pixels: Pixels = _bridge.imgmsg_to_cv2(message, "mono8" if is_grey(encoding) else "rgb8")
    except (RuntimeError, TypeError, ValueError) as error:
        raise ImageError(ImageFault.CONTENT, f"cv_bridge: {error}") from error
    return pixels


def image_from_compressed_message(message: CompressedImage) -> Pixels:
    """Decode a compressed image: uint8 [H, W] when it is grey, [H, W, 3] RGB otherwise. Raises ImageError."""
    return decode_compressed(message.data, message.format)


def _bridge_reads(message: Image | SerializedImage) -> bool:
    """Whether cv_bridge reads such an image correctly; in Python it ignores padding and byte order."""
    return (
        message.encoding in _BRIDGE_ENCODINGS
        and not message.is_bigendian
        and message.step == row_bytes(message.encoding, message.width)
    )


def message_from_rgb(header: Header, image: Pixels) -> Image:
    """Make an rgb8 image message of uint8 [H, W, 3]."""
    return _message(header, image, "rgb8")


def message_from_labels(header: Header, labels: NDArray[np.uint8] | NDArray[np.uint16]) -> Image:
    """Make a mono8 or mono16 image message of labels, uint8 or uint16 [H, W]."""
    if labels.dtype == np.uint8:
        return _message(header, labels, "mono8")
    return _message(header, labels.astype("<u2", copy=False), "mono16")


def _message(header: Header, image: NDArray[Any], encoding: str) -> Image:
    height, width = image.shape[:2]
    data = array.array("B")
    # The setter of a uint8[] field takes an array('B') as it is; anything else is copied byte by byte. A
    # copy of the pixels in between, as tobytes() makes it, would cost as much again: its pages are all new.
    data.frombytes(np.ascontiguousarray(image).reshape(-1).view(np.uint8).data)
    return Image(
        header=header, height=height, width=width, encoding=encoding, step=len(data) // height, data=data
    )
