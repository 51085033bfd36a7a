"""Messages of any type with extreme values, and damaged serialised messages; all from one seed."""

from __future__ import annotations

import math
import random
from array import array
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from rosidl_parser.definition import (
    AbstractNestedType,
    AbstractSequence,
    AbstractString,
    Array,
    BasicType,
    NamespacedType,
)

_INTEGERS = {
    "boolean": (0, 1),
    "octet": (0, 255),
    "uint8": (0, 2**8 - 1),
    "int8": (-(2**7), 2**7 - 1),
    "uint16": (0, 2**16 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint32": (0, 2**32 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint64": (0, 2**64 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
_REALS = (0.0, -0.0, 1.0, -1.0, 0.5, math.nan, math.inf, -math.inf, 1e300, -1e300, 5e-324, 1e-45, 3e38)
_LARGEST_FLOAT = 3.4e38
_TEXTS = (
    "",
    " ",
    "x",
    "..",
    "/",
    "../x",
    "a/b",
    "~",
    "%s%n",
    "a\nb",
    "\x1b[2J",
    "\u202e",
    "💣",
    "nan",
    "true",
)
_LENGTHS = (0, 0, 1, 1, 2, 3, 4, 7, 64, 300)
_WORDS = (0, 1, 2, 4, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFC, 0xFFFFFFFF)
_LONG_TEXT = 100_000


class MessageValues:
    """Draws messages from a seed."""

    def __init__(self, seed: int, words: Sequence[str] = ()) -> None:
        """`words`: texts that mean something to the receiver, such as names of models."""
        self.random = random.Random(seed)
        self._texts = (*_TEXTS, *words, *words)

    def message(self, kind: Any) -> Any:
        """A message of this class; about a third of its fields keep their defaults."""
        message = kind()
        for name, slot in zip(message.get_fields_and_field_types(), message.SLOT_TYPES, strict=True):
            if self.random.random() < 0.7:
                setattr(message, name, self._value(slot, getattr(message, name)))
        return message

    def damaged(self, data: bytes) -> bytes:
        """A serialised message, truncated, mutated, lengthened or replaced by random bytes."""
        draw = self.random
        if draw.random() < 0.05:
            return draw.randbytes(draw.choice((0, 1, 4, 12, 100)))
        damaged = bytearray(data)
        for _ in range(draw.choice((0, 1, 1, 2, 4))):
            self._mutate(damaged)
        if draw.random() < 0.3:
            del damaged[draw.randrange(len(damaged) + 1) :]
        if draw.random() < 0.05:
            damaged += bytes(draw.choice((1, 4, 4096)))
        return bytes(damaged)

    def _mutate(self, data: bytearray) -> None:
        draw = self.random
        if len(data) < 8:
            return
        if draw.random() < 0.5:
            data[draw.randrange(len(data))] = draw.choice((0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)))
        else:
            position = draw.randrange(0, len(data) - 3) & ~3
            data[position : position + 4] = draw.choice(_WORDS).to_bytes(4, "little")

    def _value(self, slot: Any, present: Any) -> Any:
        if isinstance(slot, BasicType):
            return self._number(slot.typename)
        if isinstance(slot, AbstractString):
            return self._text()
        if isinstance(slot, NamespacedType):
            return self.message(_class_of(slot))
        if isinstance(slot, Array):
            return self._items(slot.value_type, slot.size, present)
        if isinstance(slot, AbstractSequence):
            length = self.random.choice(_LENGTHS)
            bound = getattr(slot, "maximum_size", length)
            return self._items(slot.value_type, min(length, bound), present)
        raise TypeError(f"no values for {slot}")

    def _items(self, kind: AbstractNestedType, length: int, present: Any) -> Any:
        if isinstance(kind, NamespacedType):
            length = min(length, 4)
        values = [self._value(kind, None) for _ in range(length)]
        return array(present.typecode, values) if isinstance(present, array) else values

    def _number(self, kind: str) -> Any:
        draw = self.random
        if kind in ("float", "double"):
            value = draw.choice((*_REALS, draw.uniform(-10, 10)))
            if kind == "float" and math.isfinite(value):
                value = max(-_LARGEST_FLOAT, min(_LARGEST_FLOAT, value))
            return value
        least, most = _INTEGERS[kind]
        value = draw.choice((least, most, least + 1, most - 1, 0, 1, 2, 3, draw.randint(least, most)))
        if kind == "boolean":
            return bool(value)
        return bytes((value,)) if kind == "octet" else max(least, min(most, value))

    def _text(self) -> str:
        draw = self.random
        if draw.random() < 0.02:
            return "x" * _LONG_TEXT
        return draw.choice(self._texts)


def _class_of(slot: NamespacedType) -> Any:
    return getattr(import_module(".".join(slot.namespaces)), slot.name)


def class_named(name: str) -> Any:
    """Import a message or service by its ROS name, such as std_msgs/msg/String."""
    package, kind, each = name.split("/")
    return getattr(import_module(f"{package}.{kind}"), each)
