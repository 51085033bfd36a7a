"""Results of pose estimation: properties that follow from their fields."""

from __future__ import annotations

import numpy as np
import pytest

from edgetpu_vision import BodySegmentation, Keypoint, Pose, Poses
from edgetpu_vision.pose_estimation.poses import KEYPOINT_NAMES, PART_NAMES, SKELETON

POSE = Pose(0.75, tuple(Keypoint(name, 1.0 * i, 2.0 * i, 0.5) for i, name in enumerate(KEYPOINT_NAMES)))


def test_a_keypoint_is_found_by_its_name() -> None:
    assert POSE["left_knee"] == Keypoint("left_knee", 13.0, 26.0, 0.5)


def test_an_unknown_name_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        POSE["tail"]


def test_the_confidence_of_poses_is_the_highest_score() -> None:
    found = Poses(0.0, 640, 480, (POSE, Pose(0.5, POSE.keypoints)))
    assert (found.valid, found.confidence) == (True, 0.75)


def test_a_result_without_people_is_not_valid() -> None:
    nobody = np.zeros((2, 3), bool)
    assert (Poses(0.0, 640, 480, ()).valid, Poses(0.0, 640, 480, ()).confidence) == (False, 0.0)
    empty = BodySegmentation(0.0, (), nobody, *2 * [nobody.astype(np.uint8)])
    assert (empty.valid, empty.confidence) == (False, 0.0)


def test_masks_without_poses_are_valid() -> None:
    everywhere = np.ones((2, 3), bool)
    result = BodySegmentation(0.0, (), everywhere, *2 * [everywhere.astype(np.uint8)])
    assert (result.valid, result.confidence) == (True, 1.0)


def test_names_are_those_of_17_keypoints_and_24_parts() -> None:
    assert (len(set(KEYPOINT_NAMES)), len(set(PART_NAMES))) == (17, 25)
    assert {index for pair in SKELETON for index in pair} == set(range(17))
