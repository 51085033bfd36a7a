"""Exported models whose detections have masks, keypoints or a direction, as files: made for known objects."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_vision import Detection, Detections, Detector, LabelsError, PoseEstimator
from testdata.graphs.exported_detectors import CELLS, IMAGE, SIZE, STEP, check, corners_of, detector, rows
from testdata.graphs.exported_graphs import Values, exported_graph
from testdata.pictures.fixed_outputs import FixedOutputs

pytest.importorskip("ai_edge_litert", reason="needs LiteRT")


SIDE = 40
"""Rows and columns of the prototypes of masks: cells of 4 px."""
MASK_STEP = 1 / 50


def with_weights(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows with weights of masks: the first object's prototype is number 3, the second's minus number 7."""
    weights = np.zeros((len(values), 32))
    weights[5:7, 3], weights[12:14, 7] = 0.5, -0.5
    return np.hstack((values, weights))


def prototypes() -> NDArray[np.float64]:
    """[40, 40, 32]: number 3 is positive at the left of the cat's middle, number 7 negative everywhere."""
    values = np.ones((SIDE, SIDE, 32))
    values[:, 10:, 3], values[:, :, 7] = -1, -1
    return values


def check_instances(found: Detections) -> None:
    """CAT on the left half of its box, DOG on all of its."""
    expected = np.zeros((2 * SIZE, 2 * SIZE), np.uint8)
    expected[144:176, 48:80] = 1
    expected[32:128, 176:304] = 2
    check(found.detections)
    assert found.instances is not None
    np.testing.assert_array_equal(found.instances, expected)


@pytest.mark.parametrize("channels_first", [True, False], ids=["[1,32,h,w]", "[1,h,w,32]"])
@pytest.mark.parametrize("order", [1, -1], ids=["rows first", "prototypes first"])
def test_yolov8_of_instances_gives_their_masks(tmp_path: Path, order: int, channels_first: bool) -> None:
    masks = prototypes().transpose(2, 0, 1) if channels_first else prototypes()
    outputs = [
        Values(with_weights(rows(CELLS, 84)).T[None], 1 / 100, -28),
        Values(masks[None], MASK_STEP, 0),
    ]
    named = {f"Identity_{number}": each for number, each in enumerate(outputs[::order])}
    check_instances(detector(tmp_path, named).update(IMAGE))


def test_yolov5_of_instances_gives_their_masks(tmp_path: Path) -> None:
    values = rows(3 * CELLS, 85, first=5)
    values[:, 4] = values[:, 5:].max(axis=1) > 0
    outputs = {
        "Identity": Values(with_weights(values)[None], 1 / 100, -28),
        "Identity_1": Values(prototypes()[None], MASK_STEP, 0),
    }
    check_instances(detector(tmp_path, outputs).update(IMAGE))


def test_boxes_classes_and_weights_of_masks_may_be_apart(tmp_path: Path) -> None:
    values = with_weights(rows(CELLS, 84))
    outputs = {
        "a": Values(values[:, 84:].T[None], MASK_STEP, 0),
        "b": Values(values[:, 4:84].T[None], STEP),
        "c": Values(prototypes()[None], MASK_STEP, 0),
        "d": Values(values[:, :4].T[None], STEP),
    }
    check_instances(detector(tmp_path, outputs).update(IMAGE))


def test_masks_are_where_the_image_is_in_a_letterboxed_input(tmp_path: Path) -> None:
    outputs = {
        "Identity": Values(with_weights(rows(CELLS, 84)).T[None], 1 / 100, -28),
        "Identity_1": Values(prototypes()[None], MASK_STEP, 0),
    }
    upright = np.zeros((4 * SIZE, 2 * SIZE, 3), np.uint8)  # columns 40 to 120 of the input
    found = detector(tmp_path, outputs).update(upright)
    (cat, dog), instances = found.detections, found.instances
    assert instances is not None
    assert (cat.x_min, cat.x_max, cat.y_min, cat.y_max) == pytest.approx((0, 64, 288, 352), abs=1e-3)
    assert not (instances == 1).any()  # its left half is next to the image
    assert dog.x_max == 2 * SIZE
    expected = np.zeros(upright.shape[:2], np.uint8)
    expected[64:256, round(dog.x_min) :] = 2
    np.testing.assert_array_equal(instances, expected)


