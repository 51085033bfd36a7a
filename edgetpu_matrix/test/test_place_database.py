"""The database of places."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgetpu_driver.errors import ArchiveError, InputError
from edgetpu_driver.files import npz_archive as archive
from edgetpu_matrix.errors import DatabaseFullError, UnknownPlaceError
from edgetpu_matrix.place_recognition.place_database import KIND, PlaceDatabase, signed_root


def filled(*labels: str) -> PlaceDatabase:
    """A database in which the embedding of each place is a unit vector of its own."""
    database = PlaceDatabase()
    for axis, label in enumerate(labels):
        database.add(label, np.eye(8)[axis])
    return database


def test_embeddings_are_kept_at_length_1() -> None:
    database = PlaceDatabase()
    database.add("kitchen", [3.0, 4.0])
    assert database.dimension == 2
    assert database.rows == pytest.approx(np.array([[0.6, 0.8]]))


@pytest.mark.parametrize("factor", [1e-300, 1e-30, 1e30, 1e300])
def test_their_length_does_not_matter(factor: float) -> None:
    assert PlaceDatabase().unit_vector(np.array([3.0, 4.0]) * factor) == pytest.approx([0.6, 0.8])


def test_a_place_may_have_several_views() -> None:
    database = filled("hall", "kitchen", "hall")
    assert database.places == {"hall": 2, "kitchen": 1}
    assert len(database) == 3


def test_removing_a_place_removes_its_views_and_closes_the_gaps() -> None:
    database = filled("hall", "kitchen", "hall", "garden")
    assert database.remove("hall") == 2
    assert database.places == {"kitchen": 1, "garden": 1}
    assert sorted((database.label(row), int(database.rows[row].argmax())) for row in range(2)) == [
        ("garden", 3),
        ("kitchen", 1),
    ]


def test_only_what_a_change_touched_has_changed() -> None:
    database = filled("a", "b", "c", "d")
    version = database.version
    assert database.changed_since(version) == set()
    database.remove("b")
    assert database.changed_since(version) == {1, 3}
    version = database.version
    database.add("e", np.eye(8)[5])
    assert database.changed_since(version) == {3}
    version = database.version
    database.clear()
    assert database.changed_since(version) == {0, 1, 2, 3}
    assert (len(database), database.places, database.dimension) == (0, {}, 0)


def test_a_place_can_be_replaced() -> None:
    database = filled("hall", "kitchen", "hall")
    database.add("hall", np.eye(8)[7], replace=True)
    assert database.places == {"kitchen": 1, "hall": 1}
    with pytest.raises(InputError):
        database.add("kitchen", [1.0], replace=True)
    assert database.places == {"kitchen": 1, "hall": 1}


def test_a_full_database_takes_a_replacement() -> None:
    database = PlaceDatabase(capacity=1)
    database.add("a", [1.0, 2.0])
    database.add("a", [2.0, 1.0], replace=True)
    assert len(database) == 1


def test_the_dimension_is_free_again_when_the_last_place_is_gone() -> None:
    database = filled("a")
    database.remove("a")
    database.add("b", [1.0, 2.0, 3.0])
    assert database.dimension == 3


def test_so_it_is_when_the_last_place_of_a_file_is_gone(tmp_path: Path) -> None:
    filled("a").save(tmp_path / "home.npz")
    database = PlaceDatabase.load(tmp_path / "home.npz")
    database.remove("a")
    database.add("b", [1.0, 2.0, 3.0])
    assert database.dimension == 3


def test_an_unknown_place_cannot_be_removed() -> None:
    with pytest.raises(UnknownPlaceError, match="expected the label of one of the 2 places; got 'cellar'"):
        filled("a", "b").remove("cellar")


@pytest.mark.parametrize("embedding", [[], [1.0, 2.0], [0.0] * 8, [np.nan] * 8, [np.inf] * 8, np.eye(8)])
def test_an_invalid_embedding_is_refused(embedding: list[float]) -> None:
    database = filled("a")
    with pytest.raises(InputError, match="expected an embedding"):
        database.add("b", embedding)
    assert database.places == {"a": 1}


@pytest.mark.parametrize("label", ["", "x" * 257])
def test_an_invalid_label_is_refused(label: str) -> None:
    with pytest.raises(InputError, match="expected a label"):
        filled("a").add(label, np.eye(8)[1])


def test_it_accepts_up_to_its_capacity() -> None:
    database = PlaceDatabase(capacity=2)
    database.add("a", [1.0])
    database.add("b", [1.0])
    with pytest.raises(DatabaseFullError, match="at most 2"):
        database.add("c", [1.0])


def test_it_is_restored_from_a_file(tmp_path: Path) -> None:
    database = filled("hall", "küche", "garden", "hall", "attic")
    database.remove("garden")
    database.save(str(tmp_path / "home.npz"))
    copy = PlaceDatabase.load(tmp_path / "home.npz")
    assert copy.places == database.places == {"hall": 2, "küche": 1, "attic": 1}
    views = [
        sorted((each.label(row), each.rows[row].tolist()) for row in range(4)) for each in (copy, database)
    ]
    assert views[0] == views[1]


def test_an_empty_one_is_restored_too(tmp_path: Path) -> None:
    PlaceDatabase().save(tmp_path / "none.npz")
    assert len(PlaceDatabase.load(tmp_path / "none.npz")) == 0


@pytest.mark.parametrize(
    "arrays",
    [
        {"labels": np.array(["a"]), "embeddings": np.ones((2, 3))},
        {"labels": np.array([1]), "embeddings": np.ones((1, 3))},
        {"labels": np.array(["a"]), "embeddings": np.ones(3)},
        {"labels": np.array(["a"]), "embeddings": np.full((1, 3), np.nan)},
        {"labels": np.array([""]), "embeddings": np.ones((1, 3))},
    ],
)
def test_a_file_of_something_else_is_refused(tmp_path: Path, arrays: dict[str, np.ndarray]) -> None:
    archive.save(tmp_path / "bad.npz", KIND, arrays)
    with pytest.raises(ArchiveError, match=r"bad\.npz: "):
        PlaceDatabase.load(tmp_path / "bad.npz")


@pytest.mark.parametrize("label", ["\ud800", "a\0b", "", 257 * "x"])
def test_a_label_that_no_message_can_carry_is_refused(label: str) -> None:
    with pytest.raises(InputError, match="expected a label"):
        PlaceDatabase().add(label, [1.0, 2.0])


@pytest.mark.parametrize("label", ["a\nb", "\x1b[2J", "💣", "../x", 256 * "ä"])
def test_any_other_label_is_saved_and_loaded(tmp_path: Path, label: str) -> None:
    database = PlaceDatabase()
    database.add(label, [1.0, 2.0])
    database.save(tmp_path / "places.npz")
    assert PlaceDatabase.load(tmp_path / "places.npz").places == {label: 1}


def test_roots_keep_their_signs() -> None:
    assert signed_root(np.array([4.0, -9.0, 0.0])) == pytest.approx([2.0, -3.0, 0.0])
