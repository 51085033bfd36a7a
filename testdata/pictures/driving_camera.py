"""A camera that drives at walls and through a room, all textured with waves."""

from __future__ import annotations

import math
from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from testdata.pictures.turning_camera import CAMERA, IMAGE, World

HALF_WIDTH, HALF_HEIGHT, DEPTH = 2.0, 1.2, 10.0
"""Half width, half height and depth of the room, m; the camera starts in the middle of one end."""


class Walls(World):
    """A wall at a distance of 1 on the left, and a farther one on the right."""

    def __init__(self, farther: float = 1.0, noise: float = 1.0) -> None:
        """`farther`: distance of the right wall; `noise`: standard deviation of each px, grey levels."""
        super().__init__()
        self._distances = np.where(self.rays[:, :1] < 0.0, 1.0, farther)
        self._noise = noise

    def photo(self, ahead: float, yaw: float = 0.0) -> IMAGE:
        """Image of a camera that has moved `ahead` and turned left by `yaw` deg."""
        rays = self.rays @ cv2.Rodrigues(np.radians([0.0, -yaw, 0.0]))[0].T
        points = rays / rays[:, 2:] * (1.0 - ahead / self._distances)
        return self.noisy(self.grey(points.astype(np.float32)), self._noise)


class Room(World):
    """Walls, floor and ceiling with waves of 0.6 m and more."""

    def __init__(self, seed: int = 7) -> None:
        super().__init__(CAMERA, seed)
        self.waves *= 10.0 / 35.0

    def photo(self, place: Sequence[float], yaw: float, tilt: float = 0.0) -> IMAGE:
        """Image from a place (right, down, ahead), m, with a yaw to the left and a tilt downwards, deg."""
        turn, down = (cv2.Rodrigues(np.radians(each))[0] for each in ([0.0, -yaw, 0.0], [-tilt, 0.0, 0.0]))
        rays = self.rays @ (turn @ down).T
        start = np.asarray(place, np.float64)
        limits = np.array([HALF_WIDTH, HALF_HEIGHT, DEPTH])
        with np.errstate(divide="ignore"):
            ways = np.where(rays > 0.0, (limits - start) / rays, (-limits - start) / rays)
        points = (start + rays * ways.min(axis=1, keepdims=True)).astype(np.float32)
        return self.noisy(self.grey(points), 1.0)


def weave(seconds: float, rate: float, speed: float, yaw: float) -> list[tuple[NDArray[np.float64], float]]:
    """Places, m, and yaws, deg, of a camera that weaves with a period of 4 s and moves straight ahead."""
    place, poses = np.zeros(3), []
    for number in range(round(seconds * rate)):
        angle = yaw * math.sin(math.pi / 2 * number / rate)
        poses.append((place, angle))
        left = math.radians(angle)
        place = place + np.array([-math.sin(left), 0.0, math.cos(left)]) * speed / rate
    return poses
