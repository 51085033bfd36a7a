"""A hall whose walls, floor and ceiling are photographs, seen from any place in any direction."""

from __future__ import annotations

import functools
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from accuracy.scenes import photographs
from accuracy.scenes.photographs import TEXTURED
from edgetpu_perception.camera_intrinsics import Pinhole

SAMPLES = 2
"""Samples per px along each axis."""
TEXELS = 1024
"""Side of the photograph on each wall, texels."""
MOTION_STEP = 5
"""Distance between the samples whose motion is computed, in samples."""

Floats = NDArray[np.float64]
Texture = NDArray[np.float32]


class Pose(NamedTuple):
    """Where a camera is, and how it is turned."""

    position: Floats
    """Position from the middle of the hall, m."""
    orientation: Floats
    """Matrix whose columns are the optical axes."""


@dataclass(frozen=True)
class Hall:
    """A hall with a texture on each of its six walls."""

    half: tuple[float, float, float]
    """Half of its width, height and depth, m: x to the right, y down, z ahead."""
    walls: tuple[Texture, ...]
    """Grey levels on the left, right, ceiling, floor, rear and front walls: [TEXELS, TEXELS] each."""

    @classmethod
    def drawn(
        cls, half: tuple[float, float, float], random: np.random.Generator, plain: Collection[int] = ()
    ) -> Hall:
        """A hall with a random photograph on each wall, or its mean brightness on walls in `plain`."""
        walls = [_photograph(name) for name in random.permutation(TEXTURED)[:6]]
        return cls(
            half,
            tuple(np.full_like(wall, wall.mean()) if k in plain else wall for k, wall in enumerate(walls)),
        )

    def look(self, position: Floats, directions: Texture) -> Texture:
        """Grey levels, [rows, columns], seen from a position, m, in directions [rows, columns, 3]."""
        size, place = np.array(self.half, np.float32), position.astype(np.float32)
        course = np.where(directions == 0, np.float32(1e-9), directions)
        distance = self._distances(place, course)
        axis = distance.argmin(axis=2)
        nearest = np.take_along_axis(distance, axis[..., np.newaxis], axis=2)
        texel = ((place + nearest * course) / size + 1) * np.float32(TEXELS / 2) - np.float32(0.5)
        seen = np.empty(axis.shape, np.float32)
        for number, wall in enumerate(self.walls):
            along, ahead = divmod(number, 2)
            here = (axis == along) & ((course[..., along] > 0) == bool(ahead))
            if here.any():
                u, v = (np.ascontiguousarray(texel[..., each]) for each in range(3) if each != along)
                levels = cv2.remap(wall, u, v, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
                seen[here] = levels[here]
        return seen

    def picture(self, camera: Pinhole, pose: Pose) -> Texture:
        """Picture of a camera without distortion: grey levels, [height, width]."""
        turned = directions(camera) @ pose.orientation.T.astype(np.float32)
        size, seen = (camera.width, camera.height), self.look(pose.position, turned)
        picture: Texture = cv2.resize(seen, size, interpolation=cv2.INTER_AREA)
        return picture

    def motion(self, camera: Pinhole, before: Pose, after: Pose) -> tuple[float, float]:
        """Median motion of the picture's content from one pose to the next, px."""
        each = slice(MOTION_STEP // 2, None, MOTION_STEP)
        rays = directions(camera)[each, each].astype(np.float64)
        course = rays @ before.orientation.T
        distance = self._distances(before.position, course).min(axis=2, keepdims=True)
        moved = (before.position + distance * course - after.position) @ after.orientation
        shift = moved[..., :2] / moved[..., 2:] - rays[..., :2]
        dx, dy = np.median(shift, axis=(0, 1)) * (camera.fx, camera.fy)
        return float(dx), float(dy)

    def _distances(self, place: NDArray[Any], course: NDArray[Any]) -> NDArray[Any]:
        """Distances to the walls across each axis, in lengths of `course`, whose elements must not be 0."""
        distances: NDArray[Any] = (np.sign(course) * np.array(self.half, course.dtype) - place) / course
        return distances


@functools.cache
def directions(camera: Pinhole) -> Texture:
    """Direction of each sample of a camera without distortion: [rows, columns, 3]."""
    u, v = (
        ((np.arange(size * SAMPLES) + 0.5) / SAMPLES - 0.5 - (size - 1) / 2) / camera.fx
        for size in (camera.width, camera.height)
    )
    x, y = np.meshgrid(u, v)
    return np.dstack((x, y, np.ones_like(x))).astype(np.float32)


@functools.cache
def _photograph(name: str) -> Texture:
    photo = photographs.grey_photograph(name)
    wall: Texture = cv2.resize(photo, (TEXELS, TEXELS), interpolation=cv2.INTER_AREA)
    return wall
