"""The outputs of YOLO pose models: boxes of people with their keypoints."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_vision.algorithm import Outputs
from edgetpu_vision.detection.anchor_values import Table, reaching
from edgetpu_vision.detection.non_maximum_suppression import Candidates
from edgetpu_vision.detection.yolo_channels import KEYPOINT_CHANNELS, KEYPOINTS, check_steps
from edgetpu_vision.detection.yolo_decoded import centres, corners, px_of
from edgetpu_vision.detection.yolo_grids import possible_grids
from edgetpu_vision.detection.yolo_recognition import MOST_END_TO_END
from edgetpu_vision.model_description.description import ModelDescription
from edgetpu_vision.pose_estimation.pose_arrays import PoseArrays
from edgetpu_vision.preprocessing.image_fit import Fit

_BOX, _SCORE = 4, 1
"""Number of channels of a person before the keypoints."""
_IOU_THRESHOLD = 0.7
"""Intersection over union above which two boxes are the same person; the value that YOLO's authors use."""
_FAR = 1e6
"""Rows with NaN, or with a value (px or parts of the image) beyond this, are left out. Uncritical: it keeps
products finite."""
_MOST_PEOPLE = 1000
"""Largest number of people: more than an image shows, and the largest max_results of the node."""


class YoloPoseOutputs:
    """Rows of box, score and keypoints (x, y and visibility of each), a row for each cell of the grids.

    End-to-end models give corners instead of centre and size, a class after the score, and each person only
    once, so that no suppression is needed. Coordinates are px of the input or parts of it.
    """

    float_range = (0.0, 1.0)
    fit: Fit = "letterbox"

    def __init__(self, image: TensorSpec, table: Table, end_to_end: bool) -> None:
        _, height, width, _ = image.shape
        self._table = table
        self._end_to_end = end_to_end
        self._size = np.array((width, height, width, height), np.float32)

    @classmethod
    def among(
        cls, image: TensorSpec, outputs: Sequence[TensorSpec], description: ModelDescription
    ) -> YoloPoseOutputs | None:
        """The output [1, 56, n] or [1, n, 56] for the n cells of the grids, or [1, n, 57] of any n.

        Raises ModelUnsupportedError if the output is quantised too coarsely.
        """
        channels = _BOX + _SCORE + KEYPOINT_CHANNELS
        counts = [grids.cells for grids in possible_grids(*image.shape[1:3])]
        for spec in outputs:
            table, end_to_end = None, False
            if len(spec.shape) != 3 or spec.shape[0] != 1:
                continue
            if spec.shape[2] == channels + 1 and spec.shape[1] <= MOST_END_TO_END:
                table, end_to_end = Table(spec, spec.shape[1], channels + 1), True
            elif spec.shape[2] == channels and spec.shape[1] in counts:
                table = Table(spec, spec.shape[1], channels)
            elif spec.shape[1] == channels and spec.shape[2] in counts:
                table = Table(spec, spec.shape[2], channels, channels_first=True)
            if table is not None:
                check_steps(spec, description)
                return cls(image, table, end_to_end)
        return None

    def decode(self, outputs: Outputs, min_confidence: float) -> PoseArrays:
        """See PoseOutputs."""
        values = self._table.of(outputs)
        found, _ = reaching(values[:, _BOX : _BOX + _SCORE], self._table.least(min_confidence))
        rows = self._table.real(values[found])
        rows = rows[(np.abs(rows) < _FAR).all(axis=1)]
        boxes = rows[:, :_BOX]
        scale = px_of(centres(boxes) if self._end_to_end else boxes, self._table, self._size)
        boxes, scores = boxes * scale, np.clip(rows[:, _BOX], 0, 1)
        keypoints = rows[:, -KEYPOINT_CHANNELS:].reshape(-1, KEYPOINTS, 3)
        kept = self._kept(boxes, scores)
        # Older exports of Ultralytics have boxes as parts of the image, but keypoints in px.
        positions = keypoints[kept, :, :2]
        keypoint_scale = px_of(positions.reshape(-1, 2), self._table, self._size)
        positions = (positions * keypoint_scale[:2])[:, :, ::-1]
        return PoseArrays.of(positions, np.clip(keypoints[kept, :, 2], 0, 1), scores[kept])

    def _kept(self, boxes: NDArray[np.float32], scores: NDArray[np.float32]) -> NDArray[np.intp]:
        """The rows that remain after suppression, one for each person."""
        numbers = np.arange(len(scores))
        if self._end_to_end:
            return numbers
        found = Candidates(corners(boxes), numbers, scores)
        return found.suppressed(_IOU_THRESHOLD, per_class=False, wanted=_MOST_PEOPLE).classes
