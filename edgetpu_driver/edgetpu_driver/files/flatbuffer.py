"""Reads untrusted FlatBuffers: every offset is checked, and work is bounded by the file's size.

Tables are described by the names of their fields in the order of the schema, so that errors name the field:

    MODEL = table_fields("version", "subgraphs")
    SUBGRAPH = table_fields("tensors", "name")
    model = read_root(data, b"TFL3", "model", MODEL)
    names = [subgraph.string("name") for subgraph in model.tables("subgraphs", SUBGRAPH)]

An absent field gives the default of its type; ModelFormatError is the only exception raised. The layout is
that of "FlatBuffers Internals": little endian, offsets relative to their own position.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import ModelFormatError

Fields = Mapping[str, int]
"""The index of each field of a table by its name."""

_SHARING = 3
"""Limit of the bytes read from a file, as a multiple of its size. Valid files refer to some vectors and
tables more than once."""

_TABLE_COST = 96
"""Bytes charged for a table in addition to its own, because the Python objects made from it take hundreds: a
small damaged file must not refer to one table a million times."""

_read_int32 = struct.Struct("<i").unpack_from
_OFFSET = struct.Struct("<I")
_read_uint32 = _OFFSET.unpack_from
_SCALARS: dict[type[np.generic], struct.Struct] = {
    np.bool_: struct.Struct("<?"),
    np.int8: struct.Struct("<b"),
    np.uint8: struct.Struct("<B"),
    np.int16: struct.Struct("<h"),
    np.uint16: struct.Struct("<H"),
    np.int32: struct.Struct("<i"),
    np.uint32: struct.Struct("<I"),
    np.int64: struct.Struct("<q"),
    np.uint64: struct.Struct("<Q"),
    np.float32: struct.Struct("<f"),
    np.float64: struct.Struct("<d"),
}
_SMALLEST = 4  # the offset of the root
_VTABLE_START = struct.Struct("<HH")  # the sizes of the vtable and of the table
_VTABLE_HEADER = _VTABLE_START.size
_MOST_FIELDS = 31  # largest number of fields in a table described here
_VTABLES = [struct.Struct(f"<{count}H") for count in range(_MOST_FIELDS + 1)]
"""Formats of the field offsets in a vtable, by the number of fields."""


def table_fields(*names: str) -> Fields:
    """Describe a table: the names of its fields in the order of the schema; a union takes two."""
    return {name: index for index, name in enumerate(names)}


class Buffer:
    """The bytes of one FlatBuffer, and how many more may be read.

    The allowance keeps a small self-referencing file from expanding into a huge model.
    """

    __slots__ = ("allowance", "data", "vtables")

    def __init__(self, data: bytes | memoryview) -> None:
        self.data = memoryview(data)
        self.allowance = _SHARING * len(data) + 65536
        self.vtables: dict[int, tuple[tuple[int, ...], int]] = {}
        """The offsets and the table's size in each vtable read so far, by its position; tables of one kind
        share it."""


def _read_vtable(data: memoryview, position: int) -> tuple[tuple[int, ...], int]:
    """The fields' offsets in a table, and its size; struct.error unless all fields lie inside the table."""
    length, size = _VTABLE_START.unpack_from(data, position)
    count = min(max(length - _VTABLE_HEADER, 0) // 2, _MOST_FIELDS)
    offsets = _VTABLES[count].unpack_from(data, position + _VTABLE_HEADER)
    if max(offsets, default=0) >= max(size, 1):
        raise struct.error
    return offsets, size


class Table:
    """One table; fields are asked for by name."""

    __slots__ = ("_buffer", "_data", "_fields", "_offsets", "_parent", "_position", "_step")

    def __init__(
        self, buffer: Buffer, position: int, fields: Fields, step: str, parent: Table | None = None
    ) -> None:
        """step: path from the parent, e.g. "tensors[3]", for error messages."""
        self._buffer = buffer
        self._data = data = buffer.data
        self._position = position
        self._fields = fields
        self._parent = parent
        self._step = step
        buffer.allowance -= _TABLE_COST
        if buffer.allowance < 0:
            raise self._exhausted()
        try:
            vtable = position - _read_int32(data, position)[0]
            if vtable < 0:  # unpack_from would count it from the end
                raise struct.error
            known = buffer.vtables.get(vtable)
            if known is None:
                known = buffer.vtables[vtable] = _read_vtable(data, vtable)
            self._offsets, size = known
            if position + size > len(data):
                raise struct.error
        except struct.error:
            raise self._outside(position, "") from None

    @property
    def path(self) -> str:
        """Path of the table, e.g. "model.subgraphs[0].tensors[3]"."""
        return self._step if self._parent is None else f"{self._parent.path}.{self._step}"

    def scalar(self, field: str, dtype: type[np.generic], default: int | float = 0) -> Any:
        """A number, as a Python int, float or bool; `default` if absent."""
        index = self._fields[field]
        if index >= len(self._offsets) or not (offset := self._offsets[index]):
            return default
        try:
            return _SCALARS[dtype].unpack_from(self._data, self._position + offset)[0]
        except struct.error:
            raise self._outside(self._position + offset, field) from None

    def string(self, field: str) -> str:
        """A zero-terminated UTF-8 string; "" if absent."""
        end = self.data_offset(field) + len(view := self.view(field))
        if end and (end >= len(self._data) or self._data[end]):
            raise ModelFormatError(f"{self.path}.{field}: expected a zero byte after the string")
        try:
            return str(view, "utf-8")
        except UnicodeDecodeError as error:
            raise ModelFormatError(f"{self.path}.{field}: not UTF-8 ({error})") from None

    def data(self, field: str) -> bytes:
        """A vector of bytes, or a string that holds arbitrary bytes; b"" if absent."""
        return bytes(self.view(field))

    def view(self, field: str) -> memoryview:
        """The bytes without a copy, for a FlatBuffer within this one."""
        return self._vector(field, 1)

    def vector(self, field: str, item_size: int) -> memoryview:
        """A vector of items of `item_size` bytes, without a copy; empty if absent."""
        return self._vector(field, item_size)

    def field_offset(self, field: str) -> int:
        """Byte offset in the file of the field itself: a number, or the offset of a vector; 0 if absent."""
        return self._find(field)

    def data_offset(self, field: str) -> int:
        """Byte offset in the file of the first item of a vector; 0 if absent."""
        position = self._find(field)
        return self._follow(position, field) + 4 if position else 0

    def array(self, field: str, dtype: type[np.generic]) -> NDArray[Any]:
        """A vector of numbers, as a new array; empty if absent."""
        items = self._vector(field, _SCALARS[dtype].size)
        return np.frombuffer(items, np.dtype(dtype).newbyteorder("<")).astype(dtype)

    def integers(self, field: str) -> tuple[int, ...]:
        """A vector of 32-bit signed numbers; empty if absent."""
        items = self._vector(field, 4)
        return struct.unpack(f"<{len(items) // 4}i", items)

    def table(self, field: str, fields: Fields) -> Table | None:
        """A table, or the table a union holds; None if absent."""
        position = self._find(field)
        return Table(self._buffer, self._follow(position, field), fields, field, self) if position else None

    def tables(self, field: str, fields: Fields) -> list[Table]:
        """A vector of tables; empty if absent."""
        return [
            Table(self._buffer, position, fields, f"{field}[{index}]", self)
            for index, position in enumerate(self._targets(field))
        ]

    def table_at(self, field: str, index: int, fields: Fields) -> Table:
        """One table of a vector of tables; ModelFormatError if the index is out of range."""
        position = self._find(field)
        start = self._follow(position, field) if position else 0
        count = len(self._items(start, 4, field)) // 4 if position else 0
        if not 0 <= index < count:
            raise ModelFormatError(f"{self.path}.{field}: {index} of {count}")
        position = start + 4 + 4 * index
        return Table(self._buffer, self._follow(position, field), fields, f"{field}[{index}]", self)

    def views(self, field: str) -> list[memoryview]:
        """A vector of strings that hold arbitrary bytes, without a copy; empty if absent."""
        return [self._items(position, 1, field) for position in self._targets(field)]

    def data_offsets(self, field: str) -> list[int]:
        """Byte offsets in the file of the strings in a vector of strings; empty if absent."""
        return [position + 4 for position in self._targets(field)]

    def _find(self, field: str) -> int:
        """Byte offset of a field's content; 0 if the field is absent."""
        index = self._fields[field]
        offset: int = self._offsets[index] if index < len(self._offsets) else 0
        return self._position + offset if offset else 0

    def _vector(self, field: str, item_size: int) -> memoryview:
        position = self._find(field)
        return self._items(self._follow(position, field), item_size, field) if position else memoryview(b"")

    def _targets(self, field: str) -> Iterator[int]:
        """Targets of the offsets in a vector of offsets."""
        position = self._find(field)
        if position:
            start = self._follow(position, field)
            items = self._items(start, 4, field)
            for index, (offset,) in enumerate(_OFFSET.iter_unpack(items)):
                yield start + 4 + 4 * index + offset

    def _items(self, position: int, item_size: int, field: str) -> memoryview:
        """The items of the vector at a position."""
        data, buffer = self._data, self._buffer
        try:
            count = _read_uint32(data, position)[0]
        except struct.error:
            raise self._outside(position, field) from None
        start, size = position + 4, count * item_size
        if size > len(data) - start:
            raise ModelFormatError(
                f"{self.path}.{field}: {count} items of {item_size} bytes do not fit in the file"
            )
        buffer.allowance -= size
        if buffer.allowance < 0:
            raise self._exhausted(field)
        return data[start : start + size]

    def _follow(self, position: int, field: str) -> int:
        """Target of the offset at a position."""
        try:
            offset: int = _read_uint32(self._data, position)[0]
        except struct.error:
            raise self._outside(position, field) from None
        return position + offset

    def _outside(self, position: int, field: str) -> ModelFormatError:
        what = "the content at" if field else "the table at"
        return ModelFormatError(
            f"{self._named(field)}: {what} byte {position} is outside the {len(self._data)} bytes"
        )

    def _exhausted(self, field: str = "") -> ModelFormatError:
        return ModelFormatError(f"{self._named(field)}: the file refers to the same bytes too often")

    def _named(self, field: str) -> str:
        return f"{self.path}.{field}" if field else self.path


def read_root(data: bytes | memoryview, identifier: bytes, name: str, fields: Fields) -> Table:
    """The root table of a FlatBuffer with a given file identifier; `name` is used in error messages."""
    if data[4:8] != identifier:
        raise ModelFormatError(
            f"{name}: expected the file identifier {identifier.decode()} at byte 4, got {bytes(data[4:8])!r}"
        )
    return nested_root(data, name, fields)


def nested_root(data: bytes | memoryview, name: str, fields: Fields) -> Table:
    """The root table of a FlatBuffer that has no file identifier."""
    if len(data) < _SMALLEST:
        raise ModelFormatError(f"{name}: expected at least {_SMALLEST} bytes, got {len(data)}")
    return Table(Buffer(data), _read_uint32(data)[0], fields, name)
