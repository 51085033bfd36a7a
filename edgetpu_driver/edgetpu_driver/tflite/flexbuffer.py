"""FlexBuffers, the schema-less format of custom operators' options: decode and encode.

Values are None, bool, int, float, bytes, lists, and dicts with str keys. Strings decode to bytes, because the
vendor's compiler stores a binary package as one, and bytes encode to strings for the same reason. The layout
and the choice of widths are those of "FlatBuffers Internals: FlexBuffers" and its reference implementation.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from edgetpu_driver.errors import ModelFormatError

Value = bool | int | float | bytes | memoryview | Sequence["Value"] | Mapping[str, "Value"] | None

_MAX_DEPTH = 32
"""Maximum nesting depth. The options read here are one map; a cycle would never end."""


class _Type(IntEnum):
    NULL = 0
    INT = 1
    UINT = 2
    FLOAT = 3
    KEY = 4
    STRING = 5
    INDIRECT_INT = 6
    INDIRECT_UINT = 7
    INDIRECT_FLOAT = 8
    MAP = 9
    VECTOR = 10
    VECTOR_INT = 11
    VECTOR_UINT = 12
    VECTOR_FLOAT = 13
    VECTOR_KEY = 14
    BLOB = 25
    BOOL = 26
    VECTOR_BOOL = 36


_INLINE = (_Type.NULL, _Type.INT, _Type.UINT, _Type.FLOAT, _Type.BOOL)
_ELEMENT_TYPE = {
    _Type.VECTOR_INT: _Type.INT,
    _Type.VECTOR_UINT: _Type.UINT,
    _Type.VECTOR_FLOAT: _Type.FLOAT,
    _Type.VECTOR_KEY: _Type.KEY,
    _Type.VECTOR_BOOL: _Type.BOOL,
}
_POINTED_TO = {
    _Type.INDIRECT_INT: _Type.INT,
    _Type.INDIRECT_UINT: _Type.UINT,
    _Type.INDIRECT_FLOAT: _Type.FLOAT,
}
_SIGNED = {1: struct.Struct("<b"), 2: struct.Struct("<h"), 4: struct.Struct("<i"), 8: struct.Struct("<q")}
_UNSIGNED = {1: struct.Struct("<B"), 2: struct.Struct("<H"), 4: struct.Struct("<I"), 8: struct.Struct("<Q")}
_OBJECT_COST = 8  # an empty string or vector is still an object
_COST = {_Type.KEY: 3, **dict.fromkeys(_INLINE, 1)}
_FLOOR = 1024
"""Minimum cost limit, so that a small buffer with a few shared values is never refused."""
_ZERO = re.compile(b"\0")
_FLOATS = {2: struct.Struct("<e"), 4: struct.Struct("<f"), 8: struct.Struct("<d")}
_LAYOUTS = {_Type.INT: _SIGNED, _Type.FLOAT: _FLOATS}
_TYPES = {int(kind): kind for kind in _Type}


def decode(data: bytes | memoryview) -> Any:
    """Decode a FlexBuffer; ModelFormatError if it is malformed.

    Strings in a memoryview decode to views of it, without a copy.
    """
    return _Decoder(data).root()


def encode(value: Value) -> bytes:
    """Encode a value as a FlexBuffer with the smallest possible widths."""
    return _Encoder().finish(value)


class _Decoder:
    def __init__(self, data: bytes | memoryview) -> None:
        self._data = data
        # Values that share bytes must not expand into a huge value.
        self._allowance = 2 * len(data) + _FLOOR

    def root(self) -> Any:
        if len(self._data) < 3:
            raise ModelFormatError(f"FlexBuffer: expected 3 bytes or more, got {len(self._data)}")
        packed_type, width = self._data[-2:]
        if width not in _UNSIGNED:
            raise ModelFormatError(f"FlexBuffer: expected a width of 1, 2, 4 or 8 for the root, got {width}")
        return self._value(len(self._data) - 2 - width, width, packed_type, 0)

    def _value(self, position: int, width: int, packed_type: int, depth: int) -> Any:
        """Decode the element of the given width at a position."""
        kind = _TYPES.get(packed_type >> 2)
        if kind is None:
            raise ModelFormatError(f"FlexBuffer: unknown type {packed_type >> 2} at byte {position}")
        if depth > _MAX_DEPTH:
            raise ModelFormatError(f"FlexBuffer: nested deeper than {_MAX_DEPTH}")
        self._spend(_COST.get(kind, _OBJECT_COST))
        if kind in _INLINE:
            return self._number(kind, position, width)
        target, child_width = self._follow(position, width), 1 << (packed_type & 3)
        if kind in _POINTED_TO:
            return self._number(_POINTED_TO[kind], target, child_width)
        if kind is _Type.KEY:
            return self._key(target)
        if kind is _Type.MAP:
            return self._map(target, child_width, depth)
        count = self._scalar(_UNSIGNED, target - child_width, child_width)
        if kind in (_Type.STRING, _Type.BLOB):
            return self._slice(target, count)
        return self._vector(target, child_width, count, _ELEMENT_TYPE.get(kind), depth)

    def _vector(self, start: int, width: int, count: int, element: _Type | None, depth: int) -> list[Any]:
        if element is None:
            types: bytes | memoryview = self._slice(start + count * width, count)
        else:
            self._spend(count)
            types = bytes([element << 2]) * count
        return [
            self._value(start + index * width, width, each, depth + 1) for index, each in enumerate(types)
        ]

    def _map(self, start: int, width: int, depth: int) -> dict[str, Any]:
        """Decode a map: the offset of the keys and the width of the key offsets precede its values."""
        keys = self._follow(start - 3 * width, width)
        key_width = self._scalar(_UNSIGNED, start - 2 * width, width)
        if key_width not in _UNSIGNED:
            raise ModelFormatError(f"FlexBuffer: keys of width {key_width} at byte {keys}")
        count = self._scalar(_UNSIGNED, start - width, width)
        if self._scalar(_UNSIGNED, keys - key_width, key_width) != count:
            raise ModelFormatError(
                f"FlexBuffer: {count} values at byte {start} with a different number of keys"
            )
        values = self._vector(start, width, count, None, depth)
        names = self._vector(keys, key_width, count, _Type.KEY, depth)
        return dict(zip(names, values, strict=True))

    def _key(self, start: int) -> str:
        end = _ZERO.search(self._data, start)
        if end is None:
            raise ModelFormatError(f"FlexBuffer: the key at byte {start} has no end")
        try:
            return str(self._slice(start, end.start() - start), "utf-8")
        except UnicodeDecodeError:
            raise ModelFormatError(f"FlexBuffer: the key at byte {start} is not UTF-8") from None

    def _number(self, kind: _Type, position: int, width: int) -> bool | int | float | None:
        if kind is _Type.NULL:
            return None
        number: int | float = self._scalar(_LAYOUTS.get(kind, _UNSIGNED), position, width)
        return bool(number) if kind is _Type.BOOL else number

    def _follow(self, position: int, width: int) -> int:
        """The target of the offset at a position; offsets point backwards."""
        target = position - int(self._scalar(_UNSIGNED, position, width))
        if target < 0:
            raise ModelFormatError(f"FlexBuffer: the offset at byte {position} points before the start")
        return target

    def _scalar(self, layouts: Mapping[int, struct.Struct], position: int, width: int) -> Any:
        if width not in layouts or not 0 <= position <= len(self._data) - width:
            raise ModelFormatError(f"FlexBuffer: no number of {width} bytes at byte {position}")
        return layouts[width].unpack_from(self._data, position)[0]

    def _slice(self, start: int, size: int) -> bytes | memoryview:
        if size > len(self._data) - start:
            raise ModelFormatError(f"FlexBuffer: {size} bytes at byte {start} do not fit")
        self._spend(size)
        return self._data[start : start + size]

    def _spend(self, size: int) -> None:
        self._allowance -= size
        if self._allowance < 0:
            raise ModelFormatError("FlexBuffer: refers to the same bytes too often")


class _Element(NamedTuple):
    """An element of a vector: an inline number, or the position of content already written."""

    kind: _Type
    width: int
    """Width of the number, or of the content's own elements, bytes."""
    content: int | float

    @property
    def is_offset(self) -> bool:
        return self.kind not in _INLINE

    def width_at(self, position: int, index: int) -> int:
        """Width in bytes of the element at `index` of a vector that starts at or after a position."""
        if not self.is_offset:
            return self.width
        for width in _UNSIGNED:
            element = _aligned(position, width) + index * width
            if _width(element - int(self.content)) <= width:
                return width
        raise ValueError("FlexBuffer: too large")

    def packed_type(self, vector_width: int) -> int:
        width = self.width if self.is_offset else max(self.width, vector_width)
        return self.kind << 2 | width.bit_length() - 1


