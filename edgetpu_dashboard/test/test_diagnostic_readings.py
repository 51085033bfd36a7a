"""Values of diagnostics become numbers, or words, over the last minute."""

from __future__ import annotations

import math

import pytest

from edgetpu_dashboard.live.diagnostic_readings import LONGEST_WORD, MOST_WORDS, Reading


def reading(*texts: str, key: str = "state") -> Reading:
    """A value that came once a second."""
    made = Reading(key)
    for second, text in enumerate(texts):
        made.add(float(second), text)
    return made


def values(made: Reading) -> list[float | None]:
    """The values of its curve."""
    assert made.curve is not None
    return [each.value for each in made.curve.points(10.0)]


@pytest.mark.parametrize(
    ("key", "name", "unit"),
    [
        ("distance, m", "distance", "m"),
        ("temperature (degC)", "temperature", "degC"),
        ("retries, recoveries and more", "retries, recoveries and more", ""),
        ("state", "state", ""),
    ],
)
def test_the_unit_is_read_from_the_key(key: str, name: str, unit: str) -> None:
    assert (Reading(key).name, Reading(key).unit) == (name, unit)


def test_numbers_are_a_curve_with_sigmas() -> None:
    made = reading("1", "2.5 +- 0.5", "-3e-1")
    assert made.curve is not None
    found = [(each.time, each.value, each.sigma) for each in made.curve.points(2.0)]
    assert found == [(0.0, 1.0, 0.0), (1.0, 2.5, 0.5), (2.0, -0.3, 0.0)]
    assert made.words == []


def test_a_word_between_numbers_is_a_gap() -> None:
    made = reading("1", "unknown", "nan", "2")
    assert values(made) == [1.0, None, None, 2.0]
    assert made.text == "2"


def test_words_before_the_first_number_are_forgotten() -> None:
    assert values(reading("unknown", "2")) == [2.0]


def test_words_are_numbered_as_they_come() -> None:
    made = reading("free", "stopped", "free")
    assert (made.words, values(made)) == (["free", "stopped"], [0.0, 1.0, 0.0])


@pytest.mark.parametrize("texts", [["x" * (LONGEST_WORD + 1)], [f"word {n}" for n in range(MOST_WORDS + 1)]])
def test_texts_that_are_no_state_have_no_curve(texts: list[str]) -> None:
    made = reading(*texts)
    assert made.curve is None
    assert made.text == texts[-1]
    assert len(made.words) <= MOST_WORDS


def test_a_value_that_has_not_come_is_no_number() -> None:
    assert math.isnan(Reading("state").value)
