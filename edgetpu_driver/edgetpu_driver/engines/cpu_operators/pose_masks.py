"""The mask of each person, from long-range offsets, as PersonLab (arXiv:1803.08225) makes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.engines.cpu_operators.posenet_decoder import KEYPOINTS, Field
from edgetpu_driver.errors import InputError

_REFINEMENTS = 2
"""Steps by which the end of a long offset is moved onto a keypoint."""
_FARTHEST = 0.25
"""Distance in the size of a person, from which on a cell is none of it."""
_SEEN = 0.1
"""Least score of a keypoint that counts for the size of its person."""


@dataclass(frozen=True)
class MaskFields:
    """The maps that masks are made from."""

    long_offsets: Field
    """[h, w, 34], from a cell to the keypoints of the person there, px; y of all 17, then x."""
    segment: Field
    """[h, w, 1], logits of being a person."""
    short_offsets: Field
    """[h, w, 34], from a cell to the keypoint nearby, px; y of all 17, then x."""
    stride: float
    """px between cells."""


def instance_masks(
    keypoints: NDArray[np.float32],
    keypoint_scores: NDArray[np.float32],
    fields: MaskFields,
    threshold: float = 0.5,
) -> NDArray[np.bool_]:
    """A mask of each pose, bool [poses, h, w].

    `keypoints`: [poses, 17, 2], y and x, px of the model's input. `keypoint_scores`: [poses, 17]. Cells whose
    probability of being a person is below `threshold` are in no mask. The others are in that of the pose
    whose keypoints are nearest to the ends of the cell's long offsets: by the mean distance, weighted with
    the keypoints' scores, over the size of the person; if that is small enough.

    Raises InputError for maps that do not fit each other.
    """
    shape = _cells(fields.segment, 1, "segment")
    for field, name in ((fields.long_offsets, "long offsets"), (fields.short_offsets, "short offsets")):
        if _cells(field, 2 * KEYPOINTS, name) != shape:
            raise InputError(f"{name}: expected {shape[0]}x{shape[1]} cells as the segment")
    masks = np.zeros((len(keypoints), *shape), bool)
    logits = _real(fields.segment)[:, :, 0]
    rows, columns = np.nonzero(logits >= np.log(threshold / (1 - threshold)))
    if not len(keypoints) or not len(rows):
        return masks
    offsets = _real(fields.long_offsets)[rows, columns].reshape(-1, 2, KEYPOINTS) / fields.stride
    ends = np.stack([rows, columns], axis=1)[:, :, None] + offsets  # cells: [cell, y or x, keypoint]
    short = _real(fields.short_offsets).reshape(*shape, 2, KEYPOINTS) / fields.stride
    for _ in range(_REFINEMENTS):
        ends = _moved(ends, short)
    distances = _distances(ends, keypoints.astype(float).transpose(0, 2, 1) / fields.stride, keypoint_scores)
    nearest = distances.argmin(axis=1)
    near = distances.min(axis=1) <= _FARTHEST
    masks[nearest[near], rows[near], columns[near]] = True
    return masks


def _moved(positions: NDArray[np.float64], short: NDArray[np.float32]) -> NDArray[np.float64]:
    """Positions, [cell, 2, keypoint], after the short-range offset of the cell nearest to each one."""
    last = np.array(short.shape[:2])[:, None] - 1
    row, column = np.rint(np.clip(positions, 0, last)).astype(np.intp).transpose(1, 0, 2)
    return positions + short[row, column, :, np.arange(KEYPOINTS)].transpose(0, 2, 1)


def _distances(
    ends: NDArray[np.float64], poses: NDArray[np.float64], scores: NDArray[np.float32]
) -> NDArray[np.float64]:
    """Weighted mean distance of ends, [cell, 2, keypoint], from poses, [pose, 2, keypoint], by their size.

    A person's size is the square root of the area of the box around its keypoints.
    """
    columns = []
    for pose, weights in zip(poses, scores, strict=True):
        seen = pose[:, weights >= _SEEN] if np.count_nonzero(weights >= _SEEN) > 1 else pose
        size = max(float(np.sqrt(np.ptp(seen, axis=1).prod())), 1.0)
        apart = np.linalg.norm(ends - pose, axis=1)
        columns.append(apart @ weights / (max(float(weights.sum()), 1e-6) * size))
    return np.stack(columns, axis=1)


def _real(field: Field) -> NDArray[np.float32]:
    values = field.values.reshape(field.values.shape[-3:]).astype(np.float32)
    return (values - np.float32(field.zero_point)) * np.float32(field.scale)


def _cells(field: Field, channels: int, name: str) -> tuple[int, int]:
    values: NDArray[Any] = field.values
    shape = values.shape[1:] if values.ndim == 4 and values.shape[0] == 1 else values.shape
    if len(shape) != 3 or shape[2] != channels:
        raise InputError(f"{name}: expected [height, width, {channels}]; got {list(values.shape)}")
    return int(shape[0]), int(shape[1])
