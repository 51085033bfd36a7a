"""Changes numbers, texts and bytes of a FlatBuffer in place; nothing else in the file moves."""

from __future__ import annotations

import struct

import numpy as np

from edgetpu_driver.files.flatbuffer import Table

_LENGTH = struct.Struct("<I")
_ALIGNMENT = 4  # of strings: a string, its zero byte and padding fill a multiple of it


class FlatbufferEdit:
    """A copy of a FlatBuffer that is changed.

    Tables come from a reader of the original bytes. Methods return whether the change was possible: a field
    with its default value may be absent and then has no bytes to change, and strings and vectors cannot grow.
    """

    def __init__(self, copy: bytearray, start: int = 0) -> None:
        """copy: the bytes to change. start: offset in them at which the FlatBuffer begins."""
        self.copy = copy
        self.start = start

    def scalar(self, table: Table, field: str, dtype: type[np.generic], value: float) -> bool:
        """Write a number; 0 can also be written to an absent field."""
        position = table.field_offset(field)
        if not position:
            return not value
        self._write(position, np.array(value).astype(dtype).tobytes())
        return True

    def text(self, table: Table, field: str, text: str) -> bool:
        """Write a string that needs no more room than the present one with its padding."""
        data, position, before = text.encode(), table.data_offset(field), table.data(field)
        if data == before:
            return True
        if not position:
            return False
        # Zeros up to the next multiple of four are padding: a vtable may begin before it, but not with 0.
        end = position + len(before)
        padding = bytes(self.copy[self.start + end : self.start + end + _ALIGNMENT - end % _ALIGNMENT])
        room = len(before) + len(padding) - len(padding.lstrip(b"\0"))
        if len(data) >= room:
            return False
        self._write(position - _LENGTH.size, _LENGTH.pack(len(data)))
        self._write(position, data.ljust(room, b"\0"))
        return True

    def data(self, table: Table, field: str, data: bytes | memoryview) -> bool:
        """Write a vector of bytes of the same length as the present one."""
        if len(table.view(field)) != len(data):
            return False
        if data:
            self._write(table.data_offset(field), data)
        return True

    def _write(self, position: int, data: bytes | memoryview) -> None:
        first = self.start + position
        self.copy[first : first + len(data)] = data
