"""MoveNet's outputs: positions in the model's input, 0..1, with scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_vision.algorithm import Outputs
from edgetpu_vision.pose_estimation.output_tensors import of_shape, read_real
from edgetpu_vision.pose_estimation.pose_arrays import PoseArrays
from edgetpu_vision.pose_estimation.poses import KEYPOINT_NAMES
from edgetpu_vision.preprocessing.image_fit import Fit

_KEYPOINTS = len(KEYPOINT_NAMES)
_MULTIPOSE = 3 * _KEYPOINTS + 5
"""Number of values of a person: y, x and score of each keypoint, a box and its score."""
FLOAT_RANGE = (0.0, 255.0)
"""Values of black and white in a float input, unless the normalisation is known."""


class MoveNetOutputs:
    """The output of MoveNet SinglePose: y, x and score of each keypoint. The pose has their mean score."""

    float_range = FLOAT_RANGE
    fit: Fit = "stretch"

    def __init__(self, image: TensorSpec, keypoints: TensorSpec) -> None:
        self._size = _size(image)
        self._keypoints = keypoints

    @classmethod
    def among(cls, image: TensorSpec, outputs: Sequence[TensorSpec]) -> MoveNetOutputs | None:
        """The decoder if the outputs are one tensor [1, 1, 17, 3]; otherwise None."""
        keypoints = of_shape(outputs, lambda shape: shape == (1, 1, _KEYPOINTS, 3))
        return None if keypoints is None else cls(image, keypoints)

    def decode(self, outputs: Outputs, _: float) -> PoseArrays:
        """See PoseOutputs."""
        values = read_real(outputs, self._keypoints)[0]
        scores = np.clip(values[..., 2], 0, 1)
        return PoseArrays.of(values[..., :2] * self._size, scores, scores.mean(axis=1))


class MultiPoseOutputs:
    """The output of MoveNet MultiPose: per person y, x and score of each keypoint, a box, and a score."""

    float_range = FLOAT_RANGE
    fit: Fit = "stretch"

    def __init__(self, image: TensorSpec, people: TensorSpec) -> None:
        self._size = _size(image)
        self._people = people

    @classmethod
    def among(cls, image: TensorSpec, outputs: Sequence[TensorSpec]) -> MultiPoseOutputs | None:
        """The decoder if the outputs are one tensor [1, n, 56]; otherwise None."""
        people = of_shape(outputs, lambda shape: len(shape) == 3 and shape[::2] == (1, _MULTIPOSE))
        return None if people is None else cls(image, people)

    def decode(self, outputs: Outputs, _: float) -> PoseArrays:
        """See PoseOutputs."""
        people = read_real(outputs, self._people)[0]
        keypoints = people[:, : 3 * _KEYPOINTS].reshape(-1, _KEYPOINTS, 3)
        scores = np.clip(keypoints[..., 2], 0, 1)
        return PoseArrays.of(keypoints[..., :2] * self._size, scores, np.clip(people[:, -1], 0, 1))


def _size(image: TensorSpec) -> NDArray[np.float64]:
    """Height and width of the model's input, px."""
    return np.array(image.shape[1:3], np.float64)
