"""Searching places: products in eight bits, the answer of an exact search."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from edgetpu_matrix.place_recognition.place_database import PlaceDatabase
from edgetpu_matrix.place_recognition.place_search import HEADROOM, Place, PlaceSearch, bounds

random = np.random.default_rng(3)


@pytest.fixture
def find(on_cpu: Any) -> Any:
    """Searches a database on Dense models."""

    def find(database: PlaceDatabase, embedding: Any, count: int = 1) -> tuple[Place, ...]:
        search, query = PlaceSearch(database), database.unit_vector(embedding)
        matrix = on_cpu(search.rows()[0], headroom=HEADROOM)
        product, effective = matrix.multiply(query), matrix.effective
        limits = bounds(query, product, np.linalg.norm(effective - database.rows, axis=1))
        assert (np.abs(product.outputs - database.rows @ query) <= limits).all()
        return search.find(query, product, effective, count)

    return find


def database_of(embeddings: Any, labels: Any = None) -> PlaceDatabase:
    database = PlaceDatabase()
    for number, embedding in enumerate(embeddings):
        database.add(labels[number] if labels else f"place {number}", embedding)
    return database


KINDS = {
    "normal": lambda n, d: random.normal(size=(n, d)),
    "signs": lambda n, d: random.choice([-1.0, 1.0], (n, d)),
    "sparse": lambda n, d: random.normal(size=(n, d)) * (random.random((n, d)) < 0.05) + 1e-3,
    "positive": lambda n, d: np.abs(random.normal(size=(n, d))),
    "alike": lambda n, d: 1 + 0.01 * random.normal(size=(n, d)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dimension", [8, 256, 300])
def test_the_answer_is_that_of_an_exact_search(find: Any, kind: str, dimension: int) -> None:
    database = database_of(KINDS[kind](1000, dimension))
    for query in KINDS[kind](5, dimension):
        scores = database.rows @ database.unit_vector(query)
        expected = np.argsort(-scores, kind="stable")[:5]
        places = find(database, query, 5)
        assert [place.label for place in places] == [f"place {row}" for row in expected]
        assert [place.score for place in places] == pytest.approx(scores[expected], abs=1e-6)


def test_a_known_view_scores_1(find: Any) -> None:
    embeddings = random.normal(size=(600, 256))
    assert find(database_of(embeddings), 5 * embeddings[431]) == (Place("place 431", pytest.approx(1.0)),)


def test_only_the_rows_that_changed_are_to_be_set_again() -> None:
    database = database_of(np.eye(4))
    search = PlaceSearch(database)
    assert not search.is_current
    assert search.rows()[1] is None
    assert search.is_current
    database.remove("place 1")
    assert not search.is_current
    rows, changed = search.rows()
    assert changed == {1, 3}
    assert rows.argmax(axis=1).tolist() == [0, 3, 2]
    database.add("new", np.ones(4))
    assert rows.shape == (3, 4)


def test_there_are_no_more_answers_than_places(find: Any) -> None:
    assert len(find(database_of(np.eye(4)), [1.0, 2, 3, 4], 10)) == 4


def test_a_place_counts_once_with_its_best_view(find: Any) -> None:
    places = find(database_of(np.eye(4), ["a", "a", "b", "b"]), [0.6, 0.5, 0.4, 0.3], 4)
    assert [place.label for place in places] == ["a", "b"]
    assert [place.score for place in places] == pytest.approx(np.array([0.6, 0.4]) / np.sqrt(0.86))


def test_of_places_that_look_the_same_the_older_one_wins(find: Any) -> None:
    database = database_of(np.ones((5, 16)))
    assert [place.label for place in find(database, np.ones(16), 3)] == ["place 0", "place 1", "place 2"]
    database.remove("place 0")  # the youngest takes its row
    assert [place.label for place in find(database, np.ones(16), 3)] == ["place 1", "place 2", "place 3"]
