"""Decoding of ROS image encodings to grey or RGB pixels.

The result equals cv_bridge's conversion to "mono8" or "rgb8": the same codes of cv::cvtColor, and 16 bits are
scaled to 8 by 255/65535 with rounding.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import EdgeTpuError

Pixels = NDArray[np.uint8]
"""Grey [H, W] or RGB [H, W, 3]."""


class ImageFault(enum.Enum):
    """The kind of fault of an image."""

    EMPTY = "empty"
    ENCODING = "unknown encoding"
    STEP = "wrong step"
    WIDTH = "wrong width"
    LENGTH = "wrong data length"
    CONTENT = "undecodable data"
    SIZE = "too many pixels"
    MASK = "wrong mask"
    REGION = "region outside the image"


class ImageError(EdgeTpuError, ValueError):
    """A malformed image. The message says what was expected and what came, `fault` the kind."""

    def __init__(self, fault: ImageFault, message: str) -> None:
        super().__init__(f"{fault.value}: {message}")
        self.fault, self.reason = fault, message


@dataclass(frozen=True)
class _Encoding:
    """Memory layout of one encoding, and the OpenCV code of its conversion to grey or RGB."""

    dtype: type[np.uint8] | type[np.uint16]
    channels: int
    conversion: int | None = None
    even_width: bool = False


_ENCODINGS = {  # by name in sensor_msgs/image_encodings.hpp
    "mono8": _Encoding(np.uint8, 1),
    "mono16": _Encoding(np.uint16, 1),
    "rgb8": _Encoding(np.uint8, 3),
    "rgb16": _Encoding(np.uint16, 3),
    "bgr8": _Encoding(np.uint8, 3, cv2.COLOR_BGR2RGB),
    "bgr16": _Encoding(np.uint16, 3, cv2.COLOR_BGR2RGB),
    "rgba8": _Encoding(np.uint8, 4, cv2.COLOR_RGBA2RGB),
    "rgba16": _Encoding(np.uint16, 4, cv2.COLOR_RGBA2RGB),
    "bgra8": _Encoding(np.uint8, 4, cv2.COLOR_BGRA2RGB),
    "bgra16": _Encoding(np.uint16, 4, cv2.COLOR_BGRA2RGB),
    # OpenCV names a Bayer pattern after the second and third pixel of its second row, ROS after the first two
    # pixels of its first two rows.
    "bayer_rggb8": _Encoding(np.uint8, 1, cv2.COLOR_BayerBG2RGB),
    "bayer_bggr8": _Encoding(np.uint8, 1, cv2.COLOR_BayerRG2RGB),
    "bayer_gbrg8": _Encoding(np.uint8, 1, cv2.COLOR_BayerGR2RGB),
    "bayer_grbg8": _Encoding(np.uint8, 1, cv2.COLOR_BayerGB2RGB),
    "bayer_rggb16": _Encoding(np.uint16, 1, cv2.COLOR_BayerBG2RGB),
    "bayer_bggr16": _Encoding(np.uint16, 1, cv2.COLOR_BayerRG2RGB),
    "bayer_gbrg16": _Encoding(np.uint16, 1, cv2.COLOR_BayerGR2RGB),
    "bayer_grbg16": _Encoding(np.uint16, 1, cv2.COLOR_BayerGB2RGB),
    # The first name of each pair is deprecated in sensor_msgs.
    "yuv422": _Encoding(np.uint8, 2, cv2.COLOR_YUV2RGB_UYVY, even_width=True),
    "uyvy": _Encoding(np.uint8, 2, cv2.COLOR_YUV2RGB_UYVY, even_width=True),
    "yuv422_yuy2": _Encoding(np.uint8, 2, cv2.COLOR_YUV2RGB_YUY2, even_width=True),
    "yuyv": _Encoding(np.uint8, 2, cv2.COLOR_YUV2RGB_YUY2, even_width=True),
    # Names that cv_bridge gives to arrays without an encoding. OpenCV's images are BGR.
    "8UC1": _Encoding(np.uint8, 1),
    "8UC3": _Encoding(np.uint8, 3, cv2.COLOR_BGR2RGB),
}
ENCODINGS = tuple(_ENCODINGS)


def is_grey(encoding: str) -> bool:
    """Whether `decode` returns a grey image [H, W] for this encoding."""
    return encoding in ("mono8", "mono16", "8UC1")


def row_bytes(encoding: str, width: int) -> int:
    """Bytes of one row of `width` px without padding. Raises ImageError for an unknown encoding."""
    layout = _ENCODINGS.get(encoding)
    if layout is None:
        raise ImageError(
            ImageFault.ENCODING, f"expected one of {', '.join(ENCODINGS)}; got '{encoding[:100]}'"
        )
    return width * layout.channels * np.dtype(layout.dtype).itemsize


def check_layout(encoding: str, height: int, width: int, step: int, length: int) -> None:
    """Raise ImageError unless `length` bytes, `step` bytes a row, fit an image of this size and encoding."""
    if height <= 0 or width <= 0:
        raise ImageError(ImageFault.EMPTY, f"expected at least one pixel; got {width}x{height}")
    row = row_bytes(encoding, width)
    if _ENCODINGS[encoding].even_width and width % 2:
        raise ImageError(ImageFault.WIDTH, f"expected an even width for {encoding}; got {width}")
    if step < row:
        raise ImageError(ImageFault.STEP, f"expected at least {row} bytes a row for {encoding}; got {step}")
    if length != height * step:
        raise ImageError(
            ImageFault.LENGTH, f"expected {height} rows of {step} = {height * step} bytes; got {length}"
        )


def decode(encoding: str, height: int, width: int, step: int, data: Any, bigendian: bool = False) -> Pixels:
    """Decode the fields of a sensor_msgs/Image.

    `data` is a buffer of height * step bytes; `bigendian` matters for 16-bit encodings only. Returns uint8
    [height, width] for mono8, mono16 and 8UC1, otherwise uint8 [height, width, 3] RGB. The array may share
    memory with `data`. Raises ImageError.
    """
    raw = np.frombuffer(data, np.uint8)
    check_layout(encoding, height, width, step, raw.size)
    layout = _ENCODINGS[encoding]
    dtype = np.dtype(layout.dtype).newbyteorder(">" if bigendian else "<")
    rows = raw.reshape(height, step)[:, : row_bytes(encoding, width)]
    pixels = rows if dtype.itemsize == 1 else np.ascontiguousarray(rows).view(dtype).astype(layout.dtype)
    if layout.channels > 1:
        pixels = pixels.reshape(height, width, layout.channels)
    if layout.conversion is not None:
        pixels = _convert(encoding, pixels, layout.conversion)
    return to_8_bits(pixels)


def to_grey(image: Pixels) -> Pixels:
    """Convert uint8 [H, W, 3] RGB to luma [H, W] (0.299 R + 0.587 G + 0.114 B, rounded); keep [H, W]."""
    return image if image.ndim == 2 else cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)


def to_rgb(image: Pixels) -> Pixels:
    """Convert uint8 [H, W] to [H, W, 3] with three equal channels; keep [H, W, 3]."""
    return image if image.ndim == 3 else cv2.cvtColor(image, cv2.COLOR_GRAY2RGB)


def check_image(image: Any) -> Pixels:
    """Return `image` if it is uint8 [H, W] or [H, W, 3] with at least one pixel; else raise ImageError."""
    array = np.asarray(image)
    if array.dtype != np.uint8 or not (array.ndim == 2 or (array.ndim == 3 and array.shape[2] == 3)):
        raise ImageError(
            ImageFault.ENCODING,
            f"expected uint8 [H, W] or [H, W, 3]; got {array.dtype.name}{list(array.shape)}",
        )
    if not array.size:
        raise ImageError(ImageFault.EMPTY, f"expected at least one pixel; got {list(array.shape)}")
    return array


def _convert(encoding: str, pixels: NDArray[Any], code: int) -> NDArray[Any]:
    try:
        converted: NDArray[Any] = cv2.cvtColor(pixels, code)
        return converted
    except cv2.error as error:
        raise ImageError(
            ImageFault.CONTENT, f"expected an image that OpenCV converts from {encoding}; got {error}"
        ) from error


def to_8_bits(pixels: NDArray[Any]) -> Pixels:
    """Scale uint16 pixels of any shape by 255/65535 and round them; keep uint8."""
    return pixels if pixels.dtype == np.uint8 else cv2.convertScaleAbs(pixels, alpha=255.0 / 65535.0)
