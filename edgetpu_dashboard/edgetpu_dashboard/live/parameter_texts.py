"""Values of parameters as text that a user can type, and back."""

from __future__ import annotations

import contextlib
import json
import math

from edgetpu_driver.errors import InputError

Value = bool | int | float | str | list[bool] | list[int] | list[float] | list[str] | list[bytes]


def text_of(value: Value | None) -> str:
    """Write a value as `value_of` reads it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return json.dumps([each[0] if isinstance(each, bytes) else each for each in value])
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def value_of(text: str, like: Value, *, any_type: bool = False) -> Value:
    """Read a value of the same type as `like`; InputError says what was expected.

    Numbers are decimal; lists are JSON, with bytes as numbers; a string is taken as it is. any_type: whether
    a list may have items of another type than `like`, for example because that is empty.
    """
    if any_type and isinstance(like, list):
        return _list_of_any(text)
    try:
        if isinstance(like, bool):
            return {"true": True, "false": False}[text.strip().lower()]
        if isinstance(like, int):
            return _integer(int(text))
        if isinstance(like, float):
            return _number(float(text))
        if isinstance(like, list):
            return _list(text, like)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise InputError(f"expected {_expected(like)}; got '{text[:100]}'") from None
    return text


def _list(text: str, like: list[bool] | list[int] | list[float] | list[str] | list[bytes]) -> Value:
    found = json.loads(text or "[]")
    kind = type(like[0]) if like else str
    if not isinstance(found, list):
        raise ValueError
    if kind is float:
        found = [_number(float(each)) if type(each) in (int, float) else each for each in found]
    if kind is bytes:
        found = [bytes([each]) for each in found]
    if kind is int:
        found = [_integer(each) for each in found]
    if any(type(each) is not kind for each in found):
        raise ValueError
    # An empty list of strings has no type in ROS.
    return found or [""] if kind is str else found


def _list_of_any(text: str) -> Value:
    """Read a list of whole numbers, of numbers, or of strings."""
    examples: tuple[list[int] | list[float] | list[str], ...] = [0], [0.0], [""]
    for like in examples:
        with contextlib.suppress(InputError):
            found = value_of(text, like)
            if found:  # an empty list is one of strings
                return found
    raise InputError(f"expected a list of numbers or of strings, such as [0.5]; got '{text[:100]}'")


def _number(value: float) -> float:
    if math.isnan(value):
        raise ValueError
    return value


def _integer(value: int) -> int:
    """Return the value if the 64 bits of a parameter can hold it; otherwise raise ValueError."""
    if not -(2**63) <= value < 2**63:
        raise ValueError
    return value


def _expected(like: Value) -> str:
    if isinstance(like, bool):
        return "true or false"
    if isinstance(like, int):
        return "a whole number"
    if isinstance(like, float):
        return "a number"
    kinds = {bool: "truth values", int: "whole numbers", float: "numbers", bytes: "bytes, 0 to 255"}
    kind = kinds.get(type(like[0]) if like else str, "strings")
    return f"a list of {kind}, such as {text_of(like)}"
