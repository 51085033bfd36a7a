"""Detectors as people export them, as files: made for known objects, they give these objects.

Layouts and quantisation are those that exporters of YOLOv5, v8 and 11 document (full integer quantisation:
int8 image, boxes as parts of the image), TensorFlow's object detection API and EfficientDet-Lite's.
"""

from __future__ import annotations

from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_vision import Detector
from edgetpu_vision.detection.ssd_anchors import ssd_anchor_count, ssd_anchors
from testdata.graphs.exported_detectors import (
    CAT,
    CELLS,
    DOG,
    IMAGE,
    SIZE,
    STEP,
    check,
    corners_of,
    detector,
    rows,
)
from testdata.graphs.exported_graphs import Values, post_processed_graph
from testdata.pictures.fixed_outputs import FixedOutputs

pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

IN_FLOAT = pytest.mark.parametrize("dequantized", [False, True], ids=["int8", "float"])


@pytest.mark.parametrize("transposed", [True, False], ids=["[1,84,n]", "[1,n,84]"])
def test_the_rows_of_yolov8_and_11_are_decoded(tmp_path: Path, transposed: bool) -> None:
    values = rows(CELLS, 84)
    values = values.T if transposed else values
    check(detector(tmp_path, {"Identity": Values(values[None], STEP)}).update(IMAGE).detections)


def test_yolov8_is_decoded_at_its_usual_size(tmp_path: Path) -> None:
    outputs = {"Identity": Values(rows(8400, 84).T[None], STEP)}
    check(detector(tmp_path, outputs, 640, labels="coco").update(IMAGE).detections)


def test_scores_of_yolov5_are_multiplied_by_the_objectness(tmp_path: Path) -> None:
    values = rows(3 * CELLS, 85, first=5)
    values[:, 4] = 0.8 * (values[:, 5:].max(axis=1) > 0)
    objects = [(class_id, score * 0.8, box) for class_id, score, box in (CAT, DOG)]
    found = detector(tmp_path, {"Identity": Values(values[None], STEP)}).update(IMAGE).detections
    check(found, objects)


@IN_FLOAT
@pytest.mark.parametrize("count", [3 * CELLS, 3 * (CELLS - 400)], ids=["three grids", "tiny"])
def test_boxes_and_classes_of_yolov4_are_two_outputs(tmp_path: Path, count: int, dequantized: bool) -> None:
    values = rows(count, 84)
    boxes = Values(values[None, :, :4] * SIZE, SIZE / 200)
    outputs = {"Identity": boxes, "Identity_1": Values(values[None, :, 4:], 1 / 200)}
    check(detector(tmp_path, outputs, dequantized=dequantized, labels="coco").update(IMAGE).detections)


@IN_FLOAT
def test_encoded_boxes_of_three_anchors_a_cell_are_not_those_of_yolov4(
    tmp_path: Path, dequantized: bool
) -> None:
    boxes = Values(np.zeros((1, 3 * CELLS, 4)), 1 / 20, 0)
    outputs = {"boxes": boxes, "scores": Values(np.zeros((1, 3 * CELLS, 21)), 1 / 256)}
    with pytest.raises(ModelUnsupportedError, match="need its anchors, which this file does not have"):
        detector(tmp_path, outputs, dequantized=dequantized)


def test_float_boxes_of_three_anchors_a_cell_need_the_name_of_their_head() -> None:
    values = rows(3 * CELLS, 84).astype(np.float32)
    model = FixedOutputs(SIZE, SIZE, {"boxes": values[None, :, :4], "scores": values[None, :, 4:]})
    with pytest.raises(ModelUnsupportedError, match=r"name the head yolov3 or yolov4; .* need its anchors"):
        Detector(model)
    check(Detector(model, head="yolov4").update(IMAGE).detections)


