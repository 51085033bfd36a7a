"""Features of optical flow and the compass without rounding: the best that a model can reach."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from accuracy.scenes.flow_scenes import WINDOW
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_perception.graphs import flow_and_compass_features as features


class ExactFeatures:
    """An engine that computes the graph of features in float64, without rounding and clipping."""

    _WIDE = 1000.0
    """Factor on the graph's output scale, so that no value reaches the end of the range."""

    def __init__(self) -> None:
        inner = WINDOW - 2 * features.BORDER
        self.inputs = (TensorSpec("image", (1, WINDOW, WINDOW, 1), np.dtype(np.uint8), 1.0, 0),)
        scale = features.SCALE * self._WIDE
        self.outputs = (TensorSpec("features", (1, inner, inner, 3), np.dtype(np.int8), scale, 0),)
        self._band, self._derivatives = features.kernels()

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Features of one image, in fractional steps."""
        image = inputs["image"][0, :, :, 0].astype(np.float64)
        band = cv2.filter2D(image, -1, self._band)
        planes = [cv2.filter2D(band, -1, kernel) for kernel in self._derivatives]
        inside = slice(features.BORDER, -features.BORDER)
        steps = np.stack(planes, axis=-1)[inside, inside] * np.array(features.GAINS[:3])
        return {"features": steps[np.newaxis] / self.outputs[0].scale}
