"""A wall that a camera approaches, and the results of looming."""

from __future__ import annotations

import math
from collections.abc import Callable

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.time_to_contact.looming import Looming, LoomingResult

FOCAL = 45.0
"""Px of a 64 px image: a field of view of 71 deg."""
Image = NDArray[np.uint8]


class Wall:
    """A wall at z = 4 m with texture of all sizes, or a square of it in front of another wall."""

    def __init__(self, seed: int = 1, size: int = 64, noise: float = 4.0) -> None:
        self.random = np.random.default_rng(seed)
        self.size, self.noise = size, noise
        self.textures = [self._texture(), self._texture()]

    def _texture(self) -> NDArray[np.float32]:
        picture = np.zeros((1024, 1024), np.float32)
        for octave in range(3, 10):
            grain = self.random.normal(0, 1, (2**octave, 2**octave)).astype(np.float32)
            picture += cv2.resize(grain, (1024, 1024), interpolation=cv2.INTER_CUBIC)
        return np.clip(110 + 25 * picture, 0, 255).astype(np.float32)

    def seen(
        self,
        z: float = 0.0,
        x: float = 0.0,
        turn: tuple[float, float, float] = (0.0, 0.0, 0.0),
        behind: float = 0.0,
    ) -> Image:
        """View from (x, 0, z), turned by axis * rad; `behind`: m from a 3 m wide square to the other wall."""
        fine = 4 * self.size
        focal = FOCAL * fine / 64
        camera = np.array([[focal, 0, fine / 2 - 0.5], [0, focal, fine / 2 - 0.5], [0, 0, 1]])
        axes = cv2.Rodrigues(np.array(turn))[0]
        picture = np.zeros((fine, fine), np.float32)
        for layer, distance in ((1, 4.0 + behind), (0, 4.0)) if behind else ((0, 4.0),):
            # From texels of 1 cm, the middle of the texture at x = y = 0, to pixels.
            texel = 0.01
            to_wall = np.array([[texel, 0, -512 * texel - x], [0, texel, -512 * texel], [0, 0, distance - z]])
            warp = camera @ axes.T @ to_wall
            look = {"flags": cv2.INTER_LINEAR, "borderMode": cv2.BORDER_REFLECT}
            shown = cv2.warpPerspective(self.textures[layer], warp, (fine, fine), **look)
            mask = np.ones_like(self.textures[0])
            if behind and layer == 0:
                mask[:] = 0
                mask[512 - 150 : 512 + 150, 512 - 150 : 512 + 150] = 1
            inside = cv2.warpPerspective(mask, warp, (fine, fine), borderMode=cv2.BORDER_CONSTANT)
            picture = np.where(inside > 0.5, shown, picture) if behind else shown
        small = cv2.resize(picture, (self.size, self.size), interpolation=cv2.INTER_AREA)
        noisy = small + self.random.normal(0, self.noise, small.shape)
        image: Image = np.clip(np.rint(noisy), 0, 255).astype(np.uint8)
        return image


def watch(looming: Looming, view: Callable[[float], Image], seconds: float) -> list[LoomingResult]:
    """Results at 30 Hz for the view at each time."""
    stamps = np.arange(round(30 * seconds)) / 30
    return [looming.update(view(stamp), stamp) for stamp in stamps.tolist()]


def claimed(results: list[LoomingResult]) -> int:
    """Number of results with an approach."""
    return sum(result.approaching for result in results)


def errors(results: list[LoomingResult], start: float = 4.0, speed: float = 1.0) -> NDArray[np.float64]:
    """Relative errors of the time to contact from frame 10 on; inf where there is none."""
    told = [(r.ttc if r.valid else math.inf, (start - speed * r.stamp) / speed) for r in results[10:]]
    return np.array([abs(found / true - 1) for found, true in told])
