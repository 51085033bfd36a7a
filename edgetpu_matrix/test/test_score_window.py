"""Scores of places averaged over the last seconds."""

from __future__ import annotations

from edgetpu_matrix.place_recognition.place_confidence import ScoreWindow
from edgetpu_matrix.place_recognition.place_search import Place


def answer(**scores: float) -> tuple[Place, ...]:
    return tuple(sorted((Place(label, score) for label, score in scores.items()), key=lambda p: -p.score))


def test_one_unusual_view_does_not_name_a_place() -> None:
    window = ScoreWindow()
    window.mean(1.0, answer(kitchen=0.75, hall=0.25), 2.0)
    window.mean(1.5, answer(kitchen=0.75, hall=0.25), 2.0)
    found = window.mean(2.0, answer(kitchen=0.25, hall=0.5), 2.0)
    assert [place.label for place in found] == ["kitchen", "hall"]
    assert [place.score for place in found] == [1.75 / 3, 1.0 / 3]


def test_answers_older_than_the_window_do_not_count() -> None:
    window = ScoreWindow()
    window.mean(1.0, answer(kitchen=1.0), 2.0)
    assert window.mean(3.0, answer(kitchen=0.5), 2.0) == (Place("kitchen", 0.5),)


def test_a_place_that_was_not_found_counts_with_the_least_score() -> None:
    window = ScoreWindow()
    window.mean(1.0, answer(kitchen=0.75, hall=0.25), 2.0)
    found = window.mean(1.5, answer(kitchen=0.75, cellar=0.5), 2.0)
    assert found == (Place("kitchen", 0.75), Place("hall", 0.375), Place("cellar", 0.375))


def test_it_starts_again_when_time_goes_back() -> None:
    window = ScoreWindow()
    window.mean(5.0, answer(kitchen=1.0), 2.0)
    assert window.mean(4.5, answer(kitchen=0.5), 2.0) == (Place("kitchen", 0.5),)


def test_cleared_it_has_no_places() -> None:
    window = ScoreWindow()
    window.mean(1.0, answer(kitchen=1.0), 2.0)
    window.clear()
    assert window.mean(1.5, (), 2.0) == ()
