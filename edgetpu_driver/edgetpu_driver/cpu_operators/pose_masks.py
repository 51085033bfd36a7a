"""The mask of each person, from long-range offsets, as PersonLab (arXiv:1803.08225) makes it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.cpu_operators.posenet_decoder import KEYPOINTS, Field
from edgetpu_driver.errors import InputError

_REFINEMENTS = 2
"""Steps by which a predicted keypoint is moved onto its peak."""


def instance_masks(
    keypoints: NDArray[np.float32],
    long_offsets: Field,
    segment: Field,
    short_offsets: Field,
    *,
    stride: float,
    threshold: float = 0.5,
) -> NDArray[np.bool_]:
    """A mask of each pose, bool [poses, h, w].

    `keypoints`: [poses, 17, 2], y and x, px of the model's input. `long_offsets`: [h, w, 34], from a cell to
    the keypoints of the person there, px; y of all 17, then x. `segment`: [h, w, 1], logits of a person.
    `short_offsets`: [h, w, 34], move the ends of the long offsets onto the keypoints. `stride`: px between
    cells. Cells whose probability is below `threshold` belong to nobody. The others belong to the pose with
    the least mean distance of its keypoints from the ends of the cell's offsets, relative to the pose's size.

    Raises InputError for maps that do not fit each other.
    """
    shape = _cells(segment, 1, "segment")
    for field, name in ((long_offsets, "long offsets"), (short_offsets, "short offsets")):
        if _cells(field, 2 * KEYPOINTS, name) != shape:
            raise InputError(f"{name}: expected {shape[0]}x{shape[1]} cells as the segment")
    masks = np.zeros((len(keypoints), *shape), bool)
    logits = _real(segment)[:, :, 0]
    rows, columns = np.nonzero(logits >= np.log(threshold / (1 - threshold)))
    if not len(keypoints) or not len(rows):
        return masks
    offsets = _real(long_offsets)[rows, columns].reshape(-1, 2, KEYPOINTS) / stride
    pointed = np.stack([rows, columns], axis=1)[:, :, None] + offsets  # cells: [cell, y or x, keypoint]
    short = _real(short_offsets).reshape(*shape, 2, KEYPOINTS) / stride
    for _ in range(_REFINEMENTS):
        pointed = _moved(pointed, short)
    nearest = np.argmin(_distances(pointed, keypoints.astype(float).transpose(0, 2, 1) / stride), axis=1)
    masks[nearest, rows, columns] = True
    return masks


def _moved(positions: NDArray[np.float64], short: NDArray[np.float32]) -> NDArray[np.float64]:
    """Positions, [cell, 2, keypoint], after the short-range offset of the cell nearest to each one."""
    last = np.array(short.shape[:2])[:, None] - 1
    row, column = np.rint(np.clip(positions, 0, last)).astype(np.intp).transpose(1, 0, 2)
    return positions + short[row, column, :, np.arange(KEYPOINTS)].transpose(0, 2, 1)


def _distances(pointed: NDArray[np.float64], poses: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean distance of predictions, [cell, 2, keypoint], from poses, [pose, 2, keypoint], by pose size."""
    size = np.maximum(np.ptp(poses, axis=2).max(axis=1), 1.0)
    apart = np.stack([np.hypot(*(pointed - pose).transpose(1, 0, 2)).mean(axis=1) for pose in poses], axis=1)
    return np.asarray(apart / size)


def _real(field: Field) -> NDArray[np.float32]:
    values = field.values.reshape(field.values.shape[-3:]).astype(np.float32)
    return (values - np.float32(field.zero_point)) * np.float32(field.scale)


def _cells(field: Field, channels: int, name: str) -> tuple[int, int]:
    values: NDArray[Any] = field.values
    shape = values.shape[1:] if values.ndim == 4 and values.shape[0] == 1 else values.shape
    if len(shape) != 3 or shape[2] != channels:
        raise InputError(f"{name}: expected [height, width, {channels}]; got {list(values.shape)}")
    return int(shape[0]), int(shape[1])