def test_end_to_end_boxes_are_taken_as_corners(tmp_path: Path) -> None:
    objects = ((0, 0.9, (0.3, 0.5, 0.2, 0.2)), (1, 0.6, (0.7, 0.3, 0.4, 0.4)))
    values = np.zeros((1, 300, 6))
    values[0, :2] = corners_of(objects)
    check(detector(tmp_path, {"Identity": Values(values, STEP)}).update(IMAGE).detections, objects)


def test_eight_bits_that_hold_numbers_of_many_classes_are_refused(tmp_path: Path) -> None:
    outputs = {"Identity": Values(np.zeros((1, 300, 6)), 79 / 255)}
    with pytest.raises(
        ModelUnsupportedError, match=r"at most 1/32 .* got steps of 0\.31 .* without nms=True"
    ):
        detector(tmp_path, outputs)


def test_eight_bit_outputs_with_px_and_scores_are_refused(tmp_path: Path) -> None:
    outputs = {"Identity": Values(np.zeros((1, 84, CELLS)), 160 / 255)}
    with pytest.raises(ModelUnsupportedError, match=r"steps of 0\.627 in 'Identity' int8\[1, 84, 525\]"):
        detector(tmp_path, outputs)


def split(
    classes: Values, boxes_scale: float, boxes_px: bool = False, names: str = "ab"
) -> dict[str, Values]:
    """Boxes and classes in two outputs [1, 4, n], the classes first."""
    boxes = rows(CELLS, 8)[:, :4] * (SIZE if boxes_px else 1)
    return {names[0]: classes, names[1]: Values(boxes.T[None], boxes_scale)}


def four_classes() -> NDArray[np.float64]:
    values: NDArray[np.float64] = rows(CELLS, 8)[:, 4:].T[None]
    return values


@IN_FLOAT
def test_four_classes_from_a_logistic_function_are_distinguished_from_boxes(
    tmp_path: Path, dequantized: bool
) -> None:
    outputs = split(Values(four_classes(), 1 / 256), STEP)
    found = detector(tmp_path, outputs, dequantized=dequantized).update(IMAGE).detections
    assert [(each.class_id, round(each.score, 2)) for each in found] == [(3, 0.9), (1, 0.6)]
    assert (*found[0].center, found[0].width) == pytest.approx((80, 160, 64), abs=1e-3)


@IN_FLOAT
def test_four_classes_are_distinguished_from_boxes_in_px(tmp_path: Path, dequantized: bool) -> None:
    outputs = split(Values(four_classes(), STEP), SIZE / 200, boxes_px=True)
    check(detector(tmp_path, outputs, dequantized=dequantized).update(IMAGE).detections)


@IN_FLOAT
def test_logits_of_four_classes_are_distinguished_from_boxes(tmp_path: Path, dequantized: bool) -> None:
    logits = np.where(four_classes() > 0.5, 2.0, -4.0)
    outputs = split(Values(logits, 1 / 20, 20), STEP)
    found = detector(tmp_path, outputs, dequantized=dequantized).update(IMAGE).detections
    assert [each.class_id for each in found] == [3, 1]
    assert found[0].score == pytest.approx(1 / (1 + np.exp(-2)), abs=1e-5)


def test_four_classes_like_boxes_are_distinguished_by_words_in_names(tmp_path: Path) -> None:
    outputs = split(Values(four_classes(), STEP), STEP)
    named = {"model/cls": outputs["a"], "model/bbox": outputs["b"]}
    check(detector(tmp_path, named).update(IMAGE).detections)


def test_four_classes_like_boxes_need_a_name(tmp_path: Path) -> None:
    outputs = split(Values(four_classes(), STEP), STEP)
    with pytest.raises(ModelUnsupportedError, match=r"'a' int8.* and 'b' int8.*: name .*boxes_output"):
        detector(tmp_path, outputs)
    check(detector(tmp_path, outputs, boxes_output="b").update(IMAGE).detections)
    with pytest.raises(ModelUnsupportedError, match="an output 'c' with the boxes; got 'a' int8"):
        detector(tmp_path, outputs, boxes_output="c")


