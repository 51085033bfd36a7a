"""Compressed images are decoded to the pixels that OpenCV reads, after a check of their headers."""

from __future__ import annotations

import struct
import zlib

import cv2
import numpy as np
import pytest

from edgetpu_driver.images.compressed_images import MAX_JPEG_SCANS, decode_compressed
from edgetpu_driver.images.compressed_size import jpeg_scans
from edgetpu_driver.images.encodings import ImageError, ImageFault, decode

IMAGE = np.arange(7 * 5 * 3, dtype=np.uint8).reshape(7, 5, 3)


def png(width: int, height: int) -> bytes:
    """A PNG whose header states this size, without pixels."""

    def chunk(name: bytes, content: bytes) -> bytes:
        checksum = zlib.crc32(name + content)
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", checksum)

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IEND", b"")


def test_a_png_is_decoded_exactly() -> None:
    data = cv2.imencode(".png", IMAGE[..., ::-1])[1].tobytes()
    assert np.array_equal(decode_compressed(data, "png"), IMAGE)


def test_a_grey_jpeg_stays_grey() -> None:
    image = np.full((16, 16), 77, np.uint8)
    jpeg = cv2.imencode(".jpg", image)[1]
    assert np.array_equal(decode_compressed(jpeg.tobytes(), "mono8; jpeg compressed "), image)


def test_a_jpeg_has_the_pixels_that_opencv_reads() -> None:
    jpeg = cv2.imencode(".jpg", IMAGE)[1]
    expected = cv2.imdecode(jpeg, cv2.IMREAD_UNCHANGED)[..., ::-1]
    assert np.array_equal(decode_compressed(jpeg.tobytes(), "jpeg"), expected)


def test_a_png_of_16_bits_is_scaled_like_mono16() -> None:
    image = np.array([[0, 128, 129, 256], [32767, 32768, 65406, 65535]], np.uint16)
    data = cv2.imencode(".png", image)[1].tobytes()
    expected = decode("mono16", 2, 4, 8, image.tobytes())
    assert np.array_equal(decode_compressed(data, "mono16; png compressed "), expected)


@pytest.mark.parametrize(
    "data", [b"", b"0123456789", b"\xff\xd8\xff\xe0" + bytes(6)], ids=["none", "text", "cut off"]
)
def test_undecodable_data_is_refused(data: bytes) -> None:
    with pytest.raises(ImageError, match=f"got {len(data)} bytes of 'jpeg'") as caught:
        decode_compressed(data, "jpeg")
    assert caught.value.fault is ImageFault.CONTENT


def test_an_image_of_too_many_pixels_is_refused_before_it_is_decoded() -> None:
    with pytest.raises(ImageError) as raised:
        decode_compressed(png(30000, 20000), "png")
    assert str(raised.value) == "too many pixels: expected at most 67108864; got 30000x20000 = 600000000"


def test_a_jpeg_of_too_many_scans_is_refused() -> None:
    data = cv2.imencode(".jpg", IMAGE, [cv2.IMWRITE_JPEG_PROGRESSIVE, 1])[1].tobytes()
    assert 1 < jpeg_scans(data) <= MAX_JPEG_SCANS
    assert decode_compressed(data).shape == (7, 5, 3)
    more = data[:-2] + MAX_JPEG_SCANS * b"\xff\xda\x00\x02" + data[-2:]
    with pytest.raises(ImageError, match="expected a JPEG of at most 100 scans"):
        decode_compressed(more)
