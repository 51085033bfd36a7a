"""Raw outputs of an SSD with one class and no background: scores [1, n, 1]."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_vision import Detector, ModelDescription
from edgetpu_vision.detection.ssd_anchors import ssd_anchor_count, ssd_anchors
from edgetpu_vision.model_description.graph_facts import PostProcess
from testdata.pictures.fixed_outputs import FixedOutputs

SIZE = 96
COUNT = ssd_anchor_count(SIZE, SIZE)
ANCHORS = ssd_anchors(SIZE, SIZE, COUNT)
IMAGE = np.zeros((SIZE, SIZE, 3), np.uint8)
ENCODINGS = np.zeros((1, COUNT, 4), np.float32)
SCORES = np.zeros((1, COUNT, 1), np.float32)
SCORES[0, 40] = 0.75


def options(classes: int) -> PostProcess:
    return PostProcess(ANCHORS, (10.0, 10.0, 5.0, 5.0), classes, 10, 0.1, 0.5, False, ())


def check(outputs: dict[str, Any], **arguments: Any) -> None:
    """The box is that of anchor 40."""
    detector = Detector(FixedOutputs(SIZE, SIZE, outputs), labels=["face"], **arguments)
    (found,) = detector.update(IMAGE).detections
    y, x, height, width = (ANCHORS[40] * SIZE).tolist()
    edges = np.clip([x - width / 2, y - height / 2, x + width / 2, y + height / 2], 0, SIZE)
    assert (found.class_id, found.label, found.score) == (0, "face", 0.75)
    assert (found.x_min, found.y_min, found.x_max, found.y_max) == pytest.approx(tuple(edges), abs=1e-4)


@pytest.mark.parametrize("shape", [(1, COUNT, 1), (1, COUNT, 1, 1)], ids=str)
@pytest.mark.parametrize("boxes_first", [True, False])
def test_one_class_is_recognised_by_the_number_of_anchors(boxes_first: bool, shape: tuple[int, ...]) -> None:
    outputs = {"boxes": ENCODINGS, "scores": SCORES.reshape(shape)}
    check(outputs if boxes_first else dict(reversed(outputs.items())))


@pytest.mark.parametrize("classes", [0, 1], ids=["not told", "told"])
def test_one_class_is_recognised_by_the_anchors_of_the_file(classes: int) -> None:
    description = ModelDescription(post_process=options(classes))
    check({"boxes": ENCODINGS, "scores": SCORES}, description=description)


def test_one_class_is_recognised_by_given_anchors() -> None:
    check({"boxes": ENCODINGS, "scores": SCORES}, anchors=ANCHORS)


def test_one_class_in_8_bits() -> None:
    scores = np.full((1, COUNT, 1), -128, np.int8)
    scores[0, 40] = 64
    boxes = np.zeros((1, COUNT, 4), np.int8)
    check({"boxes": (boxes, 1 / 20, 0), "scores": (scores, 1 / 256, -128)})


def test_a_score_is_at_most_1() -> None:
    scores = np.zeros((1, COUNT, 1), np.uint8)
    scores[0, 40] = 255
    outputs = {"boxes": ENCODINGS, "scores": (scores, 1 / 251, 0)}
    (found,) = Detector(FixedOutputs(SIZE, SIZE, outputs)).update(IMAGE).detections
    assert found.score == 1.0


def test_more_classes_than_scores_are_refused() -> None:
    outputs = {"boxes": ENCODINGS, "scores": SCORES}
    with pytest.raises(ModelUnsupportedError, match=r"expected scores of 90 classes; got .*\[1, 204, 1\]"):
        Detector(FixedOutputs(SIZE, SIZE, outputs), description=ModelDescription(post_process=options(90)))