class _Encoder:
    def __init__(self) -> None:
        self._data = bytearray()

    def finish(self, value: Value) -> bytes:
        root = self._add(value)
        width = root.width_at(len(self._data), 0)
        self._align(width)
        self._write(root, width)
        self._data += bytes([root.packed_type(width), width])
        return bytes(self._data)

    def _add(self, value: Value) -> _Element:
        """Write content that is not inline and return its element."""
        if value is None:
            return _Element(_Type.NULL, 1, 0)
        if isinstance(value, bool):
            return _Element(_Type.BOOL, 1, int(value))
        if isinstance(value, int):
            # Two's complement: one bit more than the magnitude.
            return _Element(_Type.INT, _width(2 * value if value >= 0 else -2 * value - 1), value)
        if isinstance(value, float):
            return _Element(_Type.FLOAT, 4 if _is_single(value) else 8, value)
        if isinstance(value, bytes | memoryview):
            return self._string(value)
        if isinstance(value, Mapping):
            return self._map(value)
        return self._vector(_Type.VECTOR, [self._add(item) for item in value])

    def _string(self, value: bytes | memoryview) -> _Element:
        width = _width(len(value))
        self._align(width)
        self._data += len(value).to_bytes(width, "little")
        position = len(self._data)
        self._data += value
        self._data += b"\0"
        return _Element(_Type.STRING, width, position)

    def _map(self, value: Mapping[str, Value]) -> _Element:
        keys, values = [], []
        for key in sorted(value, key=str.encode):
            keys.append(_Element(_Type.KEY, 1, len(self._data)))
            self._data += key.encode() + b"\0"
            values.append(self._add(value[key]))
        return self._vector(_Type.MAP, values, self._vector(_Type.VECTOR_KEY, keys))

    def _vector(self, kind: _Type, items: Sequence[_Element], keys: _Element | None = None) -> _Element:
        start, prefix = len(self._data), 3 if keys else 1
        widths = [item.width_at(start, prefix + index) for index, item in enumerate(items)]
        width = max(_width(len(items)), *widths, keys.width_at(start, 0) if keys else 1)
        self._align(width)
        if keys:
            self._write(keys, width)
            self._data += keys.width.to_bytes(width, "little")
        self._data += len(items).to_bytes(width, "little")
        position = len(self._data)
        for item in items:
            self._write(item, width)
        if kind in (_Type.VECTOR, _Type.MAP):
            self._data += bytes(item.packed_type(width) for item in items)
        return _Element(kind, width, position)

    def _write(self, item: _Element, width: int) -> None:
        if item.is_offset:
            self._data += (len(self._data) - int(item.content)).to_bytes(width, "little")
        elif item.kind is _Type.FLOAT:
            self._data += _FLOATS[width].pack(item.content)
        else:
            self._data += int(item.content).to_bytes(width, "little", signed=item.kind is _Type.INT)

    def _align(self, width: int) -> None:
        self._data += bytes(_aligned(len(self._data), width) - len(self._data))


def _is_single(value: float) -> bool:
    """Whether float32 holds the value exactly."""
    try:
        return bool(_FLOATS[4].unpack(_FLOATS[4].pack(value))[0] == value)
    except OverflowError:
        return False


def _width(number: int) -> int:
    """Bytes needed for a number: 1, 2, 4 or 8."""
    return next(width for width in _UNSIGNED if number < 256**width)


def _aligned(position: int, width: int) -> int:
    return -(-position // width) * width
