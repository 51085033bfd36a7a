"""The size of a compressed image, read from its header before anything is decoded.

A PNG of 1 MB can hold 3 GB of equal pixels, and decoders allocate what the header asks for.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

import numpy as np

FORMATS = "JPEG, PNG, WebP, TIFF or BMP"
"""Formats that `compressed_size` recognises; messages in other formats are not decoded."""

MAX_PIXELS = 2**26
"""Largest number of pixels of a compressed image. Uncritical: 8192 x 8192, more than the cameras of robots
have, takes 192 MiB."""

_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG_SCAN, _JPEG_END = 0xDA, 0xD9
"""Markers of a scan and of the end of the image. Given, like the markers below, by ITU-T T.81, table B.1."""
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""Markers of segments with the size; the three excluded ones mark tables and extensions."""
_JPEG_WITHOUT_LENGTH = frozenset((0x01, *range(0xD0, 0xD9)))
"""Markers TEM, RST0 to RST7 and SOI, which are not followed by a length."""
_MOST_SEGMENTS = 1000
"""Most segments of a JPEG skipped by their length. Uncritical: after them, all scan markers count."""
_PNM = re.compile(rb"P[1-6](?:\s|#[^\n]*\n)+(\d{1,9})(?:\s|#[^\n]*\n)+(\d{1,9})\s")
"""Start of a PBM, PGM or PPM: the format, width and height, with comments between them. Given by Netpbm."""
_TIFF_WIDTH, _TIFF_HEIGHT, _TIFF_ROWS_PER_STRIP, _TIFF_TILE_WIDTH, _TIFF_TILE_HEIGHT = 256, 257, 278, 322, 323
"""Tags. Given by TIFF 6.0."""
_TIFF_VALUES = {3: "H", 4: "I"}
_TIFF_ALL_ROWS = 2**32 - 1
"""Rows per strip if the tag is missing. Given by TIFF 6.0."""


def compressed_size(data: bytes) -> tuple[int, int] | None:
    """Return the width and height in the header, px; None for an unknown format or a damaged header.

    If the tiles or strips of a TIFF are larger than the image, return their size: a decoder allocates one.
    """
    try:
        if data.startswith(_PNG):
            width, height = struct.unpack_from(">II", data, 16)
        elif data.startswith(b"\xff\xd8"):
            width, height = _jpeg_size(data)
        elif data.startswith(b"BM"):
            width, height = _bmp_size(data)
        elif data.startswith(b"RIFF") and data[8:12] == b"WEBP":
            width, height = _webp_size(data)
        elif data[:4] in (b"II*\0", b"MM\0*"):
            width, height = _tiff_size(data)
        else:
            return None
    except (struct.error, LookupError, ValueError):
        return None
    return (width, height) if width > 0 and height > 0 else None


def pnm_size(data: bytes) -> tuple[int, int] | None:
    """Return the width and height in the header of a PBM, PGM or PPM; None for other data."""
    found = _PNM.match(data)
    return (int(found[1]), int(found[2])) if found else None


def jpeg_scans(data: bytes) -> int:
    """Count the scans of a JPEG; a decoder visits every pixel in each. 0 for other formats.

    Data after the end of the image, such as the video that a phone appends to a picture, do not count.
    """
    if not data.startswith(b"\xff\xd8"):
        return 0
    raw = np.frombuffer(data, np.uint8)
    second = raw[1:]
    # Within the data of a scan, 0xFF is followed by 0, or is part of a restart marker.
    segments = np.flatnonzero((raw[:-1] == 0xFF) & (second % 0xFF != 0) & (second & 0xF8 != 0xD0))
    scans, position = 0, 2
    for _ in range(_MOST_SEGMENTS):
        index = int(np.searchsorted(segments, position))
        if index == segments.size:
            return scans
        start = int(segments[index])
        marker = data[start + 1]
        if marker == _JPEG_END:
            return scans
        scans += marker == _JPEG_SCAN
        length = 0 if marker in _JPEG_WITHOUT_LENGTH else int.from_bytes(data[start + 2 : start + 4], "big")
        position = start + 2 + length
    return scans + int(np.count_nonzero(raw[segments[index:] + 1] == _JPEG_SCAN))


def _jpeg_size(data: bytes) -> tuple[int, int]:
    sizes = [struct.unpack_from(">HH", data, start + 5)[::-1] for start in _jpeg_frames(data)]
    return max(sizes, key=lambda size: size[0] * size[1])


def _jpeg_frames(data: bytes) -> Iterator[int]:
    """Yield the offsets of the segments with the size, up to the first scan."""
    position = 2
    while True:
        if data[position] != 0xFF:
            raise ValueError("expected a marker")
        marker = data[position + 1]
        if marker == 0xFF:  # fill byte
            position += 1
            continue
        if marker in (_JPEG_SCAN, _JPEG_END):
            return
        if marker in _JPEG_FRAMES:
            yield position
        skipped = 0 if marker in _JPEG_WITHOUT_LENGTH else struct.unpack_from(">H", data, position + 2)[0]
        position += 2 + skipped


def _bmp_size(data: bytes) -> tuple[int, int]:
    (header,) = struct.unpack_from("<I", data, 14)
    if header == 12:  # OS/2
        width, height = struct.unpack_from("<HH", data, 18)
    else:
        width, height = struct.unpack_from("<ii", data, 18)  # rows from top to bottom: a negative height
    return abs(width), abs(height)


def _webp_size(data: bytes) -> tuple[int, int]:
    kind = data[12:16]
    if kind == b"VP8X":
        return _uint24(data, 24) + 1, _uint24(data, 27) + 1
    if kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", data, 21)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    raise ValueError(f"unknown chunk {kind!r}")


def _uint24(data: bytes, offset: int) -> int:
    if offset + 3 > len(data):
        raise ValueError("ends early")
    return int.from_bytes(data[offset : offset + 3], "little")


def _tiff_size(data: bytes) -> tuple[int, int]:
    order = "<" if data.startswith(b"I") else ">"
    (directory,) = struct.unpack_from(f"{order}I", data, 4)
    (count,) = struct.unpack_from(f"{order}H", data, directory)
    tags: dict[int, int] = {}
    for start in range(directory + 2, directory + 2 + 12 * count, 12):
        tag, kind = struct.unpack_from(f"{order}HH", data, start)
        if kind in _TIFF_VALUES:
            (tags[tag],) = struct.unpack_from(f"{order}{_TIFF_VALUES[kind]}", data, start + 8)
    width, height = tags[_TIFF_WIDTH], tags[_TIFF_HEIGHT]
    rows = tags.get(_TIFF_ROWS_PER_STRIP, _TIFF_ALL_ROWS)
    blocks = (
        (width, height),
        (width, height if rows == _TIFF_ALL_ROWS else rows),
        (tags.get(_TIFF_TILE_WIDTH, 0), tags.get(_TIFF_TILE_HEIGHT, 0)),
    )
    return max(blocks, key=lambda size: size[0] * size[1])
