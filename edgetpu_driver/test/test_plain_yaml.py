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


def test_values_are_left_as_they_are_written() -> None:
    text = "{a: [no, 012, ~, 2026-01-31, 1.0], yes: 'x', 0: null}"
    assert parse_yaml(text, as_text=True) == {
        "a": ["no", "012", "~", "2026-01-31", "1.0"],
        "yes": "x",
        "0": "null",
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{a: 1, a: 2}", "the key 'a' occurs twice"),
        ("&a [*a]", "expected YAML without aliases"),
        ("0x" + "f" * 17, "expected integers of at most 64 bits"),
    ],
)
def test_repeated_keys_are_refused_where_values_are_text(text: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        parse_yaml(text, as_text=True)
