"""A camera that turns in a world of waves, and the results of the compass."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.camera_intrinsics import Pinhole, undistorted
from edgetpu_perception.visual_compass.visual_compass import HeadingResult, VisualCompass

FOCAL = 32 / math.tan(math.radians(75) / 2)
CAMERA = Pinhole(64, 64, FOCAL, FOCAL, 31.5, 31.5)
"""The camera of the pictures: 64x64 px, a field of view of 75 deg."""
FRAME = 1 / 30
"""Time from one image to the next, s."""
IMAGE = NDArray[np.uint8]


class World:
    """A picture on a sphere, composed of waves, with an exact grey level in every direction."""

    def __init__(self, camera: Pinhole = CAMERA, seed: int = 7, waves: int = 60) -> None:
        self.random = np.random.default_rng(seed)
        directions = self.random.normal(size=(3, waves))
        lengths = self.random.uniform(5, 35, waves)  # rad/rad: up to 10 px per wave
        self.waves = (directions / np.linalg.norm(directions, axis=0) * lengths).astype(np.float32)
        self.phases = self.random.uniform(0, 2 * math.pi, waves).astype(np.float32)
        y, x = np.mgrid[: camera.height, : camera.width]
        matrix = np.array([[camera.fx, 0.0, camera.cx], [0.0, camera.fy, camera.cy], [0.0, 0.0, 1.0]])
        pixels = np.stack([x, y], axis=-1).reshape(-1, 1, 2).astype(np.float64)
        distortion = np.array(camera.distortion or [0.0] * 4)
        plane = np.nan_to_num(undistorted(pixels, matrix, distortion)[:, 0])  # some have no direction
        rays = np.column_stack([plane, np.ones(len(plane))])
        self.rays = rays / np.linalg.norm(rays, axis=1, keepdims=True)
        self.shape = (camera.height, camera.width)
        self._grey = cache(self._rendered)

    def image(self, yaw: float, pitch: float = 0.0, roll: float = 0.0, noise: float = 2.0) -> IMAGE:
        """Image of a camera turned left, then up, then clockwise about its axis, deg."""
        return self.noisy(self._grey(yaw, pitch, roll), noise)

    def noisy(self, grey: NDArray[np.float32], noise: float) -> IMAGE:
        """Image of these grey levels with noise; `noise`: standard deviation, grey levels."""
        levels = grey + self.random.normal(0, noise, self.shape)
        image: IMAGE = np.clip(np.rint(levels), 0, 255).astype(np.uint8)
        return image

    def grey(self, points: NDArray[np.float32]) -> NDArray[np.float32]:
        """Grey levels of the waves at points [n, 3], one for each pixel."""
        waves = np.cos(points @ self.waves + self.phases)
        return np.asarray(128 + 8 * waves.sum(axis=1).reshape(self.shape), np.float32)

    def _rendered(self, yaw: float, pitch: float, roll: float) -> NDArray[np.float32]:
        turns = ([0.0, -yaw, 0.0], [pitch, 0.0, 0.0], [0.0, 0.0, roll])
        left, up, around = (cv2.Rodrigues(np.radians(turn))[0] for turn in turns)
        return self.grey((self.rays @ (left @ up @ around).T).astype(np.float32))


def play(
    yaws: Sequence[float],
    *,
    camera: Pinhole = CAMERA,
    compass: VisualCompass | None = None,
    times: Sequence[float] | None = None,
    pitch: Callable[[float], float] = lambda _: 0.0,
) -> list[HeadingResult]:
    """Results of the compass for a camera at these yaws, deg, with one frame for each."""
    world, compass = World(camera), compass or VisualCompass(camera=camera)
    times = [FRAME * number for number in range(len(yaws))] if times is None else times
    return [
        compass.update(world.image(yaw, pitch(time)), time) for yaw, time in zip(yaws, times, strict=True)
    ]


def degrees(results: Sequence[HeadingResult], name: str) -> NDArray[np.float64]:
    """A field of the results, converted from rad to deg."""
    return np.degrees([getattr(result, name) for result in results])


def rms(errors: NDArray[np.float64]) -> float:
    """Root mean square."""
    return float(np.sqrt(np.mean(np.square(errors))))
