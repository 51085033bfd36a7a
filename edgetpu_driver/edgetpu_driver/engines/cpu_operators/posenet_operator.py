"""The custom operator PosenetDecoderOp, the last one of Coral's PoseNet and BodyPix models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.engines.cpu_operators.pose_masks import pose_distances
from edgetpu_driver.engines.cpu_operators.posenet_decoder import (
    HEATMAP_CHANNELS,
    KEYPOINTS,
    MID_CHANNELS,
    SHORT_CHANNELS,
    Field,
    decode_poses,
)
from edgetpu_driver.errors import InputError, ModelFormatError
from edgetpu_driver.tflite import flexbuffer
from edgetpu_driver.tflite.tensor import TensorSpec

CUSTOM_CODE = "PosenetDecoderOp"

_POSE_INPUTS = (
    ("heatmaps", HEATMAP_CHANNELS),
    ("short-range offsets", SHORT_CHANNELS),
    ("mid-range offsets", MID_CHANNELS),
)
"""Name and number of channels of each input."""
_MASK_INPUT = "long-range offsets", SHORT_CHANNELS
"""The additional input of an operator with masks."""
_POSE_OUTPUTS = 4
"""Outputs: poses, keypoint scores, pose scores and number of poses; masks are a fifth one."""
_MOST_MASK_CELLS = 1 << 25
"""Cells of the masks of all poses, float32. Uncritical: BodyPix has some 100 000."""


@dataclass(frozen=True)
class PosenetOptions:
    """The operator's options."""

    max_detections: int
    score_threshold: float
    """Minimum score of a root and of a pose, 0..1."""
    stride: float
    """px of the model's input between cells of the maps."""
    nms_radius: float
    """px of the model's input within which two keypoints are the same."""

    @classmethod
    def read(cls, custom_options: bytes | memoryview) -> PosenetOptions:
        """Decode the operator's custom options; ModelFormatError if one is missing or out of range."""
        values = flexbuffer.decode(custom_options)
        if not isinstance(values, Mapping):
            raise ModelFormatError(f"{CUSTOM_CODE}: expected a map of options; got {type(values).__name__}")
        return cls(
            int(_number(values, "max_detections", 1, 1000)),
            float(_number(values, "score_threshold", 1e-6, 1 - 1e-6)),
            float(_number(values, "stride", 1, 1024)),
            float(_number(values, "nms_radius", 0, 1e6)),
        )


class PosenetOperator:
    """The operator with the options of a file.

    Inputs: heatmaps [1, h, w, 17], short-range offsets [1, h, w, 34] and mid-range offsets [1, h, w, 64]; for
    masks also long-range offsets [1, h, w, 34]. Their specs give the quantisation; inputs without a scale are
    real values.

    Outputs, float32, where n is `max_detections`: poses [1, n, 17, 2], y and x in px of the model's input;
    keypoint scores [1, n, 17]; pose scores [1, n]; the number of poses [1]; optionally the mask of each pose,
    0 or 1, [1, n, h, w]. Every cell is in the mask of its nearest pose; another output of the model tells
    whether it belongs to a person.

    Raises ModelFormatError for options, inputs or a number of outputs that do not fit.
    """

    def __init__(
        self, custom_options: bytes | memoryview, inputs: Sequence[TensorSpec], outputs: int
    ) -> None:
        self.options = PosenetOptions.read(custom_options)
        self._specs = tuple(inputs)
        self._masks = outputs > _POSE_OUTPUTS
        if outputs not in (_POSE_OUTPUTS, _POSE_OUTPUTS + 1):
            raise ModelFormatError(f"{CUSTOM_CODE}: expected 4 outputs, or 5 with masks; got {outputs}")
        cells = inputs[0].shape[1:3] if inputs else ()
        expected = (*_POSE_INPUTS, _MASK_INPUT) if self._masks else _POSE_INPUTS
        if len(inputs) < len(expected):
            raise ModelFormatError(f"{CUSTOM_CODE}: expected {len(expected)} inputs; got {len(inputs)}")
        for spec, (name, channels) in zip(inputs, expected, strict=False):
            if spec.shape != (1, *cells, channels):
                size = f"[1, height, width, {channels}], as large as the others"
                raise ModelFormatError(f"{CUSTOM_CODE}: expected {name} {size}; got {list(spec.shape)}")
        most = self.options.max_detections
        shapes = (1, most, KEYPOINTS, 2), (1, most, KEYPOINTS), (1, most), (1,), (1, most, *cells)
        self._output_shapes: tuple[tuple[int, ...], ...] = shapes[:outputs]
        if self._masks and most * prod(cells) > _MOST_MASK_CELLS:
            raise ModelFormatError(
                f"{CUSTOM_CODE}: expected masks of at most {_MOST_MASK_CELLS} cells; got {most} of "
                f"{cells[0]}x{cells[1]}"
            )

    @property
    def output_shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shape of each output, in order."""
        return self._output_shapes

    def run(self, inputs: Sequence[NDArray[Any]]) -> Sequence[NDArray[np.float32]]:
        """Compute the outputs from the inputs, both in order; InputError for inputs that do not fit."""
        if len(inputs) != len(self._specs):
            raise InputError(f"{CUSTOM_CODE}: expected {len(self._specs)} inputs; got {len(inputs)}")
        fields = [Field.of(values, spec) for values, spec in zip(inputs, self._specs, strict=True)]
        heatmaps, short, mid = fields[: len(_POSE_INPUTS)]
        poses = decode_poses(
            heatmaps,
            short,
            mid,
            stride=self.options.stride,
            max_detections=self.options.max_detections,
            score_threshold=self.options.score_threshold,
            nms_radius=self.options.nms_radius,
        )
        count = poses.count
        outputs = [
            poses.keypoints[None],
            poses.keypoint_scores[None],
            poses.scores[None],
            np.array([count], np.float32),
        ]
        if self._masks:
            outputs.append(self._pose_masks(poses.keypoints[:count], fields[len(_POSE_INPUTS)]))
        return outputs

    def _pose_masks(self, keypoints: NDArray[np.float32], long_offsets: Field) -> NDArray[np.float32]:
        """Masks with each cell assigned to its nearest pose, [1, max_detections, h, w]."""
        masks = np.zeros(self._output_shapes[-1], np.float32)
        if len(keypoints):
            nearest = pose_distances(keypoints, long_offsets, self.options.stride).argmin(axis=0)
            np.put_along_axis(masks[0], nearest[None], 1.0, axis=0)
        return masks


def _number(options: Mapping[str, Any], name: str, least: float, most: float) -> float:
    value = options.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise ModelFormatError(f"{CUSTOM_CODE}: expected {name} of {least:g} to {most:g}; got {value!r}")
    return value
