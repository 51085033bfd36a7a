"""The size of a compressed image is read from its header."""

from __future__ import annotations

import struct

import cv2
import numpy as np
import pytest

from edgetpu_driver.images.compressed_images import decode_compressed
from edgetpu_driver.images.compressed_size import compressed_size, jpeg_scans, pnm_size
from edgetpu_driver.images.encodings import ImageError, ImageFault

IMAGE = np.arange(7 * 5 * 3, dtype=np.uint8).reshape(7, 5, 3)


@pytest.mark.parametrize("extension", [".png", ".jpg", ".webp", ".tiff", ".bmp"])
def test_every_format_states_its_size(extension: str) -> None:
    data = cv2.imencode(extension, IMAGE)[1].tobytes()
    assert compressed_size(data) == (5, 7)
    assert decode_compressed(data).shape == (7, 5, 3)


def test_lossless_webp_states_its_size() -> None:
    data = cv2.imencode(".webp", IMAGE, [cv2.IMWRITE_WEBP_QUALITY, 101])[1].tobytes()
    assert compressed_size(data) == (5, 7)


@pytest.mark.parametrize("extension", [".png", ".jpg", ".webp", ".tiff", ".bmp"])
def test_a_header_that_ends_early_has_no_size(extension: str) -> None:
    data = cv2.imencode(extension, IMAGE)[1].tobytes()
    for length in range(12):
        assert compressed_size(data[:length]) is None


@pytest.mark.parametrize("data", [b"", b"\xff\xd8\xff" + bytes(100), b"GIF89a" + bytes(100), b"\x76/1\x01"])
def test_other_formats_have_no_size_and_are_not_decoded(data: bytes) -> None:
    assert compressed_size(data) is None
    with pytest.raises(ImageError, match="expected a JPEG, PNG, WebP, TIFF or BMP image") as raised:
        decode_compressed(data, "png")
    assert raised.value.fault is ImageFault.CONTENT


def test_the_largest_of_several_sizes_in_a_jpeg_counts() -> None:
    data = cv2.imencode(".jpg", IMAGE)[1].tobytes()
    second = b"\xff\xc0" + struct.pack(">HBHHB", 8, 8, 60000, 50000, 0)
    assert compressed_size(data[:2] + second + data[2:]) == (50000, 60000)


def test_the_strips_of_a_tiff_count_if_they_are_larger_than_the_image() -> None:
    def entry(tag: int, value: int) -> bytes:
        return struct.pack("<HHII", tag, 4, 1, value)

    entries = [entry(256, 5), entry(257, 7), entry(278, 1_000_000)]
    data = b"II*\0" + struct.pack("<IH", 8, len(entries)) + b"".join(entries)
    assert compressed_size(data) == (5, 1_000_000)


@pytest.mark.parametrize("flags", [[], [cv2.IMWRITE_JPEG_PROGRESSIVE, 1], [cv2.IMWRITE_JPEG_RST_INTERVAL, 1]])
def test_what_follows_the_end_of_a_jpeg_holds_no_scans(flags: list[int]) -> None:
    data = cv2.imencode(".jpg", np.tile(IMAGE, (9, 9, 1)), flags)[1].tobytes()
    film = np.random.default_rng(1).integers(0, 256, 2**23, np.uint8).tobytes()
    assert jpeg_scans(data + film) == jpeg_scans(data)
    assert decode_compressed(data + film).shape == (63, 45, 3)


def test_a_jpeg_of_very_many_segments_is_counted_at_once() -> None:
    data = cv2.imencode(".jpg", IMAGE)[1].tobytes()
    comments = 100_000 * b"\xff\xfe\x00\x02"
    assert jpeg_scans(data[:2] + comments + data[2:]) == 1


@pytest.mark.parametrize(
    ("data", "size"),
    [(b"P5\n5 7\n255\n", (5, 7)), (b"P1 # 1 2\n# 3\n 5\t7 ", (5, 7)), (b"P7\n5 7\n", None), (b"P5 5", None)],
)
def test_the_size_of_a_pnm_is_read(data: bytes, size: tuple[int, int] | None) -> None:
    assert pnm_size(data) == size
