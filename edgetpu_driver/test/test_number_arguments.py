"""Numbers on a command line: what is accepted, and the message about what is not."""

from __future__ import annotations

import argparse
from collections.abc import Callable

import pytest

from edgetpu_driver.cli.number_arguments import number, positive, seed, whole


def share(text: str) -> float:
    return number(text, lambda value: 0 <= value <= 1, "a share")


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (whole, "0", 0),
        (whole, "999999999", 999_999_999),
        (positive, "1", 1),
        (seed, "9223372036854775807", 2**63 - 1),
        (share, "2.5e-1", 0.25),
    ],
)
def test_a_number_in_its_range_is_read(read: Callable[[str], float], text: str, value: float) -> None:
    assert read(text) == value


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (whole, "-1", "expected a whole number, 0 or more; got '-1'"),
        (whole, "1000000000", "expected a whole number, 0 or more; got '1000000000'"),
        (positive, "0", "expected a positive whole number; got '0'"),
        (positive, "1.0", "expected a positive whole number; got '1.0'"),
        (
            seed,
            "9223372036854775808",
            "expected a seed, a whole number below 2^63; got '9223372036854775808'",
        ),
        (seed, "9" * 5000, f"expected a seed, a whole number below 2^63; got '{'9' * 40}'"),
        (share, "nan", "expected a share; got 'nan'"),
        (share, "inf", "expected a share; got 'inf'"),
        (share, "1.5", "expected a share; got '1.5'"),
        (share, "half", "expected a share; got 'half'"),
    ],
)
def test_any_other_text_is_named_with_what_was_expected(
    read: Callable[[str], float], text: str, message: str
) -> None:
    with pytest.raises(argparse.ArgumentTypeError) as refused:
        read(text)
    assert str(refused.value) == message
