"""Boxes of float models that no object has: they are left out, and every other box is as without them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_vision import Detection, Detector, PoseEstimator
from testdata.pictures.fixed_outputs import FixedOutputs

SIZE = 160
CELLS = 525
IMAGE = np.zeros((SIZE, SIZE, 3), np.uint8)
FIRST, SECOND = (0.25, 0.5, 0.25, 0.5), (0.75, 0.25, 0.25, 0.25)
"""Centre and size of two boxes, as parts of the image."""

Array = NDArray[np.float32]


def rows(*boxes: tuple[tuple[float, ...], int, float], classes: int = 3) -> Array:
    """[1, CELLS, 4 + classes], with a row for each box, class and score."""
    values = np.zeros((1, CELLS, 4 + classes), np.float32)
    for row, (box, class_id, score) in enumerate(boxes):
        values[0, row, :4] = box
        values[0, row, 4 + class_id] = score
    return values


def found(values: Array, **options: Any) -> list[tuple[int, float, float, float, float]]:
    detections = Detector(FixedOutputs(SIZE, SIZE, {"output": values}), **options).update(IMAGE).detections
    return [_rounded(each) for each in detections]


def _rounded(each: Detection) -> tuple[int, float, float, float, float]:
    return each.class_id, each.x_min, each.y_min, each.x_max, each.y_max


TWO = [(1, 20.0, 40.0, 60.0, 120.0), (2, 100.0, 20.0, 140.0, 60.0)]
"""FIRST and SECOND as detections."""


@pytest.mark.parametrize("scale", [1, SIZE], ids=["normalised", "px"])
@pytest.mark.parametrize("class_id", [0, 1])
@pytest.mark.parametrize(
    "box",
    [(0.5, 0.5, 1e30, 1e30), (1e30, 0.5, 0.1, 0.1), (0.5, -1e30, 0.1, 0.1), (0.5, 0.5, np.inf, 0.1)],
    ids=str,
)
def test_a_box_beyond_all_images_suppresses_no_other(
    box: tuple[float, ...], class_id: int, scale: int
) -> None:
    values = rows((FIRST, 1, 0.8), (SECOND, 2, 0.7), (box, class_id, 0.9))
    values[:, :, :4] *= scale
    assert found(values) == TWO


def test_a_large_box_does_not_make_parts_of_the_image_px() -> None:
    values = rows((FIRST, 1, 0.8), (SECOND, 2, 0.7), ((0.5, 0.5, 4.5, 4.5), 0, 0.5))
    assert found(values) == [*TWO, (0, 0.0, 0.0, 160.0, 160.0)]


def test_a_box_far_outside_does_not_make_parts_of_the_image_px() -> None:
    assert found(rows((FIRST, 1, 0.8), (SECOND, 2, 0.7), ((9, 9, 0.1, 0.1), 0, 0.9))) == TWO


def test_corners_of_a_large_box_are_parts_of_the_image() -> None:
    values = np.zeros((1, 300, 6), np.float32)
    values[0, 0] = -1.5, -1.5, 2.5, 2.5, 0.9, 0
    values[0, 1] = 0.125, 0.25, 0.375, 0.75, 0.8, 1
    assert found(values) == [(0, 0.0, 0.0, 160.0, 160.0), TWO[0]]


@pytest.mark.parametrize("class_id", [0, 1])
def test_an_oriented_box_beyond_all_images_suppresses_no_other(class_id: int) -> None:
    boxes = rows((FIRST, 1, 0.8), (SECOND, 2, 0.7), ((0.5, 0.5, 1e30, 1e30), class_id, 0.9))
    values = np.concatenate((boxes, np.zeros((1, CELLS, 1), np.float32)), axis=2)
    assert found(values, head="yolov8_obb") == TWO


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("angle", [3e38, -1e30, np.inf, np.nan])
def test_a_box_of_a_senseless_angle_is_left_out(angle: float) -> None:
    boxes = rows((FIRST, 1, 0.8), (SECOND, 2, 0.7), (FIRST, 1, 0.9))
    values = np.concatenate((boxes, np.zeros((1, CELLS, 1), np.float32)), axis=2)
    values[0, 2, -1] = angle
    assert found(values, head="yolov8_obb") == TWO


def test_the_keypoints_of_a_person_larger_than_the_image_are_parts_of_it() -> None:
    values = np.zeros((1, CELLS, 56), np.float32)
    values[0, 0, :5] = 0.5, 0.5, 1.0, 2.5, 0.9
    values[0, 0, 5:8] = 0.25, 0.75, 0.8
    (person,) = PoseEstimator(FixedOutputs(SIZE, SIZE, {"output": values})).update(IMAGE).poses
    assert (person["nose"].x, person["nose"].y) == (40.0, 120.0)


CLASSES = [1e9, -1e30, 65536.0, np.inf, np.nan]
"""Numbers of classes that no model has."""


@pytest.mark.parametrize("labels", [None, ["a", "b"]], ids=["no labels", "labels"])
@pytest.mark.parametrize("class_id", CLASSES)
def test_an_end_to_end_box_of_a_senseless_class_is_left_out(
    class_id: float, labels: list[str] | None
) -> None:
    values = np.zeros((1, 300, 6), np.float32)
    values[0, 0] = 0.1, 0.1, 0.2, 0.2, 0.9, class_id
    values[0, 1] = 0.125, 0.25, 0.375, 0.75, 0.8, 1
    assert found(values, labels=labels) == [TWO[0]]


@pytest.mark.parametrize("labels", [None, ["a", "b"]], ids=["no labels", "labels"])
@pytest.mark.parametrize("class_id", CLASSES)
def test_a_post_processed_box_of_a_senseless_class_is_left_out(
    class_id: float, labels: list[str] | None
) -> None:
    outputs = {
        "TFLite_Detection_PostProcess": np.array(
            [[[0.1, 0.1, 0.2, 0.2], [0.25, 0.125, 0.75, 0.375]]], np.float32
        ),
        "TFLite_Detection_PostProcess:1": np.array([[class_id, 1]], np.float32),
        "TFLite_Detection_PostProcess:2": np.array([[0.9, 0.8]], np.float32),
    }
    detections = Detector(FixedOutputs(SIZE, SIZE, outputs), labels=labels).update(IMAGE).detections
    assert [_rounded(each) for each in detections] == [TWO[0]]
