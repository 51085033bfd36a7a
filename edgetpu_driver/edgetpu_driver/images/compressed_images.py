"""Decoding of compressed images (JPEG, PNG and others), from messages and files, to pixels.

The header is checked first, because decoders allocate what it asks for. Pixels are the same as in cv_bridge.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np

from edgetpu_driver.errors import InputError
from edgetpu_driver.images.compressed_size import (
    FORMATS,
    MAX_PIXELS,
    compressed_size,
    jpeg_scans,
    pnm_size,
)
from edgetpu_driver.images.encodings import ImageError, ImageFault, Pixels, to_8_bits

MAX_JPEG_SCANS = 100
"""Largest number of scans of a JPEG. Uncritical: it limits the time; usual progressive images have ten."""


def decode_compressed(data: Any, format_: str = "") -> Pixels:
    """Decode the data of a sensor_msgs/CompressedImage: JPEG, PNG, WebP, TIFF or BMP.

    Returns uint8 [height, width] for a grey image, otherwise [height, width, 3] RGB. `format_` is the
    message's field and used in the error message only. Raises ImageError; an image of more than MAX_PIXELS
    or MAX_JPEG_SCANS is refused before it is decoded.
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
    return to_8_bits(pixels)


def check_compressed(data: bytes, format_: str = "") -> None:
    """Raise ImageError unless the header has a known format and keeps to MAX_PIXELS and MAX_JPEG_SCANS."""
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
    width], IMREAD_COLOR uint8 [height, width, 3] BGR. PBM, PGM and PPM are read too. Raises InputError, with
    the same limits as `decode_compressed`.
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
