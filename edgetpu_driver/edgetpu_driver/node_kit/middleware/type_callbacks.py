"""The functions of rmw_fastrtps that serialise and deserialise messages of a type, and their bytes.

The structures are those of rosidl_typesupport_fastrtps_cpp (message_type_support.h), rosidl_runtime_c
(message_type_support_struct.h) and Fast CDR 1 and 2 (Cdr.h, FastBuffer.h). Their layout is not guaranteed.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from rclpy.serialization import deserialize_message, serialize_message

_WORD = ctypes.sizeof(ctypes.c_void_p)

_MOST_WORDS = 32
"""Words of a Cdr among which the pointer to its FastBuffer is sought; it is word 0 in version 1, 14 in 2."""

Function = ctypes.PYFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_void_p)
"""bool (Cdr &, void * message), or bool (const void * message, Cdr &). Called with the interpreter lock
held: rclpy holds it meanwhile anyway, so nothing else could be taken."""


class Callbacks(ctypes.Structure):
    """The beginning of message_type_support_callbacks_t."""

    _fields_ = [
        ("namespace", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("serialise", ctypes.c_void_p),
        ("deserialise", ctypes.c_void_p),
    ]


class _TypeSupport(ctypes.Structure):
    """The beginning of rosidl_message_type_support_t."""

    _fields_ = [("identifier", ctypes.c_char_p), ("data", ctypes.POINTER(Callbacks))]


class OtherLayoutError(Exception):
    """The libraries are not laid out as this module expects."""


class TypeCallbacks:
    """The functions of one type of messages, and the position of the bytes in the Cdr that they get."""

    def __init__(self, message_type: type[Any]) -> None:
        """Raises OtherLayoutError. A message is deserialised to see where its bytes are."""
        self.sample = serialize_message(message_type())  # which loads the type support
        """A message with the defaults of all fields."""
        self.table = _callbacks_of(message_type)
        """The functions' addresses, in writable memory."""
        original = self.table.deserialise
        deserialise = Function(original)
        offset: list[int] = []

        def look(cdr: int, message: int) -> bool:
            offset.extend(_offset_of_buffer(cdr, self.sample))
            return bool(deserialise(cdr, message))

        trial = Function(look)
        self.table.deserialise = address_of(trial)
        try:
            deserialize_message(self.sample, message_type)
        finally:
            self.table.deserialise = original
        if not offset:
            raise OtherLayoutError
        self._offset = offset[0]

    def buffer(self, cdr: int) -> memoryview:
        """The bytes behind a Cdr, uint8 [n], writable; they begin with the encapsulation."""
        buffer = ctypes.c_void_p.from_address(cdr + self._offset).value or 0
        start, size = (ctypes.c_size_t.from_address(buffer + word * _WORD).value for word in (1, 2))
        return memoryview((ctypes.c_char * size).from_address(start)).cast("B")


def address_of(function: Callable[..., Any]) -> int:
    """The address of a Function."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0  # type: ignore[arg-type]


def _offset_of_buffer(cdr: int, sample: bytes) -> list[int]:
    """Where in a Cdr the pointer to the FastBuffer with these bytes is; empty if it is not found.

    Memory is read through /proc/self/mem, so that wrong addresses do no harm.
    """
    with open("/proc/self/mem", "rb", buffering=0) as memory:
        for offset in range(0, _MOST_WORDS * _WORD, _WORD):
            with suppress(OSError, OverflowError):
                buffer = _word(memory, cdr + offset)
                start, size = _word(memory, buffer + _WORD), _word(memory, buffer + 2 * _WORD)
                if size == len(sample) and os.pread(memory.fileno(), size, start) == sample:
                    return [offset]
    return []


def _word(memory: Any, address: int) -> int:
    return int.from_bytes(os.pread(memory.fileno(), _WORD, address), "little")


def _callbacks_of(message_type: type[Any]) -> Callbacks:
    """The table of a type's functions, in writable memory."""
    package, kind, _ = message_type.__module__.split(".", 2)
    library = f"lib{package}__rosidl_typesupport_fastrtps_c.so"
    name = (
        f"rosidl_typesupport_fastrtps_c__get_message_type_support_handle__{package}__{kind}__"
        f"{message_type.__name__}"
    )
    try:
        function = getattr(ctypes.CDLL(library, mode=os.RTLD_NOW | os.RTLD_NOLOAD), name)
    except (OSError, AttributeError) as error:
        raise OtherLayoutError from error
    function.restype = ctypes.POINTER(_TypeSupport)
    table: Callbacks = function().contents.data.contents
    if (table.name or b"").decode() != message_type.__name__:
        raise OtherLayoutError
    return table