def test_distributions_and_64_classes_may_be_named(tmp_path: Path) -> None:
    """Without a name, the first of two outputs of 64 channels has the boxes."""
    distances, logits = np.zeros((1, CELLS, 4, 16)), np.full((1, CELLS, 64), -8.0)
    distances[..., 2], logits[0, 20 * 3 + 5, 63] = 12, 3
    boxes = Values(distances.reshape(1, CELLS, 64), 1 / 10, 0)
    outputs = {"classes": Values(logits, 1 / 10, 0), "boxes": boxes}
    (found,) = detector(tmp_path, outputs, boxes_output="boxes").update(IMAGE).detections
    assert (found.class_id, *found.center) == (63, pytest.approx(88, abs=0.1), pytest.approx(56, abs=0.1))


# SSD

ENCODING = 1 / 20


def pyramid(size: int, classes: int, anchor: int) -> dict[str, Values]:
    """Raw outputs of an SSD with a feature pyramid that finds class 4 in the place of one of its anchors."""
    count = {320: 12804, 640: 51150}[size]
    scores = np.zeros((1, count, classes + 1))
    scores[0, anchor, 1 + 4] = 0.75
    return {
        "scores": Values(scores, 1 / 256),
        "boxes": Values(np.zeros((1, count, 4)), ENCODING, 0),
    }


@pytest.mark.parametrize(
    ("size", "anchor", "expected"),
    [
        (320, 0, (4, 4, 32, 32)),
        (320, 6 * 41 + 1, (12, 12, 32 * sqrt(2), 32 * sqrt(2))),
        (320, 6 * 41 + 2, (12, 12, 32 * sqrt(2), 32 / sqrt(2))),
        (320, 6 * 1600 + 5, (8, 8, 64, 128)),
        (320, 12804 - 30, (128, 128, 512, 512)),  # where cells do not divide the input, they have no centre
        (640, 51150 - 3, (576, 576, 1024, 512)),
    ],
)
def test_a_feature_pyramid_of_the_object_detection_api(
    tmp_path: Path, size: int, anchor: int, expected: tuple[float, ...]
) -> None:
    """Centre and size of anchors, px: 4 cells wide, of ratios 1, 2 and 1/2, each also 2 ** 0.5 as large."""
    model = detector(tmp_path, pyramid(size, 90, anchor), size, labels="coco")
    (found,) = model.update(np.zeros((size, size, 3), np.uint8)).detections
    x, y, width, height = expected
    edges = np.clip([x - width / 2, y - height / 2, x + width / 2, y + height / 2], 0, size)
    assert (found.class_id, found.label, found.score) == (4, "airplane", 0.75)
    assert (found.x_min, found.y_min, found.x_max, found.y_max) == pytest.approx(tuple(edges), abs=1e-3)


def test_three_classes_and_their_background_are_as_many_as_coordinates(tmp_path: Path) -> None:
    outputs = pyramid(320, 5, 0)
    outputs["scores"] = Values(outputs["scores"].real[:, :, 2:], 1 / 256)
    model = detector(tmp_path, outputs, 320)
    (found,) = model.update(np.zeros((320, 320, 3), np.uint8)).detections
    assert (found.class_id, found.x_max, found.y_max) == (2, pytest.approx(20), pytest.approx(20))


OPTIONS = {
    "max_detections": 10,
    "max_classes_per_detection": 1,
    "nms_score_threshold": 0.1,
    "nms_iou_threshold": 0.5,
    "use_regular_nms": False,
    "y_scale": 1.0,
    "x_scale": 1.0,
    "h_scale": 1.0,
    "w_scale": 1.0,
}


