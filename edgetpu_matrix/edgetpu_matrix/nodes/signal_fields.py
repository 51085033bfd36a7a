"""Reading numbers from messages of any type, by the names of their fields."""

from __future__ import annotations

import re
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rclpy.clock import Clock
from std_msgs.msg import Header

from edgetpu_driver.node_kit.fatal_error import FatalError
from edgetpu_driver.node_kit.printable_text import one_line

_FIELD = re.compile(
    r"([a-z]\w*(?:\.[a-z]\w*)*)(?:\[(?:(-?\d+)|(-?\d+)?:(-?\d+)?(?::([1-9]\d*))?)\])?", re.ASCII
)

SAMPLE_FORMATS = {"": None, "int16": np.dtype("<i2"), "int32": np.dtype("<i4"), "float32": np.dtype("<f4")}
"""Sample formats of the bytes of a uint8[], little-endian; "": each byte is a sample."""

_LONGEST_REASON = 200
"""Characters of the reason why a value is no number; NumPy quotes a text of any length. Uncritical."""


class SignalReader:
    """Reads a vector, float64 [n], from messages of one type.

    fields: paths, separated by commas, whose values are concatenated, such as "data",
    "angular_velocity.x,angular_velocity.y", "ranges[0:90]", or "data[1::2]" (every second value from the
    second on). sample_format: of SAMPLE_FORMATS. Raises FatalError for a path that the type does not have.
    """

    def __init__(self, kind: type[Any], fields: str, sample_format: str = "") -> None:
        self._format = SAMPLE_FORMATS[sample_format]
        self._fields = [_field(kind, field.strip()) for field in fields.split(",")]
        self.has_header = isinstance(getattr(kind(), "header", None), Header)
        """Whether the messages have a header with a stamp."""

    def values(self, message: Any) -> NDArray[np.float64]:
        """The numbers of a message; ValueError if a field holds none or an index is out of range."""
        parts = []
        for names, index in self._fields:
            value = reduce(getattr, names, message)
            try:
                numbers = self._numbers(value)
                parts.append(numbers if index is None else np.atleast_1d(numbers[index]))
            except (IndexError, TypeError, ValueError) as error:
                reason = one_line(error, _LONGEST_REASON)
                raise ValueError(f"expected numbers in {'.'.join(names)}: {reason}") from None
        return np.concatenate(parts)

    def header(self, message: Any, clock: Clock) -> Header:
        """The header of a message, or one with the present time if it has none."""
        if self.has_header:
            header: Header = message.header
            return header
        return Header(stamp=clock.now().to_msg())

    def _numbers(self, value: Any) -> NDArray[np.float64]:
        if self._format is not None:
            data = np.asarray(value)
            if data.dtype != np.uint8:  # bytes(n) would make n of them
                raise TypeError(f"expected the bytes of a uint8[]; got {data.dtype}")
            return np.frombuffer(data.tobytes(), self._format).astype(np.float64)
        return np.atleast_1d(np.asarray(value, np.float64))


def _field(kind: type[Any], path: str) -> tuple[list[str], int | slice | None]:
    """The attribute names that lead to a field, and the index or slice to take of it."""
    match = _FIELD.fullmatch(path)
    names = match[1].split(".") if match else [path]
    example: Any = kind()
    for name in names:
        known = example.get_fields_and_field_types() if hasattr(example, "get_fields_and_field_types") else {}
        if name not in known:
            raise FatalError(
                f"expected the path of a field of {kind.__name__}; got '{path}'; "
                f"there is no '{name}' among its fields: {', '.join(known) or 'none'}"
            )
        example = getattr(example, name)
    assert match is not None
    index, first, last, step = match.groups()[1:]
    if index is not None:
        return names, int(index)
    if not path.endswith("]"):
        return names, None
    return names, slice(*(int(text) if text else None for text in (first, last, step)))
