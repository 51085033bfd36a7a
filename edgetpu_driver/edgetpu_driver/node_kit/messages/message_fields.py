"""Numbers of results for the fields of messages.

rclpy checks no field when it is set. A value that is not of one of Python's own types, such as a numpy.bool_
or a numpy.float32, ends the process in an assertion in C when the message is published.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

_KINDS: dict[str, Callable[[Any], Any]] = {
    "boolean": bool,
    "float": float,
    "double": float,
    **{f"{sign}int{bits}": int for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
"""Python's types by the names of the types of fields."""


def scalar_fields(kind: Any, result: Any) -> dict[str, Any]:
    """The numbers of a result whose names are fields of the message, as Python's own types.

    kind: the class of the message, made by Flow(header=header, **scalar_fields(Flow, result)), for example.
    """
    return {name: convert(getattr(result, name)) for name, convert in _common_fields(kind, result.__class__)}


@cache
def _common_fields(kind: Any, result: Any) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    names = getattr(result, "__dataclass_fields__", {})
    types = kind.get_fields_and_field_types()
    return tuple((name, _KINDS[types[name]]) for name in names if types.get(name) in _KINDS)