def test_no_object_has_no_mask(tmp_path: Path) -> None:
    outputs = {
        "Identity": Values(with_weights(rows(CELLS, 84, ())).T[None], 1 / 100, -28),
        "Identity_1": Values(prototypes()[None], MASK_STEP, 0),
    }
    found = detector(tmp_path, outputs).update(IMAGE)
    assert found.detections == ()
    assert found.instances is not None
    assert not found.instances.any()


PERSON = (0, 0.9, (0.25, 0.5, 0.2, 0.1))
KEYPOINTS = np.stack((0.2 + np.arange(17) / 200, 0.5 - np.arange(17) / 200, np.full(17, 0.8)), axis=1)


def of_poses(path: Path, transposed: bool = True) -> Path:
    values = np.zeros((CELLS, 56))
    for row, score in ((5, 0.9), (6, 0.6)):
        values[row] = [*PERSON[2], score, *KEYPOINTS.ravel()]
    file = path / "pose.tflite"
    outputs = {"Identity": Values((values.T if transposed else values)[None], STEP)}
    file.write_bytes(exported_graph(SIZE, SIZE, outputs))
    return file


def test_yolov8_of_poses_gives_boxes(tmp_path: Path) -> None:
    check(Detector(of_poses(tmp_path)).update(IMAGE).detections, [PERSON])


@pytest.mark.parametrize("transposed", [True, False], ids=["[1,56,n]", "[1,n,56]"])
def test_yolov8_of_poses_gives_keypoints(tmp_path: Path, transposed: bool) -> None:
    (pose,) = PoseEstimator(of_poses(tmp_path, transposed)).update(IMAGE).poses
    assert pose.score == pytest.approx(0.9, abs=1e-5)
    found = [(each.x, each.y, each.score) for each in pose.keypoints]
    np.testing.assert_allclose(found, KEYPOINTS * [2 * SIZE, 2 * SIZE, 1], atol=1e-3)


def test_keypoints_in_px_next_to_boxes_as_parts_of_the_image() -> None:
    """Ultralytics normalised the boxes of TFLite models before it did the keypoints."""
    values = np.zeros((CELLS, 56), np.float32)
    values[5, :5] = (*PERSON[2], 0.9)
    values[5, 5:] = (KEYPOINTS * [SIZE, SIZE, 1]).ravel()
    (pose,) = PoseEstimator(FixedOutputs(SIZE, SIZE, {"output": values.T[None]})).update(IMAGE).poses
    found = [(each.x, each.y, each.score) for each in pose.keypoints]
    np.testing.assert_allclose(found, KEYPOINTS * [2 * SIZE, 2 * SIZE, 1], atol=1e-3)


def test_end_to_end_poses(tmp_path: Path) -> None:
    values = np.zeros((300, 57))
    corners = (0.15, 0.45, 0.35, 0.55)
    values[0] = [*corners, 0.9, 0, *KEYPOINTS.ravel()]
    file = tmp_path / "pose.tflite"
    file.write_bytes(exported_graph(SIZE, SIZE, {"Identity": Values(values[None], STEP)}))
    check(Detector(file).update(IMAGE).detections, [PERSON])
    (pose,) = PoseEstimator(file).update(IMAGE).poses
    assert (pose["nose"].x, pose["nose"].y) == pytest.approx((64, 160), abs=1e-3)


