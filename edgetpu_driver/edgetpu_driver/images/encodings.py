"""Decoding of ROS image encodings and compressed images to grey or RGB pixels.

The result equals cv_bridge's conversion to "mono8" or "rgb8": colour codes of cv::cvtColor, and 16 to 8 bits
by a factor of 255/65535 with rounding.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import EdgeTpuError, InputError
from edgetpu_driver.images.compressed_size import (
    FORMATS,
    MAX_PIXELS,
    compressed_size,
    jpeg_scans,
    pnm_size,
)

MAX_JPEG_SCANS = 100
"""Largest number of scans of a JPEG. Uncritical: it limits the time; usual progressive images have ten."""

Pixels = NDArray[np.uint8]
"""Grey [H, W] or RGB [H, W, 3]."""


class ImageFault(enum.Enum):
    """The kind of fault of an image."""

    EMPTY = "empty"
    ENCODING = "unknown encoding"
    STEP = "wrong step"
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
        raise ImageError(ImageFault.STEP, f"expected an even width for {encoding}; got {width}")
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
    return _to_8_bits(pixels)


def decode_compressed(data: Any, format_: str = "") -> Pixels:
    """Decode the data of a sensor_msgs/CompressedImage: JPEG, PNG, WebP, TIFF or BMP.

    Returns uint8 [height, width] for a grey image, otherwise [height, width, 3] RGB. `format_` is the
    message's field and used in the error message only. Raises ImageError, before anything is decoded for an
    image of more than MAX_PIXELS.
    """
    raw = np.frombuffer(data, np.uint8)
    check_compressed(raw.tobytes(), format_)
    try:
        # IMREAD_UNCHANGED like cv_bridge: no conversion to grey in the decoder and no EXIF rotation.
        pixels = cv2.imdecode(raw, cv2.IMREAD_UNCHANGED)
    except cv2.error:
        pixels = None
    if pixels is None or pixels.dtype not in (np.uint8, np.uint16):
        raise _undecodable(raw.size, format_)
    if pixels.ndim == 3:
        codes = {3: cv2.COLOR_BGR2RGB, 4: cv2.COLOR_BGRA2RGB}
        if pixels.shape[2] not in codes:
            raise _undecodable(raw.size, format_)
        pixels = cv2.cvtColor(pixels, codes[pixels.shape[2]])
    return _to_8_bits(pixels)


def check_compressed(data: bytes, format_: str = "") -> None:
    """Raise ImageError unless the header is that of an image which may be decoded."""
    size = compressed_size(data)
    if size is None:
        raise _undecodable(len(data), format_)
    width, height = size
    if width * height > MAX_PIXELS:
        raise ImageError(
            ImageFault.SIZE, f"expected at most {MAX_PIXELS}; got {width}x{height} = {width * height}"
        )
    scans = jpeg_scans(data)
    if scans > MAX_JPEG_SCANS:
        raise ImageError(
            ImageFault.CONTENT, f"expected a JPEG of at most {MAX_JPEG_SCANS} scans; got {scans}"
        )


def _undecodable(length: int, format_: str) -> ImageError:
    return ImageError(
        ImageFault.CONTENT, f"expected a {FORMATS} image; got {length} bytes of '{format_[:100]}'"
    )


def decode_file(data: bytes, name: str, flags: int) -> Pixels:
    """Decode the content of an image file.

    `name` is for the error message, `flags` are those of cv2.imdecode: IMREAD_GRAYSCALE gives uint8 [height,
    width], IMREAD_COLOR uint8 [height, width, 3] BGR. PBM, PGM and PPM are read too. Raises InputError,
    before anything is decoded for an image that `decode_compressed` would refuse.
    """
    size = compressed_size(data) or pnm_size(data)
    if size is None:
        raise InputError(f"{name} is not an image: expected {FORMATS}, or PBM, PGM or PPM")
    width, height = size
    if width * height > MAX_PIXELS:
        raise InputError(f"expected at most {MAX_PIXELS} px; {name} has {width}x{height}")
    if jpeg_scans(data) > MAX_JPEG_SCANS:
        raise InputError(f"{name}: expected a JPEG of at most {MAX_JPEG_SCANS} scans")
    try:
        pixels = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    except cv2.error:
        pixels = None
    if pixels is None:
        raise InputError(f"{name} is damaged: OpenCV cannot decode it")
    return np.asarray(pixels, np.uint8)


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


def _to_8_bits(pixels: NDArray[Any]) -> Pixels:
    return pixels if pixels.dtype == np.uint8 else cv2.convertScaleAbs(pixels, alpha=255.0 / 65535.0)
