"""Checks whether the lengths in a serialised message fit into it, without deserialising it.

Format: plain CDR of XCDR version 1, which ROS 2 uses (OMG DDS-XTypes 1.3, 7.4).
"""

from __future__ import annotations

import importlib
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from rosidl_parser.definition import (
    AbstractSequence,
    AbstractString,
    Array,
    BasicType,
    NamespacedType,
)

_HEADER_BYTES = 4
"""The encapsulation: representation and options. Positions and alignment count from its end."""

_LENGTHS = {b"\x00\x00": struct.Struct(">I"), b"\x00\x01": struct.Struct("<I")}
"""The format of lengths by representation: CDR_BE, CDR_LE."""

_BYTES = {
    "boolean": 1,
    "octet": 1,
    "char": 1,
    "uint8": 1,
    "int8": 1,
    "uint16": 2,
    "int16": 2,
    "uint32": 4,
    "int32": 4,
    "float": 4,
    "uint64": 8,
    "int64": 8,
    "double": 8,
}
"""Sizes of numbers, bytes, by the format. A number is aligned to its size."""

_LengthAt = Callable[[memoryview, int], tuple[int]]
"""Reads a length at a position of the data after the header."""

_End = Callable[[memoryview, int, _LengthAt], int]
"""Returns the position after the value that begins at a position of the data.

Raises struct.error or _TooLongError if the value does not fit.
"""


class UnknownTypeError(Exception):
    """A message has a field of a type that is not checked, such as a wide string."""


class _TooLongError(Exception):
    """A sequence has more elements than the rest of the message can hold."""


class _Type(NamedTuple):
    """How long the values of a type are."""

    end: _End
    least: int
    """The fewest bytes that a value takes."""
    size: int = 0
    """Size of a number, bytes; 0 for other types."""


class SerializedLengths:
    """Checks serialised messages of one type."""

    def __init__(self, message_type: type[Any]) -> None:
        """Raises UnknownTypeError if it has a field that cannot be checked."""
        self._end = _message(message_type).end

    def fit(self, data: memoryview) -> bool:
        """Whether all values are within `data`, uint8 [n], which begins with the encapsulation."""
        length = _LENGTHS.get(bytes(data[:2]))
        if length is None or len(data) < _HEADER_BYTES:
            return False
        body = data[_HEADER_BYTES:]
        try:
            return self._end(body, 0, length.unpack_from) <= len(body)
        except (_TooLongError, struct.error):
            return False


def _message(message_type: type[Any]) -> _Type:
    slots = message_type.SLOT_TYPES
    # An empty message has a byte, as C has no empty structures.
    fields = [_type(slot) for slot in slots] if slots else [_numbers(1, 1)]
    ends = tuple(field.end for field in fields)

    def end(data: memoryview, at: int, length_at: _LengthAt) -> int:
        for end_of_field in ends:
            at = end_of_field(data, at, length_at)
        return at

    return _Type(end, sum(field.least for field in fields))


def _type(slot: Any) -> _Type:
    if isinstance(slot, BasicType) and slot.typename in _BYTES:
        return _numbers(_BYTES[slot.typename], 1)
    if isinstance(slot, AbstractString):
        return _Type(_end_of_text, 4)
    if isinstance(slot, AbstractSequence):
        return _sequence(_type(slot.value_type))
    if isinstance(slot, Array):
        element = _type(slot.value_type)
        return _numbers(element.size, slot.size) if element.size else _array(element, slot.size)
    if isinstance(slot, NamespacedType):
        module = importlib.import_module(".".join(slot.namespaces))
        return _message(getattr(module, slot.name))
    raise UnknownTypeError(str(slot))


def _numbers(size: int, count: int) -> _Type:
    """A fixed count of numbers. Whether the last one fits is checked at the end of the message."""

    def end(_data: memoryview, at: int, _length_at: _LengthAt) -> int:
        return (at + size - 1) // size * size + size * count

    return _Type(end, size * count, size if count == 1 else 0)


def _end_of_text(data: memoryview, at: int, length_at: _LengthAt) -> int:
    at = (at + 3) // 4 * 4
    return at + 4 + length_at(data, at)[0]


def _sequence(element: _Type) -> _Type:
    size, least, end_of_element = element.size, element.least, element.end

    def end(data: memoryview, at: int, length_at: _LengthAt) -> int:
        at = (at + 3) // 4 * 4
        count, at = length_at(data, at)[0], at + 4
        if count and size:
            return (at + size - 1) // size * size + size * count
        if count * least > len(data) - at:
            raise _TooLongError
        for _ in range(count):
            at = end_of_element(data, at, length_at)
        return at

    return _Type(end, 4)


def _array(element: _Type, count: int) -> _Type:
    def end(data: memoryview, at: int, length_at: _LengthAt) -> int:
        for _ in range(count):
            at = element.end(data, at, length_at)
        return at

    return _Type(end, element.least * count)
