"""Values of parameters as text, and back."""

from __future__ import annotations

import pytest

from edgetpu_dashboard.live.parameter_texts import Value, text_of, value_of
from edgetpu_driver.errors import InputError


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (7, "7"),
        (0.25, "0.25"),
        ("front", "front"),
        ([1, 2], "[1, 2]"),
        (["a", "b"], '["a", "b"]'),
        ([0.5, 1.0], "[0.5, 1.0]"),
        ([b"\x00", b"\xff"], "[0, 255]"),
    ],
)
def test_a_value_survives_being_typed(value: Value, text: str) -> None:
    assert text_of(value) == text
    assert value_of(text, value) == value


def test_whole_numbers_are_numbers() -> None:
    assert value_of("3", 0.5) == 3.0
    assert value_of("[1, 2]", [0.5]) == [1.0, 2.0]


def test_an_empty_list_of_strings_has_a_type() -> None:
    assert value_of("[]", ["a"]) == [""]


@pytest.mark.parametrize("like", [[""], ["cat"], [1], [0.5], []], ids=str)
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[-1, 1]", [-1, 1]),
        ("[-1, 1.5]", [-1.0, 1.5]),
        ('["cat", "16"]', ["cat", "16"]),
        ('["16"]', ["16"]),
        ("[]", [""]),
    ],
)
def test_a_list_of_any_type_takes_numbers_and_strings(text: str, value: Value, like: Value) -> None:
    found = value_of(text, like, any_type=True)
    assert found == value
    assert isinstance(found, list)
    assert {type(each) for each in found} == {type(each) for each in value}  # type: ignore[union-attr]


@pytest.mark.parametrize("text", ['["cat", 3]', "[true]", "[[1]]", "[NaN]", "1", "[null]"])
def test_a_list_of_any_type_takes_no_others(text: str) -> None:
    with pytest.raises(InputError, match="expected a list of numbers or of strings, such as"):
        value_of(text, [""], any_type=True)


@pytest.mark.parametrize(
    ("text", "like", "reason"),
    [
        ("yes", True, "expected true or false; got 'yes'"),
        ("1.5", 1, "expected a whole number; got '1.5'"),
        ("much", 1.0, "expected a number; got 'much'"),
        ("nan", 1.0, "expected a number; got 'nan'"),
        ("[1.5]", [1], r"expected a list of whole numbers, such as \[1\]; got '\[1.5\]'"),
        ("{", [1.0], "expected a list of numbers"),
        ("[true]", [1], "expected a list of whole numbers"),
        ("[[1]]", [1.0], "expected a list of numbers"),
        ("[NaN]", [1.0], "expected a list of numbers"),
        (f"[{10**400}]", [1.0], "expected a list of numbers"),
        ("[" * 100_000, [1.0], "expected a list of numbers"),
        ("9223372036854775808", 1, "expected a whole number"),
        ("[9223372036854775808]", [1], "expected a list of whole numbers"),
        ("[256]", [b"\x01"], r"expected a list of bytes, 0 to 255, such as \[1\]"),
    ],
)
def test_another_type_is_refused(text: str, like: Value, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        value_of(text, like)
