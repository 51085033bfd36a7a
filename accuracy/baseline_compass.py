"""Baseline of the compass, as a user would write it with OpenCV: the median turn of the moving points."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.camera_intrinsics import Pinhole

MODEL_SIZE = (64, 64)
"""Width and height of the model's input, px."""

Image = NDArray[np.uint8]
Floats = NDArray[np.float64]


def lucas_kanade(
    images: Sequence[Image], camera: Pinhole, size: tuple[int, int] | None = MODEL_SIZE
) -> Floats:
    """Yaw by pyramidal Lucas-Kanade, deg: the sum of the median turns of up to 100 corners.

    `size`: width and height that the images are reduced to; None: full size.
    """
    fine = size is None
    across = _Angles(camera, size)
    steps = [0.0]
    for before, after in pairwise(_reduced(images, size)):
        corners = cv2.goodFeaturesToTrack(before, 100, 0.01, 7 if fine else 3)
        step = 0.0
        if corners is not None:
            window = (21, 21) if fine else (11, 11)
            moved, found, _ = cv2.calcOpticalFlowPyrLK(before, after, corners, None, winSize=window)
            ok = found.ravel() == 1
            if ok.any():
                step = float(np.median(across.of(moved[ok, 0, 0]) - across.of(corners[ok, 0, 0])))
        steps.append(step)
    return np.cumsum(steps)


def dense_flow(images: Sequence[Image], camera: Pinhole, size: tuple[int, int] | None = MODEL_SIZE) -> Floats:
    """Yaw by DIS flow, deg: the sum of the median turns of all px. `size`: as in lucas_kanade()."""
    across = _Angles(camera, size)
    dis = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
    steps = [0.0]
    for before, after in pairwise(_reduced(images, size)):
        x = np.arange(before.shape[1], dtype=np.float64)
        flow = dis.calc(before, after, np.zeros((*before.shape, 2), np.float32))
        steps.append(float(np.median(across.of(x + flow[..., 0]) - across.of(x))))
    return np.cumsum(steps)


class _Angles:
    """Converts columns of reduced images to angles."""

    def __init__(self, camera: Pinhole, size: tuple[int, int] | None) -> None:
        self._scale = camera.width / (size[0] if size else camera.width)
        self._camera = camera

    def of(self, columns: NDArray[np.floating[Any]]) -> Floats:
        """Angles to the right of the optical axis, deg."""
        camera = self._camera
        x = ((columns + 0.5) * self._scale - 0.5 - camera.cx) / camera.fx
        angles: Floats = np.arctan(x) * (180.0 / math.pi)
        return angles


def _reduced(images: Iterable[Image], size: tuple[int, int] | None) -> list[Image]:
    if size is None:
        return list(images)
    return [cv2.resize(image, size, interpolation=cv2.INTER_AREA) for image in images]
