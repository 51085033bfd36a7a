"""Reads a list or an object from text in JSON, or as Python prints it."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from typing import Any

_LONGEST_LITERAL = 2**17
"""Longest literal of Python, characters. Uncritical: the classes of ImageNet take 30 000."""
_MOST_BITS = 64
"""Size of the largest integer in a literal. Uncritical: Python does not print those of 4301 digits."""
_Pairs = list[tuple[str, Any]]


def json_or_literal(text: str, object_of: Callable[[_Pairs], Any] = dict) -> Any:
    """The value of a text in JSON, or else of a list or dict of Python.

    object_of: makes an object from its keys and values. Tuples become lists, and keys text, as in JSON.
    Raises ValueError for any other text.
    """
    try:
        return json.loads(text, object_pairs_hook=object_of)
    except (ValueError, RecursionError) as error:
        reason = str(error)
    if len(text) <= _LONGEST_LITERAL:
        try:
            value = ast.literal_eval(text)
            if isinstance(value, dict | list):
                return _as_in_json(value, object_of)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            pass
    raise ValueError(reason)


def _as_in_json(value: Any, object_of: Callable[[_Pairs], Any]) -> Any:
    if isinstance(value, dict):
        return object_of(
            [(str(_as_in_json(key, object_of)), _as_in_json(part, object_of)) for key, part in value.items()]
        )
    if isinstance(value, list | tuple):
        return [_as_in_json(part, object_of) for part in value]
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise ValueError(f"expected integers of at most {_MOST_BITS} bits")
    return value
