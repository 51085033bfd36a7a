"""Maps like those of PoseNet, for people whose keypoints are known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.engines.cpu_operators.posenet_decoder import EDGES, KEYPOINTS, Field

STRIDE = 16
_REACH = 2
"""Distance from a keypoint within which its offsets are known, cells."""
_ABSENT = -6.0
_PEAK = 5.0

_STANDING = (
    *((0.0, 0.0), (-6.0, -5.0), (-6.0, 5.0), (-4.0, -11.0), (-4.0, 11.0)),
    *((28.0, -21.0), (28.0, 21.0), (60.0, -33.0), (60.0, 33.0), (90.0, -37.0), (90.0, 37.0)),
    *((95.0, -14.0), (95.0, 14.0), (140.0, -16.0), (140.0, 16.0), (190.0, -18.0), (190.0, 18.0)),
)
"""Keypoints of a standing person, y and x from the nose, px."""


def person(y: float, x: float) -> NDArray[np.float64]:
    """Keypoints, [17, 2], y and x in px, of a person whose nose is at (y, x)."""
    return np.add(_STANDING, (y, x))


def maps(height: int, width: int, people: Sequence[NDArray[np.float64]]) -> tuple[Field, Field, Field]:
    """Heatmaps, short-range and mid-range offsets, float32, of a picture with these people.

    A cell has the offsets to and from the nearest keypoint.
    """
    heat = np.full((height, width, KEYPOINTS), _ABSENT, np.float32)
    short = np.zeros((height, width, 2, KEYPOINTS), np.float32)
    mid = np.zeros((height, width, 2, 2, len(EDGES)), np.float32)
    cells = STRIDE * np.moveaxis(np.mgrid[:height, :width], 0, -1).astype(float)
    for keypoint in range(KEYPOINTS):
        distances = np.linalg.norm(cells - np.stack(people)[:, None, None, keypoint], axis=-1)
        near = distances.min(axis=0) <= _REACH * STRIDE
        owner = np.stack(people)[distances.argmin(axis=0)]  # [height, width, 17, 2]
        falling = _PEAK - 4.0 * distances.min(axis=0) / STRIDE
        heat[near, keypoint] = np.maximum(falling, _ABSENT)[near]
        short[near, :, keypoint] = (owner[:, :, keypoint] - cells)[near]
        for edge, (parent, child) in enumerate(EDGES):
            if keypoint == parent:
                mid[near, 0, :, edge] = (owner[:, :, child] - cells)[near]
            if keypoint == child:
                mid[near, 1, :, edge] = (owner[:, :, parent] - cells)[near]
    return Field(heat), Field(short.reshape(height, width, -1)), Field(mid.reshape(height, width, -1))


def quantised(field: Field, scale: float, zero_point: int) -> Field:
    """The map, quantised to uint8."""
    steps = np.rint(field.values / scale) + zero_point
    return Field(np.clip(steps, 0, 255).astype(np.uint8), scale, zero_point)
