"""The outputs of post-processed detectors in other shapes and dtypes than TFLite's operator has."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_vision import Detector, ModelDescription, OutputsError
from testdata.pictures.fixed_outputs import FixedOutputs

IMAGE = np.zeros((100, 200, 3), np.uint8)
BOXES = np.array([[[0.0, 0.2, 0.4, 0.6], [0.2, 0.0, 1.0, 0.4], [0.2, 0.2, 0.4, 0.4]]])
CLASSES, SCORES, COUNT = np.array([[2, 1, 5]]), np.array([[0.8, 0.6, 0.5]]), np.array([2])
EXPECTED = [(2, 40, 0, 120, 40), (1, 0, 20, 80, 100)]


def found(*outputs: Any, **options: Any) -> list[tuple[float, ...]]:
    """Class and edges of what a detector with these outputs finds."""
    model = FixedOutputs(300, 300, {f"output{number}": each for number, each in enumerate(outputs)})
    result = Detector(model, fit="stretch", min_confidence=0.3, **options).update(IMAGE)
    return [
        (each.class_id, *(round(edge) for edge in (each.x_min, each.y_min, each.x_max, each.y_max)))
        for each in result.detections
    ]


def floats(*arrays: Any) -> list[Any]:
    return [np.asarray(array, np.float32) for array in arrays]


def quantised(real: Any, scale: float) -> tuple[Any, float, int]:
    return np.rint(np.asarray(real) / scale).astype(np.uint8), scale, 0


UINT8 = [
    quantised(BOXES, 1 / 255),
    quantised(CLASSES, 1.0),
    quantised(SCORES, 1 / 255),
    quantised(COUNT, 1.0),
]


@pytest.mark.parametrize("order", list(permutations(range(4))), ids=str)
def test_all_outputs_may_have_8_bits(order: tuple[int, ...]) -> None:
    assert found(*(UINT8[which] for which in order)) == EXPECTED


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64])
def test_classes_and_count_may_be_integers_without_a_scale(dtype: Any) -> None:
    boxes, scores = floats(BOXES, SCORES)
    assert found(scores, CLASSES.astype(dtype), boxes, COUNT.astype(dtype)) == EXPECTED


def test_scores_of_8_bits_need_a_scale() -> None:
    boxes, classes = floats(BOXES, CLASSES)
    scores = np.array([[255, 200, 0]], np.uint8)
    with pytest.raises(ModelUnsupportedError, match="integers of 8 bits mean nothing without a scale"):
        found(boxes, CLASSES.astype(np.uint8), scores)
    assert found(boxes, classes, (scores, 1 / 255, 0)) == EXPECTED


def test_a_count_is_the_nearest_integer_to_its_quantised_value() -> None:
    count = (np.array([25], np.uint8), 0.0784, 0)  # 1.96
    assert found(*floats(BOXES, CLASSES, SCORES), count) == EXPECTED


@pytest.mark.parametrize(
    ("boxes", "lists"),
    [((3, 4), (3,)), ((1, 1, 3, 4), (1, 1, 3)), ((1, 3, 1, 4), (1, 3, 1)), ((1, 3, 4), (1, 3, 1))],
    ids=str,
)
def test_there_may_be_fewer_or_more_axes_of_extent_1(boxes: tuple[int, ...], lists: tuple[int, ...]) -> None:
    outputs = [BOXES.reshape(boxes), CLASSES.reshape(lists), SCORES.reshape(lists), COUNT]
    assert found(*floats(*outputs)) == EXPECTED


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)], ids=str)
def test_a_count_is_distinguished_from_the_lists(shape: tuple[int, ...]) -> None:
    assert found(*floats(COUNT.reshape(shape), SCORES, CLASSES, BOXES)) == EXPECTED


def test_corners_of_a_suppression_by_the_exporter_of_yolov5_begin_with_x() -> None:
    boxes, classes, scores, count = floats(BOXES[:, :, [1, 0, 3, 2]], CLASSES, SCORES, COUNT)
    exporter = {"stride": 32, "names": {number: str(number) for number in range(80)}}
    assert found(boxes, scores, classes, count, description=ModelDescription(exporter=exporter)) == EXPECTED


def test_corners_begin_with_y_where_a_person_described_the_classes() -> None:
    boxes, _, scores, _ = floats(BOXES, CLASSES, SCORES, COUNT)
    description = ModelDescription(exporter={"names": ["cat", "dog", "cow", "hen", "fox", "owl"]})
    assert found(boxes, scores, CLASSES, COUNT, description=description) == EXPECTED


def test_a_list_of_a_single_box_has_a_count_too() -> None:
    outputs = floats(np.array([1]), SCORES[:, :1], CLASSES[:, :1], BOXES[:, :1])
    assert found(*outputs) == EXPECTED[:1]


def test_raw_boxes_and_scores_next_to_them_are_ignored() -> None:
    raw = floats(np.zeros((1, 1917, 4)), np.zeros((1, 1917, 91)))
    assert found(*raw, *floats(BOXES, CLASSES, SCORES, COUNT)) == EXPECTED


def test_boxes_in_px_are_refused() -> None:
    boxes, classes, scores = floats(BOXES * 300, CLASSES, SCORES)
    with pytest.raises(OutputsError, match=r"as parts of the image in 'output0'.*got coordinates up to 300"):
        found(boxes, classes, scores)


def test_a_box_far_outside_the_image_does_not_affect_others() -> None:
    boxes, classes, scores, count = floats(BOXES, CLASSES, SCORES, COUNT)
    boxes[0, 1] = (0.2, 0.0, 90.0, 0.4)
    assert found(boxes, classes, scores, count) == EXPECTED


def test_nan_among_the_scores_does_not_make_them_classes() -> None:
    scores = np.array([[0.4, np.nan, 0.5]])
    assert found(*floats(BOXES, [[1, 0, 0]], scores, [2])) == [(1, 40, 0, 120, 40)]