def oriented(count: int, classes: int) -> NDArray[np.float64]:
    """[count, 5 + classes]: two objects across each other, and a weaker one in the place of the first."""
    values = np.zeros((count, 5 + classes))
    for row, score, angle in ((5, 0.9, 0.5), (6, 0.8, 0.5), (12, 0.6, 2.0)):
        values[row, :4], values[row, 4 + 3], values[row, -1] = (0.25, 0.5, 0.3, 0.1), score, angle
    return values


def check_oriented(found: Sequence[Detection]) -> None:
    boxes = [each.oriented for each in found]
    assert [each.score for each in found] == pytest.approx([0.9, 0.6], abs=1e-5)
    for box, angle in zip(boxes, (0.5, 2.0), strict=True):
        assert box is not None
        expected = (80, 160, 96, 32, angle)
        assert (box.x, box.y, box.width, box.height, box.angle) == pytest.approx(expected, abs=1e-3)
    first = found[0]
    assert first.width == pytest.approx(96 * np.cos(0.5) + 32 * np.sin(0.5), abs=1e-3)
    assert first.height == pytest.approx(96 * np.sin(0.5) + 32 * np.cos(0.5), abs=1e-3)


def test_oriented_boxes_are_named(tmp_path: Path) -> None:
    outputs = {"Identity": Values(oriented(CELLS, 15).T[None], 1 / 80, -60)}
    check_oriented(detector(tmp_path, outputs, head="yolov8_obb").update(IMAGE).detections)


def test_oriented_boxes_are_not_mistaken_for_another_class(tmp_path: Path) -> None:
    outputs = {"Identity": Values(oriented(CELLS, 15).T[None], 1 / 80, -60)}
    with pytest.raises(ModelUnsupportedError, match=r"range from -0\.85: .* Give the labels.*yolov8_obb"):
        detector(tmp_path, outputs)
    with pytest.raises(
        ModelUnsupportedError, match="as many classes as labels, 15; got 16 channels after the box"
    ):
        detector(tmp_path, outputs, labels=[f"label {number}" for number in range(15)])


@pytest.mark.parametrize(
    ("labels", "error"), [(79, "a label is missing, unless"), (48, "expected 80 labels")]
)
def test_labels_of_another_model_are_refused(tmp_path: Path, labels: int, error: str) -> None:
    """Without prototypes, 32 labels too few do not make masks of the last 32 classes."""
    outputs = {"Identity": Values(np.zeros((1, 84, CELLS)), 1 / 200)}
    with pytest.raises((ModelUnsupportedError, LabelsError), match=error):
        detector(tmp_path, outputs, labels=[f"label {number}" for number in range(labels)])


def test_end_to_end_oriented_boxes(tmp_path: Path) -> None:
    values = np.zeros((300, 7))
    values[0] = (0.25, 0.5, 0.3, 0.1, 0.9, 2, 0.5)
    values[1] = (0.25, 0.5, 0.3, 0.1, 0.6, 2, 2.0)
    outputs = {"Identity": Values(values[None], 1 / 80, -60)}
    check_oriented(detector(tmp_path, outputs).update(IMAGE).detections)


def test_end_to_end_boxes_of_instances(tmp_path: Path) -> None:
    objects = ((0, 0.9, (0.3, 0.5, 0.2, 0.2)), (1, 0.6, (0.7, 0.3, 0.4, 0.4)))
    values = np.zeros((1, 300, 38))
    values[0, :2, :6] = corners_of(objects)
    values[0, 0, 6 + 7], values[0, 1, 6 + 3] = -0.5, -0.5
    outputs = {
        "Identity": Values(values, 1 / 100, -28),
        "Identity_1": Values(prototypes()[None], MASK_STEP, 0),
    }
    found = detector(tmp_path, outputs).update(IMAGE)
    check(found.detections, objects)
    expected = np.zeros((2 * SIZE, 2 * SIZE), np.uint8)
    expected[32:160, 160:288] = 2
    expected[128:192, 64:128] = 1
    np.testing.assert_array_equal(found.instances, expected)
