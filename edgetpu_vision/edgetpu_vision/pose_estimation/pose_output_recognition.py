"""Recognises the outputs with poses by their shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_vision.algorithm import Outputs
from edgetpu_vision.model_description.description import ModelDescription
from edgetpu_vision.pose_estimation.movenet import MoveNetOutputs, MultiPoseOutputs
from edgetpu_vision.pose_estimation.pose_arrays import PoseArrays
from edgetpu_vision.pose_estimation.posenet import DecodedPoseOutputs, PoseMaps
from edgetpu_vision.pose_estimation.yolo_pose import YoloPoseOutputs
from edgetpu_vision.preprocessing.image_fit import Fit

KNOWN = (
    "poses [1, n, 17, 2] with keypoint scores [1, n, 17], pose scores [1, n] and their number [1] (PoseNet); "
    "heatmaps [1, h, w, 17] with short offsets [1, h, w, 34] and mid offsets [1, h, w, 64] or twice "
    "[1, h, w, 32] (PoseNet without its decoder); keypoints [1, 1, 17, 3] or people [1, n, 56] (MoveNet); "
    "boxes with keypoints [1, 56, n] or [1, n, 57] (YOLO)"
)
"""The outputs that `recognise` supports, for messages."""


class PoseOutputs(Protocol):
    """The outputs of a model that hold poses."""

    @property
    def float_range(self) -> tuple[float, float]:
        """Values of black and white in such a model's float input, unless the normalisation is known."""
        ...

    @property
    def fit(self) -> Fit:
        """Default fit of images to such a model's input."""
        ...

    def decode(self, outputs: Outputs, min_confidence: float) -> PoseArrays:
        """The poses in a model's outputs; those with less confidence may be left out.

        Raises OutputsError for outputs of other names, shapes or dtypes than the model has.
        """
        ...


def recognise(
    image: TensorSpec, outputs: Sequence[TensorSpec], description: ModelDescription
) -> PoseOutputs | None:
    """The decoder for a model's outputs; None if they are of no known kind.

    image: the model's input, [1, height, width, channels].
    """
    return (
        DecodedPoseOutputs.among(image, outputs)
        or PoseMaps.among(image, outputs)
        or MoveNetOutputs.among(image, outputs)
        or YoloPoseOutputs.among(image, outputs, description)
        or MultiPoseOutputs.among(image, outputs)
    )
