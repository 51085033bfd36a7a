"""The learner: classes from images, from folders, from files; and everything else unknown."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

from edgetpu_driver import CpuEngine
from edgetpu_driver.errors import InputError
from edgetpu_vision import Learner
from edgetpu_vision.errors import UnknownClassError
from testdata.graphs.color_embedding_graph import color_embedding_graph, colored

RED, GREEN, BLUE = (
    [colored(*np.roll((strong, weak, 0), turn)) for strong, weak in ((200, 20), (120, 25), (240, 10))]
    for turn in range(3)
)


def learner(**options: object) -> Learner:
    return Learner(CpuEngine(color_embedding_graph()), **options)  # type: ignore[arg-type]


def best(taught: Learner, image: np.ndarray) -> str:
    return taught.update(image).classes[0].label


@pytest.mark.parametrize("method", ["regression", "imprinting"])
def test_what_was_shown_is_recognised_and_anything_else_is_unknown(method: str) -> None:
    taught = learner(method=method)
    taught.learn("red", RED)
    taught.learn("green", GREEN)
    assert [best(taught, image) for image in (colored(150, 20, 5), colored(0, 90, 10))] == ["red", "green"]
    assert best(taught, BLUE[0]) == "unknown"


def test_probabilities_of_all_classes_and_of_unknown_sum_to_1() -> None:
    taught = learner()
    taught.learn("red", RED)
    taught.learn("green", GREEN)
    classes = taught.update(colored(90, 80, 30)).classes
    assert {each.label for each in classes} == {"red", "green", "unknown"}
    assert sum(each.score for each in classes) == pytest.approx(1.0)


def test_one_image_in_place_of_several_is_refused() -> None:
    with pytest.raises(InputError, match=r"expected a list of images; got one of shape \[64, 64, 3\]"):
        learner().learn("red", np.zeros((64, 64, 3), np.uint8))  # type: ignore[arg-type]


def test_without_any_class_everything_is_unknown() -> None:
    (only,) = learner().update(RED[0], 2.5).classes
    assert (only.class_id, only.label, only.score) == (-1, "unknown", 1.0)


def test_an_image_without_a_vector_is_unknown_and_no_example() -> None:
    taught = learner()
    taught.learn("red", RED)
    assert [each.score for each in taught.update(colored(0, 0, 0)).classes] == [1.0]
    with pytest.raises(InputError, match="an image that gives an embedding; the model's output is all zeros"):
        taught.learn("black", [colored(0, 0, 0)])
    assert taught.examples.classes == {"red": 3}


def test_a_forgotten_class_is_unknown() -> None:
    taught = learner()
    taught.learn("red", RED)
    taught.learn("green", GREEN)
    assert taught.forget("green") == 3
    assert best(taught, GREEN[0]) == "unknown"
    with pytest.raises(UnknownClassError, match=r"that was taught \(red\); got 'green'"):
        taught.forget("green")
    taught.forget("red")
    assert (taught.classifier, best(taught, RED[0])) == (None, "unknown")


def test_a_class_is_taught_from_a_folder_of_pictures(tmp_path: Path) -> None:
    for number, image in enumerate(GREEN):
        cv2.imwrite(str(tmp_path / f"{number}.png"), image[..., ::-1])
    (tmp_path / "notes.txt").write_text("no picture")
    taught = learner()
    taught.learn("red", RED)
    assert taught.learn_folder("green", tmp_path) == 3
    assert (taught.examples.classes, best(taught, GREEN[1])) == ({"red": 3, "green": 3}, "green")


def test_a_damaged_picture_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"no picture")
    taught = learner()
    with pytest.raises(InputError, match=r"a\.png: .*expected a JPEG, PNG"):
        taught.learn_folder("green", tmp_path)
    assert taught.examples.classes == {}


def test_a_folder_without_pictures_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"expected 1 to 1000 pictures .* got 0"):
        learner().learn_folder("green", tmp_path)
    with pytest.raises(InputError, match="cannot read the folder"):
        learner().learn_folder("green", tmp_path / "none")


def test_what_was_taught_is_saved_and_loaded(tmp_path: Path) -> None:
    taught = learner()
    taught.learn("red", RED)
    taught.learn("green", GREEN)
    taught.save(tmp_path / "classes.npz")
    other = learner()
    other.load(tmp_path / "classes.npz")
    assert other.update(RED[1]) == taught.update(RED[1])


def test_a_file_of_another_model_is_refused(tmp_path: Path) -> None:
    taught = learner()
    taught.examples.add("red", [np.ones(7)])
    taught.save(tmp_path / "classes.npz")
    taught = learner()
    taught.learn("green", GREEN)
    with pytest.raises(InputError, match="which makes 8 values; those taught are 7 values of another"):
        taught.load(tmp_path / "classes.npz")
    assert best(taught, GREEN[0]) == "green"


def test_another_method_is_refused() -> None:
    with pytest.raises(InputError, match="expected a method of regression, imprinting; got 'magic'"):
        learner(method="magic")


@pytest.mark.parametrize("count", [0, -1])
def test_a_result_has_at_least_one_class(count: int) -> None:
    with pytest.raises(InputError, match=f"max_results: expected 1 or more; got {count}"):
        learner(max_results=count)
