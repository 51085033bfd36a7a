"""Refuses damaged requests and answers before the middleware's deserialiser reads them.

rmw_fastrtps hands the deserialiser a buffer that grows: a length beyond the end enlarges it instead of
failing. If there is not so much memory, the buffer is lost, and in lists of messages, whose errors the
generated code ignores, reading goes on beyond the next buffer: the process ends with SIGSEGV. Here the
lengths are checked first. rclpy has no place for that, so the deserialiser in the table of the type is
replaced by a function that checks, and calls it. The structures are those of rosidl_typesupport_fastrtps_cpp
(message_type_support.h), rosidl_runtime_c (message_type_support_struct.h) and Fast CDR 1 and 2 (Cdr.h,
FastBuffer.h). They have no promised layout: a message of each type is deserialised to see where the bytes
are, and if they are not found the deserialiser stays as it is.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from rclpy.node import Node
from rclpy.serialization import deserialize_message, serialize_message
from rclpy.utilities import get_rmw_implementation_identifier

from edgetpu_driver.node_kit.middleware.serialized_lengths import SerializedLengths, UnknownTypeError

_WORD = ctypes.sizeof(ctypes.c_void_p)

_MOST_WORDS = 32
"""Words of a Cdr among which the pointer to its FastBuffer is sought; it is word 0 in version 1, 14 in 2."""

_SIGNATURE = (ctypes.c_bool, ctypes.c_void_p, ctypes.c_void_p)
"""bool (Cdr &, void * message)"""
_Function = ctypes.PYFUNCTYPE(*_SIGNATURE)
"""Called with the interpreter lock, as rclpy has it: nothing else could be taken meanwhile."""


class _Callbacks(ctypes.Structure):
    """The beginning of message_type_support_callbacks_t."""

    _fields_ = [
        ("namespace", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("serialise", ctypes.c_void_p),
        ("deserialise", ctypes.c_void_p),
    ]


class _TypeSupport(ctypes.Structure):
    """The beginning of rosidl_message_type_support_t."""

    _fields_ = [("identifier", ctypes.c_char_p), ("data", ctypes.POINTER(_Callbacks))]


_checked: dict[type[Any], _CheckedType | None] = {}
"""What was made for each type; the functions must not be collected."""


def refuse_damaged_requests(nodes: Iterable[Node]) -> None:
    """Check the requests to the services that nodes have now, and the answers to their clients.

    What does not fit looks as if the middleware could not deserialise it.
    """
    if get_rmw_implementation_identifier() != "rmw_fastrtps_cpp":
        return
    for node in nodes:
        for service in node.services:
            _check(service.srv_type.Request)
        for client in node.clients:
            _check(client.srv_type.Response)


def _check(message_type: type[Any]) -> None:
    if message_type not in _checked:
        _checked[message_type] = None
        try:
            _checked[message_type] = _CheckedType(message_type)
        except (UnknownTypeError, _OtherLayoutError):
            return


class _OtherLayoutError(Exception):
    """The libraries are not laid out as this module expects."""


class _CheckedType:
    """A message type whose deserialiser is replaced."""

    def __init__(self, message_type: type[Any]) -> None:
        """Raises _OtherLayoutError and UnknownTypeError, and changes nothing then."""
        self._lengths = SerializedLengths(message_type)
        sample = serialize_message(message_type())  # which loads the type support
        table = _callbacks_of(message_type)
        original = table.deserialise
        self._original = _Function(original)
        offset: list[int] = []

        def look(cdr: int, message: int) -> bool:
            offset.extend(_offset_of_buffer(cdr, sample))
            return bool(self._original(cdr, message))

        trial = _Function(look)
        table.deserialise = _address(trial)
        try:
            deserialize_message(sample, message_type)
        finally:
            table.deserialise = original
        if not offset or not self._lengths.fit(memoryview(sample)):
            raise _OtherLayoutError
        self._offset = offset[0]
        self._function = _Function(self._deserialise)
        table.deserialise = _address(self._function)

    def _deserialise(self, cdr: int, message: int) -> bool:
        """Deserialise what fits. It has no lengths for which the deserialiser would raise an exception."""
        buffer = ctypes.c_void_p.from_address(cdr + self._offset).value or 0
        start, size = (ctypes.c_size_t.from_address(buffer + word * _WORD).value for word in (1, 2))
        data = memoryview((ctypes.c_char * size).from_address(start)).cast("B")
        if not self._lengths.fit(data):
            return False
        return bool(self._original(cdr, message))


def _offset_of_buffer(cdr: int, sample: bytes) -> list[int]:
    """Where in a Cdr the pointer to the FastBuffer with these bytes is; empty if it is not found.

    Memory is read so that wrong addresses do no harm.
    """
    with open("/proc/self/mem", "rb", buffering=0) as memory:
        for offset in range(0, _MOST_WORDS * _WORD, _WORD):
            with suppress(OSError, OverflowError):
                buffer = _word(memory, cdr + offset)
                start, size = _word(memory, buffer + _WORD), _word(memory, buffer + 2 * _WORD)
                if size == len(sample) and os.pread(memory.fileno(), size, start) == sample:
                    return [offset]
    return []


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _word(memory: Any, address: int) -> int:
    return int.from_bytes(os.pread(memory.fileno(), _WORD, address), "little")


def _callbacks_of(message_type: type[Any]) -> _Callbacks:
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
        raise _OtherLayoutError from error
    function.restype = ctypes.POINTER(_TypeSupport)
    table: _Callbacks = function().contents.data.contents
    if (table.name or b"").decode() != message_type.__name__:
        raise _OtherLayoutError
    return table
