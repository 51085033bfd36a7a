"""The classifier: the greatest of many values, as probabilities, with labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.errors import InputError, ModelUnsupportedError
from edgetpu_driver.images.encodings import ImageError
from edgetpu_vision import Classifier, LabelsError, ModelDescription, OutputsError
from edgetpu_vision.classification.top_k import GreatestValues
from testdata import GOLDEN
from testdata.graphs.exported_graphs import Values, exported_graph
from testdata.pictures.fixed_outputs import IMAGE, fixed, spec

UINT8 = {"dtype": np.uint8, "scale": 1 / 256, "zero_point": 0}


def classified(values: Any, tensor: Any, **options: Any) -> list[tuple[int, float]]:
    model = fixed({tensor: np.asarray(values, tensor.dtype).reshape(tensor.shape)})
    result = Classifier(model, **options).update(IMAGE, 2.5)
    assert result.stamp == 2.5
    return [(each.class_id, each.score) for each in result.classes]


def test_quantised_probabilities_are_scores() -> None:
    found = classified([0, 64, 192], spec("p", (1, 3), **UINT8), max_results=2)
    assert found == [(2, 0.75), (1, 0.25)]


def test_scores_are_probabilities_though_the_range_of_8_bits_exceeds_them() -> None:
    exceeding = {"dtype": np.uint8, "scale": 1 / 250, "zero_point": 3}
    assert classified([0, 255, 128], spec("p", (1, 3), **exceeding)) == [(1, 1.0), (2, 0.5), (0, 0.0)]
    assert classified([255], spec("p", (1, 1), **exceeding)) == [(1, 1.0), (0, 0.0)]


def test_an_output_of_8_bits_without_a_scale_is_refused() -> None:
    with pytest.raises(ModelUnsupportedError, match=r"got 'p' uint8.*; integers of 8 bits mean nothing"):
        Classifier(fixed({spec("p", (1, 3), np.uint8): np.zeros((1, 3), np.uint8)}))


def test_the_first_of_equal_values_comes_first() -> None:
    assert [index for index, _ in classified([5, 9, 9, 9, 1], spec("p", (1, 5), **UINT8), max_results=2)] == [
        1,
        2,
    ]


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.float32])
def test_the_greatest_are_those_of_a_full_sort(dtype: Any) -> None:
    rng = np.random.default_rng(1)
    for size in (1, 2, 7, 100, 1001):
        limits = (-128, 128) if dtype == np.int8 else (0, 256)
        values = rng.integers(*limits, size).astype(dtype)
        expected = np.lexsort((np.arange(size), -values.astype(np.float64)))[:5].tolist()
        assert GreatestValues(size).of(values, 5) == expected


def test_nan_is_never_among_the_greatest() -> None:
    values = np.array([np.nan, 1, np.nan, 2], np.float32)
    assert GreatestValues(4).of(values, 2) == [3, 1]
    assert GreatestValues(4).of(values, 9) == [3, 1]


def test_numbers_are_found_among_many_nan() -> None:
    values = np.array([1, np.nan, 2, np.nan, np.nan, np.nan], np.float32)
    assert GreatestValues(6).of(values, 3) == [2, 0]


def test_the_least_integer_of_16_bits_is_not_the_greatest() -> None:
    assert GreatestValues(4).of(np.array([-32768, 5, 3, 1], np.int16), 2) == [1, 2]


@pytest.mark.parametrize("count", [0, -1])
def test_at_least_one_result_is_to_be_wanted(count: int) -> None:
    with pytest.raises(InputError, match="max_results: expected 1 or more; got"):
        Classifier(max_results=count)


def test_logits_become_probabilities() -> None:
    logits = np.array([1.0, 3.0, 2.0], np.float32)
    found = classified(logits, spec("logits", (1, 3)))
    expected = np.exp(logits) / np.exp(logits).sum()
    assert [index for index, _ in found] == [1, 2, 0]
    np.testing.assert_allclose([score for _, score in found], expected[[1, 2, 0]], rtol=1e-6)


def test_quantised_logits_become_probabilities() -> None:
    tensor = spec("logits", (1, 1, 1, 4), np.int8, 0.25, -10)
    values = np.array([-10, 20, 30, -128], np.int8)
    real = tensor.dequantise(values).astype(np.float64)
    expected = np.exp(real) / np.exp(real).sum()
    found = classified(values, tensor, max_results=4)
    assert [index for index, _ in found] == [2, 1, 0, 3]
    np.testing.assert_allclose([score for _, score in found], expected[[2, 1, 0, 3]], rtol=1e-5)


def test_huge_logits_do_not_overflow() -> None:
    assert classified([1000.0, -1000.0], spec("logits", (1, 2)))[0] == (0, 1.0)


def test_probabilities_in_float_stay_as_they_are() -> None:
    found = classified([0.5, 0.25, 0.125], spec("p", (1, 3)))
    assert found == [(0, 0.5), (1, 0.25), (2, 0.125)]


def test_classes_below_the_least_confidence_are_left_out() -> None:
    assert classified([0, 64, 192], spec("p", (1, 3), **UINT8), min_confidence=0.5) == [(2, 0.75)]


def test_only_the_wanted_classes_are_given() -> None:
    found = classified([0, 64, 192], spec("p", (1, 3), **UINT8), classes=["b", 0], labels=["a", "b", "c"])
    assert found == [(1, 0.25), (0, 0.0)]


def test_one_wanted_class_needs_no_list() -> None:
    assert classified(
        [0, 64, 192], spec("p", (1, 3), **UINT8), classes="cat", labels=["dog", "cat", "c"]
    ) == [(1, 0.25)]


def test_labels_name_the_classes() -> None:
    model = fixed({spec("p", (1, 2), **UINT8): np.array([[0, 255]], np.uint8)})
    assert [each.label for each in Classifier(model, labels=["cat", "dog"]).update(IMAGE).classes] == [
        "dog",
        "cat",
    ]


def test_other_numbers_of_labels_are_refused() -> None:
    model = fixed({spec("p", (1, 3), **UINT8): np.zeros((1, 3), np.uint8)})
    with pytest.raises(LabelsError, match=r"expected 3 labels"):
        Classifier(model, labels=["cat", "dog"])


def test_a_model_without_a_value_for_each_class_is_refused() -> None:
    model = fixed({spec("map", (1, 8, 8, 3)): np.zeros((1, 8, 8, 3), np.float32)})
    with pytest.raises(
        ModelUnsupportedError, match=r"a value for each class; got 'map' float32\[1, 8, 8, 3\]"
    ):
        Classifier(model)


def test_a_single_probability_is_that_of_the_second_of_two_classes() -> None:
    tensor = spec("p", (1, 1), **UINT8)
    assert classified([64], tensor) == [(0, 0.75), (1, 0.25)]
    assert classified([192], tensor, labels=["cat", "dog"], classes=["dog"]) == [(1, 0.75)]


def test_a_single_probability_in_float_is_known_by_the_graph() -> None:
    tensor, description = spec("p", (1, 1)), ModelDescription(probabilities=frozenset({"p"}))
    assert classified([0.25], tensor, description=description) == [(0, 0.75), (1, 0.25)]
    with pytest.raises(ModelUnsupportedError, match="one output that is a value for each class"):
        classified([0.25], tensor)


@pytest.mark.parametrize("dequantized", [False, True], ids=["int8", "float"])
@pytest.mark.parametrize(
    ("logits", "expected"),
    [((0.25, 0.75), (0.3775, 0.6225)), ((2.0,), (0.1192, 0.8808)), ((-2.0,), (0.8808, 0.1192))],
    ids=str,
)
def test_logits_are_known_by_their_quantised_range(
    tmp_path: Path, logits: tuple[float, ...], expected: tuple[float, ...], dequantized: bool
) -> None:
    """In float, too, if the graph only dequantises them: two logits within 0..1 look like probabilities."""
    pytest.importorskip("ai_edge_litert", reason="needs LiteRT")
    file = tmp_path / "logits.tflite"
    file.write_bytes(exported_graph(8, 8, {"logits": Values(np.array([logits]), 1 / 32, 0)}, dequantized))
    found = Classifier(file, min_confidence=0).update(IMAGE).classes
    assert {each.class_id: round(each.score, 4) for each in found} == dict(enumerate(expected))


def test_a_single_probability_in_float_is_known_by_its_quantised_range() -> None:
    tensor, inside = spec("p", (1, 1)), spec("inside", (1, 1), np.int8, 1 / 256, -128)
    description = ModelDescription(dequantised_outputs={"p": inside})
    assert classified([0.25], tensor, description=description) == [(0, 0.75), (1, 0.25)]


def test_a_single_number_of_a_class_is_refused() -> None:
    with pytest.raises(ModelUnsupportedError, match="one output that is a value for each class"):
        classified([3], spec("class", (1, 1), np.uint8, 1.0))


def test_classes_may_be_on_any_axis() -> None:
    assert classified([0, 64, 192], spec("p", (1, 3, 1, 1), **UINT8), max_results=1) == [(2, 0.75)]


def test_one_of_several_outputs_is_named() -> None:
    outputs = {
        spec(name, (1, 2)): np.array([[value, 0]], np.float32) for name, value in (("a", 0.5), ("b", 0.75))
    }
    with pytest.raises(ModelUnsupportedError, match=r"name the one to take"):
        Classifier(fixed(outputs))
    assert Classifier(fixed(outputs), output="b").update(IMAGE).confidence == 0.75


def test_a_missing_output_is_an_error() -> None:
    classifier = Classifier(fixed({spec("p", (1, 2)): np.zeros((1, 2), np.float32)}))
    with pytest.raises(OutputsError, match=r"expected the output 'p'; got 'q'"):
        classifier.postprocess(classifier.preprocess(IMAGE), {"q": np.zeros((1, 2), np.float32)})


def test_an_output_of_another_size_is_an_error() -> None:
    classifier = Classifier(fixed({spec("p", (1, 2)): np.zeros((1, 2), np.float32)}))
    for size in (0, 1, 3):
        with pytest.raises(OutputsError, match=rf"expected 'p' float32\[1, 2\]; got float32\[{size}\]"):
            classifier.postprocess(classifier.preprocess(IMAGE), {"p": np.zeros(size, np.float32)})


def test_infinite_values_are_no_classes() -> None:
    assert classified([np.inf] * 3, spec("p", (1, 3))) == []


def test_an_image_needs_a_model_first() -> None:
    with pytest.raises(ModelUnsupportedError, match=r"expected a model to be bound"):
        Classifier().preprocess(IMAGE)
    with pytest.raises(ModelUnsupportedError, match=r"expected a model to run"):
        Classifier().update(IMAGE)


@pytest.mark.parametrize(
    "image",
    [
        np.zeros((8, 8, 4), np.uint8),
        np.zeros((8, 8, 3), np.float32),
        np.zeros((0, 8, 3), np.uint8),
        np.zeros(8, np.uint8),
        np.zeros((1, 8, 8, 3), np.uint8),
    ],
    ids=lambda image: f"{image.dtype}{list(image.shape)}",
)
def test_other_arrays_than_images_are_refused(image: NDArray[Any]) -> None:
    classifier = Classifier(fixed({spec("p", (1, 2)): np.zeros((1, 2), np.float32)}))
    with pytest.raises(ImageError, match=r"expected"):
        classifier.update(image)


@pytest.mark.parametrize(("picture", "label"), [("cat", "tiger cat"), ("bird", "chickadee")])
def test_a_published_model_names_a_picture(picture: str, label: str) -> None:
    pytest.importorskip("ai_edge_litert", reason="needs LiteRT")
    classifier = Classifier(GOLDEN.path("vision/mobilenet_v1_0.25_128_quant.tflite"))
    image = cv2.cvtColor(cv2.imread(str(GOLDEN.path(f"vision/pictures/{picture}.bmp"))), cv2.COLOR_BGR2RGB)
    assert classifier.update(image).classes[0].label == label


def test_a_model_of_poses_is_no_classifier() -> None:
    outputs = {
        spec("poses", (1, 20, 17, 2)): np.zeros((1, 20, 17, 2), np.float32),
        spec("scores", (1, 20)): np.zeros((1, 20), np.float32),
    }
    with pytest.raises(ModelUnsupportedError, match="one output that is a value for each class; got 'poses'"):
        Classifier(fixed(outputs))
