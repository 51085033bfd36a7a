"""Pictures of 320x240 px, RGB: a shaded ball on a photograph, alone or next to a glare."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accuracy.scenes import photographs
from accuracy.scenes.photographs import as_pixels, random_part

WIDTH, HEIGHT = 320, 240

RED = ((0.55, 0.75), (0.05, 0.15), (0.05, 0.15))
"""Lowest and highest reflectance of a red ball in red, green and blue."""

WHITE = ((0.88, 0.97), (0.86, 0.95), (0.80, 0.95))
"""Lowest and highest reflectance of a white ball: never pure white, slightly warm."""

_AMBIENT = (0.55, 0.75)
"""Range of the share of ambient light; the rest of the light comes from above, from one side."""

_RADII = (15.0, 40.0)
"""Range of the radius of a ball, px."""


@dataclass(frozen=True)
class BallScene:
    """A picture, uint8 [240, 320, 3] RGB, and the centre of its ball, px."""

    image: NDArray[np.uint8]
    x: float
    y: float


def balls(
    names: Sequence[str],
    reflectance: Sequence[tuple[float, float]],
    brightness: tuple[float, float],
    count: int,
    seed: int,
    glare_sigma: float | None = None,
) -> Iterator[BallScene]:
    """Balls with shade and soft edges on photographs, with noise of 2 grey levels.

    `brightness`: range of the factor on the photograph. `glare_sigma`: standard deviation of a lamp's glare,
    px, which is added to the picture; its white part touches the ball. None: no glare.
    """
    random = np.random.default_rng(seed)
    for k in range(count):
        photo = photographs.shared_color_photograph(names[k % len(names)])
        picture = random_part(photo, WIDTH, HEIGHT, random) * random.uniform(*brightness)
        radius = random.uniform(*_RADII)
        x, y = random.uniform(radius, WIDTH - radius), random.uniform(radius, HEIGHT - radius)
        color = np.array([random.uniform(*bounds) for bounds in reflectance])
        _draw(picture, x, y, radius, color, random)
        if glare_sigma is not None:
            picture += _glare(x, y, radius, glare_sigma, random)[..., np.newaxis]
        yield BallScene(as_pixels(picture + random.normal(0, 2, picture.shape)), x, y)


def _draw(
    picture: NDArray[np.float32],
    x: float,
    y: float,
    radius: float,
    color: NDArray[np.float64],
    random: np.random.Generator,
) -> None:
    """Draw a matt ball in ambient light and the light of a lamp."""
    v, u = np.mgrid[:HEIGHT, :WIDTH]
    across, down = (u - x) / radius, (v - y) / radius
    distance = np.hypot(across, down)
    out = np.sqrt(np.maximum(1.0 - distance**2, 0.0))
    side = random.uniform(-0.5, 0.5)
    light = np.array([side, -0.5, math.sqrt(1.0 - side**2 - 0.25)])
    ambient = random.uniform(*_AMBIENT)
    shade = ambient + (1.0 - ambient) * np.maximum(across * light[0] + down * light[1] + out * light[2], 0.0)
    covered = np.clip((1.0 - distance) * radius + 0.5, 0.0, 1.0)[..., np.newaxis]
    picture += covered * (255.0 * color * shade[..., np.newaxis] - picture)


def _glare(
    x: float, y: float, radius: float, sigma: float, random: np.random.Generator
) -> NDArray[np.float64]:
    """Glare, [240, 320], whose half-maximum contour touches the ball, on the side with more room."""
    angle = math.atan2(HEIGHT / 2 - y, WIDTH / 2 - x) + random.uniform(-0.8, 0.8)
    away = radius + sigma * math.sqrt(2 * math.log(2))
    v, u = np.mgrid[:HEIGHT, :WIDTH]
    squared = (u - x - away * math.cos(angle)) ** 2 + (v - y - away * math.sin(angle)) ** 2
    light: NDArray[np.float64] = random.uniform(250.0, 400.0) * np.exp(-squared / (2 * sigma**2))
    return light
