"""The debug images: what is drawn where, and what is left as it is."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_vision.classification.classifications import Classification, Classifications
from edgetpu_vision.debug_images import (
    PALETTE,
    classification_picture,
    color_of,
    detections_picture,
    poses_picture,
    segmentation_picture,
)
from edgetpu_vision.detection.detections import Detection, Detections, OrientedBox
from edgetpu_vision.pose_estimation.poses import KEYPOINT_NAMES, Keypoint, Pose, Poses
from edgetpu_vision.segmentation.segmentation import Segmentation

GREY = np.full((120, 160, 3), 100, np.uint8)


def test_a_box_is_drawn_in_the_colour_of_its_class() -> None:
    found = Detection(7, "cat", 0.9, 40.0, 50.0, 100.0, 90.0)
    picture = detections_picture(GREY, Detections(0.0, 160, 120, (found,)))
    assert picture[70, 40].tolist() == picture[90, 70].tolist() == list(color_of(7))
    assert picture[70, 70].tolist() == [100, 100, 100]


def test_a_mask_is_tinted_with_the_colour_of_its_class() -> None:
    boxes = [Detection(number, "", 0.9, 40.0, 50.0, 100.0, 90.0) for number in (7, 9)]
    instances = np.zeros((120, 160), np.uint8)
    instances[60:80, 60:80], instances[60:80, 80:90] = 1, 2
    picture = detections_picture(GREY, Detections(0.0, 160, 120, tuple(boxes), instances)).astype(float)
    assert picture[85, 70].tolist() == [100, 100, 100]
    for column, class_id in ((70, 7), (85, 9)):
        assert np.abs(picture[70, column] - (100 + np.array(color_of(class_id))) / 2).max() <= 0.5


@pytest.mark.parametrize("far", [0.0, 1e5])
def test_an_oriented_box_is_drawn_turned(far: float) -> None:
    box = OrientedBox(80.0, 60.0, 60.0 + far, 20.0, np.pi / 2)
    found = Detection(7, "cat", 0.9, 70.0, 30.0, 90.0, 90.0, box)
    picture = detections_picture(GREY, Detections(0.0, 160, 120, (found,)))
    assert picture[60, 70].tolist() == picture[60, 90].tolist() == list(color_of(7))
    assert picture[60, 50].tolist() == [100, 100, 100]


def test_the_image_itself_is_not_drawn_on() -> None:
    detections_picture(GREY, Detections(0.0, 160, 120, (Detection(0, "", 0.5, 0.0, 0.0, 9.0, 9.0),)))
    assert (GREY == 100).all()


def test_pixels_are_mixed_with_the_colour_of_their_class() -> None:
    labels = np.zeros((120, 160), np.uint8)
    labels[:, 80:] = 3
    picture = segmentation_picture(GREY, Segmentation(0.0, labels, ("background", "a", "b", "c")))
    assert picture[10, 10].tolist() == [100, 100, 100]
    assert np.abs(picture[10, 100].astype(float) - (100 + PALETTE[4].astype(float)) / 2).max() <= 0.5


def test_labels_of_sixteen_bits_are_drawn_too() -> None:
    labels = np.full((120, 160), 300, np.uint16)
    picture = segmentation_picture(GREY, Segmentation(0.0, labels, ()))
    assert picture[10, 10].tolist() != [100, 100, 100]


def test_a_grey_image_becomes_a_coloured_picture() -> None:
    assert detections_picture(GREY[:, :, 0], Detections(0.0, 160, 120, ())).shape == (120, 160, 3)


def classes_picture(*labels: str) -> NDArray[np.uint8]:
    classes = tuple(Classification(number, label, 0.5) for number, label in enumerate(labels))
    return classification_picture(GREY, Classifications(0.0, classes))


def test_each_class_has_a_line_of_its_own() -> None:
    heights = [np.count_nonzero((classes_picture(*labels)[:, 1] == 0).all(axis=1)) for labels in ("a", "abc")]
    assert heights[0] > 5
    assert heights[1] == 3 * heights[0] - 2  # lines share the row between them


def test_the_best_classes_are_drawn_where_not_all_have_room() -> None:
    labels = [f"class {number}" for number in range(100)]
    np.testing.assert_array_equal(classes_picture(*labels), classes_picture(*labels[:50]))
    assert (classes_picture(*labels) != classes_picture("another", *labels[1:])).any()


def test_a_label_without_room_is_shortened() -> None:
    np.testing.assert_array_equal(classes_picture(90 * "a"), classes_picture(95 * "a"))
    assert (classes_picture(90 * "a") != classes_picture(90 * "b")).any()


def test_only_keypoints_that_are_seen_are_drawn() -> None:
    keypoints = [Keypoint(name, 20.0, 20.0, 0.0) for name in KEYPOINT_NAMES]
    keypoints[0] = Keypoint("nose", 80.0, 60.0, 0.9)
    picture = poses_picture(GREY, Poses(0.0, 160, 120, (Pose(0.5, tuple(keypoints)),)))
    assert picture[60, 80].tolist() != [100, 100, 100]
    assert picture[20, 20].tolist() == [100, 100, 100]


@pytest.mark.parametrize("far", [1e12, -1e30])
def test_keypoints_far_outside_the_image_are_no_error(far: float) -> None:
    keypoints = [Keypoint(name, 80.0, 60.0, 0.9) for name in KEYPOINT_NAMES]
    keypoints[0] = Keypoint("nose", far, 60.0, 0.9)
    picture = poses_picture(GREY, Poses(0.0, 160, 120, (Pose(0.5, tuple(keypoints)),)))
    assert picture[60, 120 if far > 0 else 40].tolist() != [100, 100, 100]


def test_colours_of_neighbouring_classes_differ() -> None:
    colors = np.array([color_of(number) for number in range(255)], float)
    assert np.abs(np.diff(colors, axis=0)).max(axis=1).min() > 60
