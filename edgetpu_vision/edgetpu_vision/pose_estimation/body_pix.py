"""Masks of people and of the parts of their bodies, with their poses: BodyPix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_vision.algorithm import Frame, Outputs
from edgetpu_vision.pose_estimation.body_maps import KNOWN, BodyMaps
from edgetpu_vision.pose_estimation.pose_estimator import PoseAlgorithm
from edgetpu_vision.pose_estimation.poses import BodySegmentation


class BodyPix(PoseAlgorithm[BodySegmentation]):
    """Segments people and the parts of their bodies with a BodyPix model.

    Fields of the result for which the model has no output are empty.
    """

    min_mask_confidence: ClassVar[float] = 0.5
    """Least probability that a pixel belongs to a person."""

    _maps: BodyMaps | None = None

    def postprocess(self, frame: Frame, outputs: Outputs) -> BodySegmentation:
        """Second half of `update`: poses and masks; OutputsError if the outputs are not the model's."""
        assert self._maps is not None  # preprocess, which makes frames, requires bind
        found = self._decoded(outputs)
        masks = self._maps.masks(outputs, frame.placement, found, self.min_mask_confidence)
        size = frame.image_height, frame.image_width
        region = frame.placement.region
        rows = slice(region.y_offset, region.y_offset + region.height)
        columns = slice(region.x_offset, region.x_offset + region.width)
        whole = np.zeros(size, bool), np.zeros(size, np.uint8), np.zeros(size, np.uint8)
        for image, part in zip(whole, masks, strict=True):
            image[rows, columns] = part
        return BodySegmentation(frame.stamp, found.in_image(frame.placement), *whole)

    def _recognise(self, image: TensorSpec, outputs: Sequence[TensorSpec]) -> None:
        super()._recognise(image, outputs)
        self._maps = BodyMaps.among(image, outputs)
        if self._maps is None:
            came = ", ".join(map(str, outputs)) or "none"
            raise ModelUnsupportedError(f"expected outputs with masks of people: {KNOWN}; got {came}")
