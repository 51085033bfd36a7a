"""Bitstreams as operations of one word to 17 words, where every operation is of a known length.

Lengths were found by lining up 183 streams of edgetpu_compiler 16, of which 171 parse to their end; the
others stop at an opcode that is not in the table. Many operations (bit 11 is not set) carry a consecutive
number, which shows that a stream was cut at the right places.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from edgetpu_driver.darwinn.instructions.instruction_fields import WORD_BYTES
from edgetpu_driver.errors import ModelFormatError

RING_CONSUMER = 0x11
"""Takes parameters off the ring bus into the memory of tiles."""

_SYNCHRONISE = 0x1A
_SCALAR = (0x00, 0x01, 0x02, 0x03, 0x1E, 0x1F)
_WORDS = {
    **dict.fromkeys((0x01, 0x02, 0x03), 17),
    **dict.fromkeys((0x04, 0x05, 0x07), 2),
    **dict.fromkeys((0x06, 0x10, RING_CONSUMER, 0x12), 4),
    **dict.fromkeys((0x13, 0x14), 7),
    **dict.fromkeys((0x15, 0x16, 0x17, 0x18), 6),
    0x19: 13,
    _SYNCHRONISE: 1,
}
_NUMBERS = 1 << 10


class Operation(NamedTuple):
    """One operation: a little-endian number of all its words."""

    opcode: int
    numbered: bool
    """Whether it has a number; operations of the scalar core and those that cross the link have none."""
    value: int

    def field(self, first: int, last: int) -> int:
        """The bits from `first` to `last`, both included, as a number."""
        return (self.value >> first) & ((1 << (last - first + 1)) - 1)

    @property
    def number(self) -> int:
        """Its consecutive number, modulo 1024, if it is numbered."""
        return self.field(28, 37) if self.opcode == _SYNCHRONISE else self.field(46, 55)


def operations(bitstreams: Iterable[bytes | memoryview]) -> Iterator[Operation]:
    """The operations of all chunks of an executable, in order.

    Raises ModelFormatError, after those before it, at an operation of unknown length, one that is incomplete,
    and one out of number.
    """
    expected = 0
    for data in bitstreams:
        position = 0
        while position < len(data):
            operation, words = _operation(data, position)
            if operation.numbered:
                if operation.number != expected % _NUMBERS:
                    raise ModelFormatError(
                        f"byte {position}: expected operation {expected % _NUMBERS}; got {operation.number}"
                    )
                expected += 1
            yield operation
            position += WORD_BYTES * words


def _operation(data: bytes | memoryview, position: int) -> tuple[Operation, int]:
    """The operation that begins at a byte, and its number of words."""
    word = int.from_bytes(data[position : position + WORD_BYTES], "little")
    opcode, scalar = word >> 6 & 0x1F, bool(word >> 11 & 1)
    words = 1 if scalar and opcode in _SCALAR else _WORDS.get(opcode, 0)
    end = position + WORD_BYTES * words
    if not words or end > len(data):
        raise ModelFormatError(f"byte {position}: expected a known operation; got opcode {opcode:#x}")
    return Operation(opcode, not scalar, int.from_bytes(data[position:end], "little")), words
