"""Reads FlatBuffers of unknown origin: every offset is checked, and the work is bounded by the file's size.

Tables are described by the names of their fields in the order of the schema, so that errors name the place:

    MODEL = ("version", "subgraphs")
    SUBGRAPH = ("tensors", "name")
    model = read_root(data, b"TFL3", "model", MODEL)
    names = [subgraph.string("name") for subgraph in model.tables("subgraphs", SUBGRAPH)]

An absent field gives the default of its type; ModelFormatError is the only exception. The layout is that of
"FlatBuffers Internals": little endian, offsets relative to where they stand.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from edgetpu_driver.errors import ModelFormatError

_TABLE_COST = (
    8  # the fewest bytes a table takes in an honest file: its own offset and the one that leads to it
)
_SHARING = 4  # honest files store some vectors and tables once and refer to them often


class Buffer:
    """The bytes of one FlatBuffer, and how many more of them may be handed out."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._allowance = _SHARING * len(data) + 65536

    def scalar(self, layout: struct.Struct, position: int, place: str) -> Any:
        """The number of a given layout at a position."""
        if not 0 <= position <= len(self._data) - layout.size:
            raise ModelFormatError(
                f"{place}: byte {position} lies outside the {len(self._data)} bytes there are"
            )
        return layout.unpack_from(self._data, position)[0]

    def follow(self, position: int, place: str) -> int:
        """Where the offset at a position leads."""
        return position + int(self.scalar(_UINT32, position, place))

    def vector(self, position: int, item_size: int, place: str) -> memoryview:
        """The items of the vector at a position."""
        count = self.scalar(_UINT32, position, place)
        start, size = position + 4, count * item_size
        if size > len(self._data) - start:
            raise ModelFormatError(f"{place}: {count} items of {item_size} bytes do not fit in the file")
        self.spend(size, place)
        return memoryview(self._data)[start : start + size]

    def spend(self, size: int, place: str) -> None:
        """Account for bytes handed out, lest a small file that refers to itself unfolds into a huge model."""
        self._allowance -= size
        if self._allowance < 0:
            raise ModelFormatError(f"{place}: the file refers to the same bytes too often")


class Table:
    """One table; fields are asked for by name."""

    __slots__ = ("_buffer", "_fields", "_position", "_vtable", "_vtable_size", "place")

    def __init__(self, buffer: Buffer, position: int, fields: Sequence[str], place: str) -> None:
        buffer.spend(_TABLE_COST, place)
        self._buffer = buffer
        self._position = position
        self._fields = fields
        self._vtable = position - buffer.scalar(_INT32, position, place)
        self._vtable_size = buffer.scalar(_UINT16, self._vtable, place)
        self.place = place
        """Where the table is, e.g. "model.subgraphs[0].tensors[3]"."""

    def scalar(self, field: str, dtype: DTypeLike, default: int | float = 0) -> Any:
        """A number, as a Python int, float or bool."""
        position = self._find(field)
        if position is None:
            return default
        return self._buffer.scalar(_SCALARS[np.dtype(dtype).char], position, f"{self.place}.{field}")

    def string(self, field: str) -> str:
        """A UTF-8 string; "" if absent."""
        try:
            return self.data(field).decode()
        except UnicodeDecodeError as error:
            raise ModelFormatError(f"{self.place}.{field}: not UTF-8 ({error})") from None

    def data(self, field: str) -> bytes:
        """A vector of bytes, or a string that holds arbitrary bytes; b"" if absent."""
        return bytes(self._vector(field, 1))

    def data_offset(self, field: str) -> int:
        """Where in the file the first of `data(field)` stands; 0 if absent."""
        position = self._find(field)
        return 0 if position is None else self._buffer.follow(position, f"{self.place}.{field}") + 4

    def array(self, field: str, dtype: DTypeLike) -> NDArray[Any]:
        """A vector of numbers, as an array of its own; empty if absent."""
        kind = np.dtype(dtype)
        items = self._vector(field, kind.itemsize)
        return np.frombuffer(items, kind.newbyteorder("<")).astype(kind)

    def table(self, field: str, fields: Sequence[str]) -> Table | None:
        """A table, or the table a union holds; None if absent."""
        position = self._find(field)
        if position is None:
            return None
        place = f"{self.place}.{field}"
        return Table(self._buffer, self._buffer.follow(position, place), fields, place)

    def tables(self, field: str, fields: Sequence[str]) -> list[Table]:
        """A vector of tables; empty if absent."""
        place = f"{self.place}.{field}"
        return [
            Table(self._buffer, position, fields, f"{place}[{index}]")
            for index, position in enumerate(self._offsets(field))
        ]

    def data_items(self, field: str) -> list[bytes]:
        """A vector of strings that hold arbitrary bytes; empty if absent."""
        place = f"{self.place}.{field}"
        return [bytes(self._buffer.vector(position, 1, place)) for position in self._offsets(field)]

    def _find(self, field: str) -> int | None:
        """Position of a field's content, None when it is left at its default."""
        slot = 4 + 2 * self._fields.index(field)
        if slot + 2 > self._vtable_size:
            return None
        offset = self._buffer.scalar(_UINT16, self._vtable + slot, f"{self.place}.{field}")
        return self._position + int(offset) if offset else None

    def _vector(self, field: str, item_size: int) -> memoryview:
        position = self._find(field)
        if position is None:
            return memoryview(b"")
        place = f"{self.place}.{field}"
        return self._buffer.vector(self._buffer.follow(position, place), item_size, place)

    def _offsets(self, field: str) -> list[int]:
        """Where the offsets in a vector of offsets lead."""
        position = self._find(field)
        if position is None:
            return []
        place = f"{self.place}.{field}"
        start = self._buffer.follow(position, place)
        items = np.frombuffer(self._buffer.vector(start, 4, place), "<u4")
        first = start + 4
        return [first + 4 * index + offset for index, offset in enumerate(items.tolist())]


def read_root(data: bytes, identifier: bytes, name: str, fields: Sequence[str]) -> Table:
    """The root table of a FlatBuffer with a given file identifier; `name` is how errors call it."""
    if data[4:8] != identifier:
        raise ModelFormatError(
            f"{name}: expected the file identifier {identifier.decode()} at byte 4, got {data[4:8]!r}"
        )
    buffer = Buffer(data)
    return Table(buffer, buffer.follow(0, name), fields, name)


_INT32 = struct.Struct("<i")
_UINT16 = struct.Struct("<H")
_UINT32 = struct.Struct("<I")
_SCALARS = {
    np.dtype(dtype).char: struct.Struct("<" + layout)
    for dtype, layout in (
        (np.bool_, "?"), (np.int8, "b"), (np.uint8, "B"), (np.int16, "h"), (np.uint16, "H"), (np.int32, "i"),
        (np.uint32, "I"), (np.int64, "q"), (np.uint64, "Q"), (np.float32, "f"), (np.float64, "d"),
    )
}  # fmt: skip
