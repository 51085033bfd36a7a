"""Examples under the labels of their classes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgetpu_driver.errors import ArchiveError, InputError
from edgetpu_driver.files import npz_archive as archive
from edgetpu_vision.learning.taught_examples import KIND, TaughtExamples


@pytest.fixture
def taught() -> TaughtExamples:
    examples = TaughtExamples(capacity=4)
    examples.add("mug", [[3, 4], [1, 0]])
    examples.add("door", [[0, 2]])
    return examples


def test_examples_have_length_1_and_the_number_of_their_class(taught: TaughtExamples) -> None:
    shown = taught.at_present()
    assert (shown.labels, shown.numbers.tolist(), shown.counts.tolist()) == (
        ("mug", "door"),
        [0, 0, 1],
        [2, 1],
    )
    np.testing.assert_allclose(shown.vectors, [[0.6, 0.8], [1, 0], [0, 1]], rtol=1e-6)


def test_a_class_may_be_taught_again(taught: TaughtExamples) -> None:
    taught.add("mug", [[1, 1], [2, 1], [3, 1]], replace=True)
    assert taught.classes == {"door": 1, "mug": 3}


@pytest.mark.parametrize(
    ("label", "vectors", "reason"),
    [
        ("unknown", [[1, 0]], "expected a label other than 'unknown'"),
        ("", [[1, 0]], "a label of 1 to 256 characters; got 0"),
        ("lamp", [], "expected one example or more; got none"),
        ("lamp", [[1, 0, 0]], "an embedding of 2 values; got 3"),
        ("lamp", [[0, 0]], "an embedding with a direction"),
        ("lamp", [[1, 0], [0, 1]], "at most 4 examples of all classes, the capacity; got 5"),
    ],
)
def test_what_cannot_be_an_example_is_refused_and_changes_nothing(
    taught: TaughtExamples, label: str, vectors: list[list[float]], reason: str
) -> None:
    with pytest.raises(InputError, match=reason):
        taught.add(label, vectors)
    assert taught.classes == {"mug": 2, "door": 1}


def test_all_but_the_last_of_a_class_may_be_of_another_dimension_after_it_is_taught_again() -> None:
    examples = TaughtExamples()
    examples.add("mug", [[1, 0]])
    examples.add("mug", [[1, 0, 0]], replace=True)
    assert examples.dimension == 3


def test_a_file_gives_back_examples_and_how_they_were_made(taught: TaughtExamples, tmp_path: Path) -> None:
    taught.model, taught.made_with = "ab12", '{"fit": "stretch"}'
    taught.save(tmp_path / "a.npz")
    loaded = TaughtExamples.load(tmp_path / "a.npz")
    assert (loaded.classes, loaded.model, loaded.made_with) == (taught.classes, "ab12", '{"fit": "stretch"}')
    np.testing.assert_array_equal(loaded.at_present().vectors, taught.at_present().vectors)


def test_an_empty_file_is_of_any_model(tmp_path: Path) -> None:
    TaughtExamples().save(tmp_path / "a.npz")
    loaded = TaughtExamples.load(tmp_path / "a.npz")
    loaded.check_model("cd34", 1024)
    assert loaded.classes == {}


@pytest.mark.parametrize(("model", "dimension"), [("cd34", 2), ("ab12", 3), ("", 3)])
def test_examples_of_another_model_are_refused(taught: TaughtExamples, model: str, dimension: int) -> None:
    taught.model = "ab12"
    taught.check_model("ab12", 2)
    with pytest.raises(InputError, match="forget them, or load others"):
        taught.check_model(model, dimension)


def test_examples_that_were_made_otherwise_are_refused(taught: TaughtExamples) -> None:
    taught.check_model("ab12", 2, "bgr")  # nothing is known of them
    taught.made_with = "rgb"
    taught.check_model("ab12", 2, "rgb")
    taught.check_model("ab12", 2)
    with pytest.raises(InputError) as refused:
        taught.check_model("ab12", 2, "bgr")
    assert str(refused.value) == (
        "expected examples made with bgr; those taught were made with rgb: set the parameters back, forget "
        "the examples, or load others"
    )


def test_a_file_of_an_earlier_version_does_not_say_how_its_examples_were_made(tmp_path: Path) -> None:
    arrays = {
        "labels": np.array(["a"]),
        "embeddings": np.ones((1, 1), np.float32),
        "model": np.array("ab12"),
    }
    archive.save(tmp_path / "a.npz", KIND, arrays)
    loaded = TaughtExamples.load(tmp_path / "a.npz")
    assert (loaded.classes, loaded.model, loaded.made_with) == ({"a": 1}, "ab12", "")


def test_a_file_of_more_than_the_capacity_is_refused(taught: TaughtExamples, tmp_path: Path) -> None:
    taught.save(tmp_path / "a.npz")
    reason = r"a\.npz: expected at most 1 example of all classes, the capacity; got 3"
    with pytest.raises(ArchiveError, match=reason):
        TaughtExamples.load(tmp_path / "a.npz", capacity=1)


def test_beyond_a_lower_capacity_a_class_may_be_taught_again_with_no_more_examples(
    taught: TaughtExamples,
) -> None:
    taught.capacity = 1
    taught.add("mug", [[1, 0], [0, 1]], replace=True)
    assert taught.classes == {"door": 1, "mug": 2}
    taught.add("mug", [[1, 0]], replace=True)
    assert taught.classes == {"door": 1, "mug": 1}
    reason = "expected at most 1 example of all classes, the capacity; got 3"
    with pytest.raises(InputError, match=reason):
        taught.add("mug", [[1, 0], [0, 1]], replace=True)


@pytest.mark.parametrize(
    "changed",
    [
        {"labels": np.arange(2)},
        {"labels": np.array(["a"])},
        {"embeddings": np.zeros((2, 3), np.float32)},
        {"embeddings": np.eye(2, dtype=np.int64)},
        {"model": np.array(["x", "y"])},
        {"made_with": np.array(["x"])},
        {"made_with": np.array(1)},
        {"labels": np.array(["a", "unknown"])},
    ],
)
def test_a_file_with_other_content_is_refused(tmp_path: Path, changed: dict[str, np.ndarray]) -> None:
    arrays = {
        "labels": np.array(["a", "b"]),
        "embeddings": np.eye(2, dtype=np.float32),
        "model": np.array(""),
    }
    archive.save(tmp_path / "a.npz", KIND, {**arrays, **changed})
    with pytest.raises(ArchiveError, match=r"^a\.npz: "):
        TaughtExamples.load(tmp_path / "a.npz")
