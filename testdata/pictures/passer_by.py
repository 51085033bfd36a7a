"""A camera that turns before a wall with little horizontal texture, and a person who moves along with it."""

from __future__ import annotations

import math

import cv2
import numpy as np
from numpy.typing import NDArray

from testdata.pictures.turning_camera import CAMERA, IMAGE

_PIXELS_PER_DEGREE = 8
_PERSON_WIDTH, _PERSON_HEIGHT = 14, 44
"""Size of the person, px of the picture."""


class PasserBy:
    """A wall around the camera, and a person in front of it with more contrast."""

    def __init__(self, seed: int, stretch: float) -> None:
        """`stretch`: ratio of width to height of the wall's texture."""
        self._random = np.random.default_rng(seed)
        self._wall = self._noise(128, 2048, 30.0, stretch)
        self._person = self._noise(128, 128, 90.0, 1.0)
        self._y, self._x = np.mgrid[: CAMERA.height, : CAMERA.width].astype(np.float32)
        across = (self._x - CAMERA.cx) / CAMERA.fx
        self._angle = np.degrees(np.arctan(across))
        self._height = (self._y - CAMERA.cy) / CAMERA.fy / np.hypot(across, 1.0)

    def image(self, yaw: float, left: float | None = None) -> IMAGE:
        """Picture of a camera turned right by `yaw` deg; `left`: left column of the person; None: nobody."""
        columns = 1024 + _PIXELS_PER_DEGREE * (self._angle + yaw)
        grey = _sampled(self._wall, columns, 64 + 60 * self._height)
        if left is not None:
            person = (self._x >= left) & (self._x < left + _PERSON_WIDTH) & (self._y < _PERSON_HEIGHT)
            grey = np.where(person, _sampled(self._person, 2 * (self._x - left), 2 * self._y), grey)
        levels = 128 + grey + self._random.normal(0, 0.5, grey.shape)
        image: IMAGE = np.clip(levels, 0, 255).astype(np.uint8)
        return image

    def _noise(self, height: int, width: int, contrast: float, stretch: float) -> NDArray[np.float32]:
        """Noise on all scales, grey levels."""
        levels = np.zeros((height, width), np.float32)
        for cells in (4, 8, 16, 32, 64):
            shape = cells, max(round(cells * width / height / stretch), 2)
            layer = self._random.uniform(-1, 1, shape).astype(np.float32) / math.sqrt(cells / 4)
            levels += cv2.resize(layer, (width, height), interpolation=cv2.INTER_CUBIC)
        return np.float32(contrast) * levels


def _sampled(
    picture: NDArray[np.float32], x: NDArray[np.float32], y: NDArray[np.float32]
) -> NDArray[np.float32]:
    return np.asarray(
        cv2.remap(picture, x.astype(np.float32), y.astype(np.float32), cv2.INTER_LINEAR), np.float32
    )