def test_each_box_may_be_listed_with_its_best_classes(tmp_path: Path) -> None:
    """LiteRT counts boxes then, not entries of the lists."""
    anchors = ssd_anchors(96, 96, ssd_anchor_count(96, 96))
    scores = np.zeros((1, len(anchors), 4))
    scores[0, (5, -1), 1:] = (0.25, 0.75, 0.5), (0.125, 0.25, 0.875)
    options = OPTIONS | {"num_classes": 3, "max_classes_per_detection": 2}
    data = post_processed_graph(
        96,
        96,
        Values(np.zeros((1, len(anchors), 4)), ENCODING, 0),
        Values(scores, 1 / 256),
        anchors,
        **options,
    )
    (tmp_path / "ssd.tflite").write_bytes(data)
    found = Detector(tmp_path / "ssd.tflite", min_confidence=0).update(np.zeros((96, 96, 3), np.uint8))
    assert [(each.class_id, each.score) for each in found.detections] == [
        (2, 0.875),
        (1, 0.75),
        (2, 0.5),
        (1, 0.25),
    ]


def post_processed(path: Path, size: int, classes: int, background: bool, anchors: Any, **labels: Any) -> Any:
    """A detector that finds the class before the last in the place of the last anchor, moved by a quarter."""
    scores = np.zeros((1, len(anchors), classes + background))
    scores[0, -1, -2] = 0.75
    encodings = np.zeros((1, len(anchors), 4))
    encodings[0, -1] = (-0.25, 0.25, 0, 0)
    data = post_processed_graph(
        size,
        size,
        Values(encodings, ENCODING, 0),
        Values(scores, 1 / 256),
        anchors,
        num_classes=classes,
        **OPTIONS,
    )
    (path / "ssd.tflite").write_bytes(data)
    model = Detector(path / "ssd.tflite", **labels)
    return model.update(np.zeros((size, size, 3), np.uint8)).detections


@pytest.mark.parametrize("first", [0, 1], ids=["labels from 0", "labels from 1"])
def test_pets_are_named_however_their_labels_are_numbered(tmp_path: Path, first: int) -> None:
    labels = tmp_path / "pets.txt"
    labels.write_text("".join(f"{first + number}  breed {number}\n" for number in range(37)))
    anchors = ssd_anchors(96, 96, ssd_anchor_count(96, 96))
    (found,) = post_processed(tmp_path, 96, 37, True, anchors, labels=labels)
    assert (found.class_id, found.label, found.score) == (35, "breed 35", 0.75)


def test_pets_with_a_label_map(tmp_path: Path) -> None:
    labels = tmp_path / "pets.pbtxt"
    labels.write_text("".join(f"item {{ id: {n + 1} name: 'breed {n}' }}\n" for n in range(37)))
    (found,) = post_processed(
        tmp_path, 96, 37, True, ssd_anchors(96, 96, ssd_anchor_count(96, 96)), labels=labels
    )
    assert (found.class_id, found.label) == (35, "breed 35")


def test_efficientdet_lite_with_its_anchors(tmp_path: Path) -> None:
    """Five levels, nine anchors a cell, no background; the anchors are the file's own."""
    maps = [
        np.array(
            [
                ((row + 0.5) / cells, (column + 0.5) / cells, size, size)
                for row in range(cells)
                for column in range(cells)
                for size in np.linspace(1, 2, 9) * 3 / cells
            ],
            np.float32,
        )
        for cells in (40, 20, 10, 5, 3)
    ]
    anchors = np.concatenate(maps)
    assert len(anchors) == 19206
    (found,) = post_processed(tmp_path, 320, 90, False, anchors)
    assert (found.class_id, found.score) == (88, 0.75)
    edges = np.array([5 / 6 + 0.5 - 1, 5 / 6 - 0.5 - 1, 1.0, 5 / 6 - 0.5 + 1]) * 320
    edges[1] = 0
    assert (found.x_min, found.y_min, found.x_max, found.y_max) == pytest.approx(
        tuple(np.clip(edges, 0, 320)), abs=1e-2
    )
