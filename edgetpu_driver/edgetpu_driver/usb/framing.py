"""Framing on the bulk endpoints: tagged frames to the device, event packets from it."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MAX_BULK_WRITE = 1 << 20
"""Maximum size of a bulk transfer to the device, bytes. Uncritical."""
HEADER = struct.Struct("<II")
"""Payload length in bytes, then the tag in the low four bits."""
EVENT = struct.Struct("<QIB3x")
"""Device address, length in bytes, then the tag in the low four bits."""


class Tag(IntEnum):
    """Subject of a frame or an event."""

    INSTRUCTIONS = 0
    INPUT_ACTIVATIONS = 1
    PARAMETERS = 2
    OUTPUT_ACTIVATIONS = 3
    INTERRUPT_0 = 4
    INTERRUPT_1 = 5
    INTERRUPT_2 = 6
    INTERRUPT_3 = 7


class Frame:
    """A header and its payload in one reusable buffer."""

    def __init__(self, tag: Tag, payload: bytes | int) -> None:
        """A frame of the given bytes, or of the given number of zero bytes, writable through `payload`."""
        constant = isinstance(payload, bytes)
        content = payload if isinstance(payload, bytes) else bytes(payload)
        whole = array("B", HEADER.pack(len(content), tag) + content)
        self._size = len(whole)
        self._whole = whole
        self._pieces: tuple[array[int], ...] = (whole,)
        self.payload: NDArray[np.uint8] = np.frombuffer(whole, np.uint8)[HEADER.size :]
        """uint8[size]: a view of the payload; do not write to it if it was given as bytes."""
        if len(whole) > MAX_BULK_WRITE:
            # A writable payload may change until it is sent, so it is split only when it is sent.
            self._pieces = tuple(_cut(whole)) if constant else ()

    def __len__(self) -> int:
        return self._size

    def pieces(self) -> Iterable[array[int]]:
        """The frame in bulk transfers of at most MAX_BULK_WRITE bytes; the first carries the header."""
        return self._pieces or _cut(self._whole)


def _cut(whole: array[int]) -> Iterator[array[int]]:
    starts = range(0, len(whole), MAX_BULK_WRITE)
    return (whole[start : start + MAX_BULK_WRITE] for start in starts)


class Event(NamedTuple):
    """One packet of the event endpoint: the device finished the operation that `tag` names."""

    address: int
    length: int
    tag: Tag


def parse_event(packet: bytes | bytearray | memoryview | array[int]) -> Event:
    """Decode the 16 bytes of an event packet; ValueError for an unknown tag."""
    address, length, tag = EVENT.unpack(packet)
    return Event(address, length, Tag(tag & 0xF))
