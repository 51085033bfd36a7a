"""How bytes are packed for the bulk endpoints: tagged frames to the device, event packets from it."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

MAX_BULK_WRITE = 1 << 20
"""Most bytes of one bulk transfer to the device."""
HEADER = struct.Struct("<II")
"""Payload length in bytes, then the tag in the low four bits."""
EVENT = struct.Struct("<QIB3x")
"""Device address, length in bytes, then the tag in the low four bits."""


class Tag(IntEnum):
    """What a frame or an event is about."""

    INSTRUCTIONS = 0
    INPUT_ACTIVATIONS = 1
    PARAMETERS = 2
    OUTPUT_ACTIVATIONS = 3
    INTERRUPT_0 = 4
    INTERRUPT_1 = 5
    INTERRUPT_2 = 6
    INTERRUPT_3 = 7


class Frame:
    """A header and its payload in one buffer, made once and sent any number of times."""

    def __init__(self, tag: Tag, payload: bytes | int) -> None:
        """A frame holding these bytes, or that many zero bytes to be written through `payload`."""
        size = payload if isinstance(payload, int) else len(payload)
        content = bytes(size) if isinstance(payload, int) else payload
        self._buffer = array("B", HEADER.pack(size, tag) + content)
        self._pieces = (self._buffer,) if len(self._buffer) <= MAX_BULK_WRITE else ()
        self.payload: NDArray[np.uint8] = np.frombuffer(self._buffer, np.uint8)[HEADER.size :]
        """uint8[size]: a view of the payload, writable."""

    def __len__(self) -> int:
        return len(self._buffer)

    def pieces(self) -> Iterator[array[int]] | tuple[array[int], ...]:
        """The frame in bulk transfers of at most MAX_BULK_WRITE bytes; the first carries the header."""
        if self._pieces:
            return self._pieces
        starts = range(0, len(self._buffer), MAX_BULK_WRITE)
        return (self._buffer[start : start + MAX_BULK_WRITE] for start in starts)


@dataclass(frozen=True)
class Event:
    """One packet of the event endpoint: the device finished what `tag` names."""

    address: int
    length: int
    tag: Tag


def parse_event(packet: bytes | bytearray | memoryview | array[int]) -> Event:
    """Decode the 16 bytes of an event packet; ValueError for a tag that does not exist."""
    address, length, tag = EVENT.unpack(packet)
    return Event(address, length, Tag(tag & 0xF))
