"""When place_recognition is sure of a place: score, margin and window."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from builtin_interfaces.msg import Time
from std_msgs.msg import Header

from edgetpu_matrix.nodes.place_recognition_node import COMPARED, PlaceRecognitionNode
from edgetpu_matrix.place_recognition.place_confidence import ScoreWindow, is_sure
from edgetpu_matrix.place_recognition.place_search import Place

PLACES = (Place("kitchen", 0.875), Place("hall", 0.75))


def node(**values: float) -> Any:
    return MagicMock(
        values={"min_score": 0.8, "min_margin": 0.0, "window": 0.0, "count": 5, "root": False} | values,
        _window=ScoreWindow(),
    )


def match(node: Any, second: int, *places: Place) -> Any:
    PlaceRecognitionNode._publish(node, Header(stamp=Time(sec=second)), places)
    return node._matches.publish.call_args.args[0]


@pytest.mark.parametrize(
    ("min_score", "min_margin", "sure"),
    [(0.8, 0.0, True), (0.9, 0.0, False), (0.8, 0.125, True), (0.8, 0.13, False)],
)
def test_a_place_needs_a_score_and_a_lead(min_score: float, min_margin: float, sure: bool) -> None:
    assert is_sure(PLACES, min_score, min_margin) is sure


def test_a_place_that_is_alone_needs_no_lead() -> None:
    assert is_sure(PLACES[:1], 0.8, 1.0)
    assert not is_sure((), 0.0, 0.0)


def test_an_unsure_match_names_no_place_but_lists_them() -> None:
    found = match(node(min_margin=0.25), 1, *PLACES)
    assert (found.valid, found.label) == (False, "")
    assert (found.labels, list(found.scores)) == (["kitchen", "hall"], [0.875, 0.75])


def test_with_a_window_the_mean_scores_count() -> None:
    patient = node(window=2.0)
    assert match(patient, 1, *PLACES).label == "kitchen"
    found = match(patient, 2, Place("hall", 0.9375), Place("kitchen", 0.875))
    assert (found.label, list(found.scores)) == ("kitchen", [0.875, 0.84375])
    assert match(patient, 5, Place("hall", 0.9375), Place("kitchen", 0.875)).label == "hall"


def test_no_more_places_are_published_than_count() -> None:
    assert match(node(count=1, min_margin=0.1), 1, *PLACES).labels == ["kitchen"]


@pytest.mark.parametrize(
    ("values", "number"), [({}, 5), ({"min_margin": 0.1}, COMPARED), ({"window": 1.0, "count": 20}, 20)]
)
def test_enough_places_are_searched_to_compare(values: dict[str, float], number: int) -> None:
    assert PlaceRecognitionNode._searched.fget(node(**values)) == number


def test_with_root_the_square_roots_of_the_values_count() -> None:
    weighed = PlaceRecognitionNode._weighed
    embedding = np.array([4.0, 9.0])
    assert weighed(node(), embedding) is embedding
    assert weighed(node(root=True), embedding).tolist() == [2.0, 3.0]
