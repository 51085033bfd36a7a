"""Keypoints of people by name: PoseNet, MoveNet and YOLO pose models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from edgetpu_driver.errors import InputError, ModelUnsupportedError
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_vision.algorithm import Frame, ModelLike, Outputs, Result, VisionAlgorithm
from edgetpu_vision.model_description.description import ModelDescription
from edgetpu_vision.output_values import scaled, unscaled_hint
from edgetpu_vision.pose_estimation.pose_arrays import PoseArrays
from edgetpu_vision.pose_estimation.pose_output_recognition import KNOWN, PoseOutputs, recognise
from edgetpu_vision.pose_estimation.posenet import FLOAT_RANGE as POSENET_RANGE
from edgetpu_vision.pose_estimation.poses import Poses
from edgetpu_vision.preprocessing.image_fit import Fit
from edgetpu_vision.preprocessing.pixel_scaling import Normalisation

MAX_POSES = 20
"""Default of the largest number of poses in a result."""
MIN_CONFIDENCE = 0.2
"""Default of the least score of a pose. A higher one misses people, a lower one adds false detections."""


class PoseAlgorithm(VisionAlgorithm[Result]):
    """The common part of PoseEstimator and BodyPix: the poses in a model's outputs."""

    truncates: ClassVar[bool] = True  # as for the vendor's reference poses: scores depend on it by up to 0.05

    max_poses: int
    """Largest number of poses in a result; those with the highest scores are kept."""

    def __init__(
        self,
        model: ModelLike | None = None,
        *,
        max_poses: int = MAX_POSES,
        min_confidence: float = MIN_CONFIDENCE,
        fit: str | None = None,
        normalisation: Normalisation | None = None,
        channel_order: str = "rgb",
        description: ModelDescription | None = None,
    ) -> None:
        """Prepare for a model; see VisionAlgorithm for the arguments not named here.

        max_poses: 1 for the pose with the highest score alone. min_confidence: least score of a pose, 0..1.
        InputError unless max_poses is 1 or more.
        """
        if max_poses < 1:
            raise InputError(f"max_poses: expected 1 or more; got {max_poses}")
        self.max_poses = max_poses
        self._poses: PoseOutputs | None = None
        super().__init__(
            model,
            min_confidence=min_confidence,
            fit=fit,
            normalisation=normalisation,
            channel_order=channel_order,
            description=description,
        )

    def _recognise(self, image: TensorSpec, outputs: Sequence[TensorSpec]) -> None:
        self._poses = recognise(image, scaled(outputs), self.description)

    def _decoded(self, outputs: Outputs) -> PoseArrays:
        """The wanted poses, in px of the model's input; empty for a model without poses."""
        if self._poses is None:
            return PoseArrays.of(np.zeros((0, 17, 2)), np.zeros((0, 17)), np.zeros(0))
        with np.errstate(invalid="ignore", over="ignore"):
            decoded = self._poses.decode(outputs, self.min_confidence)
        return decoded.best(self.max_poses, self.min_confidence)

    def _usual_fit(self) -> Fit:
        return self._poses.fit if self._poses is not None else self.default_fit

    def _normalisation_of(self, image: TensorSpec) -> Normalisation | None:
        known = super()._normalisation_of(image)
        if known is None and image.dtype == np.float32:
            # Without poses it is a BodyPix, whose network begins as that of a PoseNet.
            limits = POSENET_RANGE if self._poses is None else self._poses.float_range
            return Normalisation.of_range(*limits)
        return known


class PoseEstimator(PoseAlgorithm[Poses]):
    """Finds people's keypoints with a PoseNet, a MoveNet or a YOLO pose model.

    poses = PoseEstimator(Model.load("posenet_edgetpu.tflite", tpu)).update(image, stamp)
    poses.poses[0]["left_wrist"].x    # px of the image

    From a PoseNet it takes the poses of the model's own decoder, or decodes the maps of a model without one.
    """

    def postprocess(self, frame: Frame, outputs: Outputs) -> Poses:
        """Second half of `update`: the poses; OutputsError if the outputs are not the model's."""
        poses = self._decoded(outputs).in_image(frame.placement)
        return Poses(frame.stamp, frame.image_width, frame.image_height, poses)

    def _recognise(self, image: TensorSpec, outputs: Sequence[TensorSpec]) -> None:
        super()._recognise(image, outputs)
        if self._poses is None:
            came = ", ".join(map(str, outputs)) or "none"
            raise ModelUnsupportedError(
                f"expected outputs with poses: {KNOWN}; got {came}{unscaled_hint(outputs)}"
            )
