"""YAML of any origin."""

from __future__ import annotations

import pytest

from edgetpu_driver.errors import InputError
from edgetpu_driver.files.plain_yaml import parse_yaml


def test_plain_values_are_read() -> None:
    assert parse_yaml("{a: [1, 0.5, true, cat], 2: {b: null}}") == {
        "a": [1, 0.5, True, "cat"],
        2: {"b": None},
    }


def test_values_may_be_nested() -> None:
    assert parse_yaml("[" * 60 + "]" * 60 + "\n") is not None
    assert parse_yaml("- " * 60 + "1") is not None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: &a [x]\nb: [*a, *a]", "expected YAML without aliases"),
        ("&a [*a]", "expected YAML without aliases"),
        ("18446744073709551616", "expected integers of at most 64 bits"),
        ("0x" + "f" * 17, "expected integers of at most 64 bits"),
        ("1" + ":0" * 5000, "expected integers of at most 64 bits"),
        ('!!int ""', "string index out of range"),
        ("!!timestamp x", "'NoneType' object has no attribute 'groupdict'"),
        ("!!python/object:os.system x", "could not determine a constructor"),
        ("[" * 10_000, "expected at most 64 levels"),
        ("- " * 10_000, "expected at most 64 levels"),
        ("{a: " * 10_000, "expected at most 64 levels"),
        ("[a", "while parsing a flow sequence"),
        (b"caf\xe9", "unacceptable character"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_anything_else_is_refused(text: str | bytes, reason: str) -> None:
    with pytest.raises(InputError, match=f"^expected YAML of plain values: .*{reason}"):
        parse_yaml(text)
