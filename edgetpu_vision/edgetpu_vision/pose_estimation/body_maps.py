"""BodyPix's maps: which pixels of an image are people, which person, and which part of a body."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.engines.cpu_operators.pose_masks import pose_distances
from edgetpu_driver.engines.cpu_operators.posenet_decoder import KEYPOINTS, Field
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_vision.algorithm import Outputs
from edgetpu_vision.pose_estimation.output_tensors import maps, of_shape, read, read_real
from edgetpu_vision.pose_estimation.pose_arrays import PoseArrays
from edgetpu_vision.pose_estimation.posenet import short_and_long, stride_of
from edgetpu_vision.pose_estimation.poses import PART_NAMES
from edgetpu_vision.preprocessing.image_fit import Placement

_PARTS = len(PART_NAMES) - 1
"""Number of channels of the map of parts: one for every part, none for the background."""

_SAMPLES = 4
"""Positions in a cell, along each axis, at which the most probable part of a body is determined."""

_FARTHEST = 0.25
"""Distance of a cell from a pose, relative to the size of the person, beyond which it is not that person's.

Matters next to people whose own pose was not found. Chosen so that they are not added to a neighbour.
"""

KNOWN = "logits of people [1, h, w, 1], if there are any also of parts of bodies [1, h, w, 24] (BodyPix)"
"""The outputs that `BodyMaps.among` recognises, for messages."""


class Masks(NamedTuple):
    """Masks of a region of an image, each [height, width] of the region."""

    people: NDArray[np.bool_]
    instances: NDArray[np.uint8]
    """1 for the first pose, 2 for the second ..; 0 for no person or an unknown one."""
    parts: NDArray[np.uint8]
    """1..24 in PART_NAMES; 0 for no person, and everywhere without parts."""


@dataclass(frozen=True)
class BodyMaps:
    """The outputs of a BodyPix model that masks are made from; None for missing ones."""

    segment: TensorSpec
    """Logits of people, [1, h, w, 1]."""
    parts: TensorSpec | None
    """Logits of parts of bodies, [1, h, w, 24]."""
    pose_masks: TensorSpec | None
    """Masks of the poses that the model's decoder found, [1, n, h, w]."""
    long_offsets: TensorSpec | None
    """Long offsets, [1, h, w, 34], px."""
    stride: float
    """Distance between cells of the maps, px of the model's input."""

    @classmethod
    def among(cls, image: TensorSpec, outputs: Sequence[TensorSpec]) -> BodyMaps | None:
        """Find these outputs, in any order; None if there are no logits of people.

        image: the model's input, [1, height, width, channels].
        """
        segments = maps(outputs, 1)
        if not segments:
            return None
        cells = segments[0].shape[1:3]
        parts = [spec for spec in maps(outputs, _PARTS) if spec.shape[1:3] == cells]
        offsets = [spec for spec in short_and_long(outputs) if spec.shape[1:3] == cells]
        poses = of_shape(outputs, lambda shape: len(shape) == 4 and shape[2:] == (KEYPOINTS, 2))
        masks = poses and of_shape(outputs, lambda shape: shape == (1, poses.shape[1], *cells))
        return cls(
            segments[0],
            parts[0] if parts else None,
            masks,
            offsets[1] if len(offsets) == 2 else None,
            stride_of(image, segments[0]),
        )

    def masks(
        self, outputs: Outputs, placement: Placement, poses: PoseArrays, min_confidence: float
    ) -> Masks:
        """Masks of the region of an image that the model saw.

        poses: those to mark in `instances`. min_confidence: least probability of a person, more than 0 and
        less than 1. Raises OutputsError.
        """
        region = placement.region
        logits = self._sampled(read_real(outputs, self.segment)[0], placement, region.width, region.height)
        people = np.asarray(logits >= np.log(min_confidence / (1 - min_confidence)))
        instances, parts = np.zeros(people.shape, np.uint8), np.zeros(people.shape, np.uint8)
        of_poses = self._instance_masks(outputs, poses)
        if len(of_poses):
            # Cells at the border of a person may be in no mask, although a part of them is the person's.
            labels = self._greatest(np.ascontiguousarray(of_poses.transpose(1, 2, 0)), placement, 0.0)
            instances[people] = labels[people]
        if self.parts is not None:
            labels = self._greatest(read_real(outputs, self.parts)[0], placement, -np.inf)
            parts[people] = labels[people]
        return Masks(people, instances, parts)

    def _instance_masks(self, outputs: Outputs, poses: PoseArrays) -> NDArray[np.float32]:
        """A mask of each pose, 0 or 1, [n, h, w]; n is 0 if the model does not tell people apart."""
        if self.pose_masks is not None:
            masks: NDArray[np.float32] = read_real(outputs, self.pose_masks)[0]
            return np.take(masks, poses.order, axis=0)
        if self.long_offsets is None or not len(poses.x):
            return np.zeros((0, 0, 0), np.float32)
        keypoints = np.stack([poses.y, poses.x], axis=-1).astype(np.float32)
        offsets = Field.of(read(outputs, self.long_offsets), self.long_offsets)
        distances = pose_distances(keypoints, offsets, self.stride)
        sizes = np.sqrt(np.ptp(keypoints, axis=1).prod(axis=1))
        near = distances <= _FARTHEST * np.maximum(sizes, self.stride)[:, None, None]
        nearest = distances == distances.min(axis=0)
        own: NDArray[np.float32] = (near & nearest).astype(np.float32)
        return own

    def _greatest(self, field: NDArray[np.float32], placement: Placement, above: float) -> NDArray[np.uint8]:
        """The channel with the greatest value at each pixel of a region, from 1; 0 unless that is `above`.

        It is determined at a few positions in each cell; between two of them, borders are straight enough.
        """
        region = placement.region
        height, width = field.shape[0] * _SAMPLES, field.shape[1] * _SAMPLES
        height, width = min(height, region.height), min(width, region.width)
        sampled = self._sampled(field, placement, width, height).reshape(height, width, -1)
        labels = (sampled.argmax(axis=2) + 1).astype(np.uint8)
        labels[sampled.max(axis=2) <= above] = 0
        size = region.width, region.height
        return np.asarray(cv2.resize(labels, size, interpolation=cv2.INTER_NEAREST_EXACT), np.uint8)

    def _sampled(
        self, field: NDArray[np.float32], placement: Placement, width: int, height: int
    ) -> NDArray[np.float32]:
        """A map at the centres of `height` x `width` equal parts of a region, interpolated linearly.

        Cell (y, x) is at px (y, x) * stride of the model's input.
        """
        x_step = placement.width / width / self.stride  # cells
        y_step = placement.height / height / self.stride
        x_start = 0.5 * x_step + placement.left / self.stride
        y_start = 0.5 * y_step + placement.top / self.stride
        result: NDArray[np.float32] = cv2.warpAffine(
            field,
            np.array([[x_step, 0, x_start], [0, y_step, y_start]]),
            (width, height),
            flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
            borderMode=cv2.BORDER_REPLICATE,
        )
        return result
