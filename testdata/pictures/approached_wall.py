"""A wall that a camera approaches, and the results of looming."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import cache

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.time_to_contact.looming import Looming, LoomingResult

FOCAL = 45.0
"""Focal length for an image of 64 px, px: a field of view of 71 deg."""
Image = NDArray[np.uint8]


TEXELS = 1024
"""Width and height of a texture in texels of 1 cm; its middle is at x = y = 0."""
EVERYWHERE = np.ones((TEXELS, TEXELS), np.float32)
SQUARE = np.zeros((TEXELS, TEXELS), np.float32)
SQUARE[TEXELS // 2 - 150 : TEXELS // 2 + 150, TEXELS // 2 - 150 : TEXELS // 2 + 150] = 1
Texture = NDArray[np.float32]


@cache
def _drawn(seed: int) -> tuple[list[Texture], np.random.Generator]:
    """The textures of two walls, and the random generator after drawing them."""
    random = np.random.default_rng(seed)
    return [_texture(random), _texture(random)], random


def _texture(random: np.random.Generator) -> Texture:
    picture = np.zeros((TEXELS, TEXELS), np.float32)
    for octave in range(3, 10):
        grain = random.normal(0, 1, (2**octave, 2**octave)).astype(np.float32)
        picture += cv2.resize(grain, (TEXELS, TEXELS), interpolation=cv2.INTER_CUBIC)
    return np.clip(110 + 25 * picture, 0, 255).astype(np.float32)


class Wall:
    """A wall at z = 4 m with texture on all scales, or a square of it in front of another wall."""

    def __init__(self, seed: int = 1, size: int = 64, noise: float = 4.0) -> None:
        textures, random = _drawn(seed)
        self.textures, self.random = list(textures), copy.deepcopy(random)
        self.size, self.noise = size, noise

    def seen(
        self,
        z: float = 0.0,
        x: float = 0.0,
        turn: tuple[float, float, float] = (0.0, 0.0, 0.0),
        behind: float = 0.0,
    ) -> Image:
        """View from (x, 0, z), m, turned by a rotation vector, rad.

        `behind`: distance from a 3 m wide square to the other wall, m; 0: there is only one wall.
        """
        fine = 4 * self.size
        focal = FOCAL * fine / 64
        camera = np.array([[focal, 0, fine / 2 - 0.5], [0, focal, fine / 2 - 0.5], [0, 0, 1]])
        axes = cv2.Rodrigues(np.array(turn))[0]
        picture = np.zeros((fine, fine), np.float32)
        for layer, distance in ((1, 4.0 + behind), (0, 4.0)) if behind else ((0, 4.0),):
            # From texels to pixels.
            texel, middle = 0.01, TEXELS // 2 * 0.01
            to_wall = np.array([[texel, 0, -middle - x], [0, texel, -middle], [0, 0, distance - z]])
            warp = camera @ axes.T @ to_wall
            look = {"flags": cv2.INTER_LINEAR, "borderMode": cv2.BORDER_REFLECT}
            shown = cv2.warpPerspective(self.textures[layer], warp, (fine, fine), **look)
            if behind:
                mask = EVERYWHERE if layer else SQUARE
                inside = cv2.warpPerspective(mask, warp, (fine, fine), borderMode=cv2.BORDER_CONSTANT)
                shown = np.where(inside > 0.5, shown, picture)
            picture = shown
        small = cv2.resize(picture, (self.size, self.size), interpolation=cv2.INTER_AREA)
        noisy = small + self.random.normal(0, self.noise, small.shape)
        image: Image = np.clip(np.rint(noisy), 0, 255).astype(np.uint8)
        return image


def watch(looming: Looming, view: Callable[[float], Image], seconds: float) -> list[LoomingResult]:
    """Results at 30 Hz for the views at each time."""
    stamps = np.arange(round(30 * seconds)) / 30
    return [looming.update(view(stamp), stamp) for stamp in stamps.tolist()]


def claimed(results: list[LoomingResult]) -> int:
    """Number of results that claim an approach."""
    return sum(result.approaching for result in results)


def errors(results: list[LoomingResult], start: float = 4.0, speed: float = 1.0) -> NDArray[np.float64]:
    """Relative errors of the time to contact from frame 10; inf where there is no time."""
    told = [(r.ttc if r.valid else math.inf, (start - speed * r.stamp) / speed) for r in results[10:]]
    return np.array([abs(found / true - 1) for found, true in told])
