"""Poses of real models in real pictures agree with the poses that the vendor publishes."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver import CpuEngine
from edgetpu_driver.errors import DependencyMissingError
from edgetpu_vision import Pose, PoseEstimator
from testdata import GOLDEN
from testdata.pictures.pose_references import ReferencePose, read_reference_poses

POSENET = "posenet_mobilenet_v1_075_353_481_16_quant_decoder"
MOVENET = "movenet_single_pose_lightning_ptq"


def picture(name: str) -> NDArray[np.uint8]:
    """RGB."""
    bgr = cv2.imread(str(GOLDEN.path(f"vision/pictures/{name}.bmp")))
    assert bgr is not None
    return cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB).astype(np.uint8)


def estimator(name: str) -> PoseEstimator:
    try:
        return PoseEstimator(GOLDEN.path(name))
    except DependencyMissingError as error:
        pytest.skip(str(error))


def reference(name: str) -> list[ReferencePose]:
    return read_reference_poses(Path(GOLDEN.path(f"vision/references/{name}_reference.csv")))


def difference(pose: Pose, expected: ReferencePose, image: NDArray[np.uint8]) -> float:
    """Largest distance of a keypoint along an axis, of the image's size."""
    height, width = image.shape[:2]
    x = np.array([each.x / width for each in pose.keypoints])
    y = np.array([each.y / height for each in pose.keypoints])
    return float(max(np.abs(x - expected.x).max(), np.abs(y - expected.y).max()))


@pytest.mark.parametrize("suffix", ["", "_edgetpu"])
def test_posenet_finds_the_two_people_of_the_reference(suffix: str) -> None:
    image = picture("test_image")
    found = estimator(f"models/{POSENET}.tflite").update(image)
    expected = reference(POSENET + suffix)
    assert len(found.poses) == len(expected) == 2
    for pose, theirs in zip(found.poses, expected, strict=True):
        assert difference(pose, theirs, image) < 0.01
        assert pose.score == pytest.approx(theirs.score, abs=0.02)
        for each, score in zip(pose.keypoints, theirs.keypoint_scores, strict=True):
            assert each.score == pytest.approx(score, abs=0.02)


@pytest.mark.parametrize("suffix", ["", "_edgetpu"])
def test_movenet_finds_the_keypoints_of_the_reference(suffix: str) -> None:
    image = picture("squat")
    found = estimator(f"vision/{MOVENET}.tflite").update(image)
    assert difference(found.poses[0], reference(MOVENET + suffix)[0], image) < 0.05


def test_movenets_keypoints_are_the_graphs_output_bit_for_bit() -> None:
    image = picture("squat")
    whole = estimator(f"vision/{MOVENET}.tflite")
    frame = whole.preprocess(image)
    graph = CpuEngine(GOLDEN.path(f"vision/{MOVENET}.tflite"))
    output = next(iter(graph.run(frame.inputs).values()))[0, 0]
    keypoints = whole.update(image).poses[0].keypoints
    assert [each.score for each in keypoints] == output[:, 2].tolist()


@pytest.mark.parametrize("name", ["cat", "bird"])
def test_posenet_finds_no_people_in_a_picture_without_people(name: str) -> None:
    assert estimator(f"models/{POSENET}.tflite").update(picture(name)).poses == ()


def test_a_mirrored_picture_has_the_mirrored_people() -> None:
    image = picture("test_image")
    posenet = estimator(f"models/{POSENET}.tflite")
    found = posenet.update(image).poses
    mirrored = posenet.update(np.ascontiguousarray(image[:, ::-1])).poses
    assert len(mirrored) == len(found) == 2
    for pose, other in zip(found, mirrored, strict=True):
        assert image.shape[1] - other["right_shoulder"].x == pytest.approx(pose["left_shoulder"].x, abs=16)


def test_people_cut_by_the_border_stay_within_the_image() -> None:
    image = picture("test_image")[100:300, 180:330]
    found = estimator(f"models/{POSENET}.tflite").update(image)
    assert found.poses
    for pose in found.poses:
        assert all(0 <= each.x <= 150 and 0 <= each.y <= 200 for each in pose.keypoints)
