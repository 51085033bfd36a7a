"""PoseNet's outputs: poses that the model's own decoder found, or the maps to decode."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import numpy as np

from edgetpu_driver.engines.cpu_operators.posenet_decoder import (
    HEATMAP_CHANNELS,
    KEYPOINTS,
    MID_CHANNELS,
    SHORT_CHANNELS,
    Field,
    decode_poses,
)
from edgetpu_driver.errors import InputError, ModelUnsupportedError
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_vision.algorithm import Outputs
from edgetpu_vision.errors import OutputsError
from edgetpu_vision.pose_estimation.output_tensors import maps, of_shape, read, read_real
from edgetpu_vision.pose_estimation.pose_arrays import PoseArrays
from edgetpu_vision.preprocessing.image_fit import Fit

_NMS_RADIUS = 0.625
"""Radius, in cells, within which keypoints are the same: 10 px at a stride of 16 px, as in Coral's models."""
_MOST_POSES = 20
"""Largest number of poses that the decoder gives."""
FLOAT_RANGE = (-1.0, 1.0)
"""Values of black and white in a float input, unless the normalisation is known."""
_LEAST_SCORE = 0.01
"""Least score of a keypoint from which a pose is built (a root); without a limit every cell would be one."""
_STRIDES = (1, 2, 4, 8, 16, 32, 64)
"""Px of the input per cell after 0 to 6 layers that halve the size."""


class DecodedPoseOutputs:
    """Outputs of the decoder with which Coral's PoseNet and BodyPix models end."""

    float_range = FLOAT_RANGE
    fit: Fit = "stretch"

    def __init__(
        self, poses: TensorSpec, keypoint_scores: TensorSpec, scores: TensorSpec, count: TensorSpec
    ) -> None:
        self._poses, self._keypoint_scores, self._scores, self._count = poses, keypoint_scores, scores, count

    @classmethod
    def among(cls, _: TensorSpec, outputs: Sequence[TensorSpec]) -> DecodedPoseOutputs | None:
        """Find these outputs, in any order; None if some are missing."""
        poses = of_shape(outputs, lambda shape: len(shape) == 4 and shape[2:] == (KEYPOINTS, 2))
        if poses is None:
            return None
        most = poses.shape[1]
        keypoint_scores = of_shape(outputs, lambda shape: shape == (1, most, KEYPOINTS))
        scores = of_shape(outputs, lambda shape: shape == (1, most))
        count = of_shape(outputs, lambda shape: shape in ((1,), ()))
        if keypoint_scores is None or scores is None or count is None:
            return None
        return cls(poses, keypoint_scores, scores, count)

    def decode(self, outputs: Outputs, _: float) -> PoseArrays:
        """See PoseOutputs."""
        found = slice(int(np.clip(read_real(outputs, self._count).item(), 0, self._poses.shape[1])))
        return PoseArrays.of(
            read_real(outputs, self._poses)[0, found],
            read_real(outputs, self._keypoint_scores)[0, found],
            read_real(outputs, self._scores)[0, found],
        )


class PoseMaps:
    """Maps of a model without a decoder: mid offsets in one output, or forward and backward ones in two."""

    float_range = FLOAT_RANGE
    fit: Fit = "stretch"

    def __init__(
        self, heatmaps: TensorSpec, short: TensorSpec, mid: Sequence[TensorSpec], stride: float
    ) -> None:
        self._heatmaps, self._short, self._mid, self._stride = heatmaps, short, tuple(mid), stride

    @classmethod
    def among(cls, image: TensorSpec, outputs: Sequence[TensorSpec]) -> PoseMaps | None:
        """Find these outputs, in any order; None if some are missing.

        Names distinguish short from long offsets and forward from backward ones; if names do not tell, they
        are in that order.
        """
        heatmaps, short = maps(outputs, HEATMAP_CHANNELS), short_and_long(outputs)
        halves = _named_first(maps(outputs, MID_CHANNELS // 2), "fwd", "bwd")
        mid = maps(outputs, MID_CHANNELS)[:1] or (halves if len(halves) == 2 else [])
        if not heatmaps or not short or not mid:
            return None
        if any(each.shape[1:3] != heatmaps[0].shape[1:3] for each in (short[0], *mid)):
            return None
        return cls(heatmaps[0], short[0], mid, stride_of(image, heatmaps[0]))

    def decode(self, outputs: Outputs, min_confidence: float) -> PoseArrays:
        """See PoseOutputs."""
        if len(self._mid) == 1:
            mid = Field.of(read(outputs, self._mid[0]), self._mid[0])
        else:
            mid = Field(np.concatenate([read_real(outputs, each) for each in self._mid], axis=-1))
        try:
            poses = decode_poses(
                Field.of(read(outputs, self._heatmaps), self._heatmaps),
                Field.of(read(outputs, self._short), self._short),
                mid,
                stride=self._stride,
                max_detections=_MOST_POSES,
                score_threshold=min(max(min_confidence, _LEAST_SCORE), 1 - _LEAST_SCORE),
                nms_radius=_NMS_RADIUS * self._stride,
            )
        except InputError as error:
            raise OutputsError(str(error)) from None
        found = slice(poses.count)
        return PoseArrays.of(poses.keypoints[found], poses.keypoint_scores[found], poses.scores[found])


def stride_of(image: TensorSpec, field: TensorSpec) -> float:
    """Distance between a map's cells, px of the model's input.

    Networks halve the size several times and round up: 481 px give 31 cells of 16 px, 480 px give 30. In a
    map of another size, the first and last cells are assumed to be at the edges of the input. Raises
    ModelUnsupportedError if cells from edge to edge would not be square, or smaller than 1 px.
    """
    size, cells = image.shape[1:3], field.shape[1:3]
    for stride in _STRIDES:
        if tuple(ceil(each / stride) for each in size) == cells:
            return float(stride)
    stretched = (size[0] - 1) / max(cells[0] - 1, 1)
    if stretched < 1 or abs((cells[1] - 1) * stretched - (size[1] - 1)) >= stretched:
        raise ModelUnsupportedError(
            f"expected square cells of 1 px or more over the whole input of {size[0]}x{size[1]} px; "
            f"got {cells[0]}x{cells[1]} cells in the output {field.name}"
        )
    return stretched


def short_and_long(outputs: Sequence[TensorSpec]) -> list[TensorSpec]:
    """The outputs with short offsets, then those with long offsets."""
    return _named_first(maps(outputs, SHORT_CHANNELS), "short", "long")


def _named_first(specs: list[TensorSpec], first: str, last: str) -> list[TensorSpec]:
    """Outputs with the first word in their name first, those with the last word last."""
    return sorted(specs, key=lambda spec: (last in spec.name.lower()) - (first in spec.name.lower()))
