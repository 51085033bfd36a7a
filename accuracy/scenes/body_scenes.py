"""Pictures of 320x240 px, RGB: a large red body, such as an apple, on a photograph."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from accuracy.scenes import photographs
from accuracy.scenes.ball_scenes import HEIGHT, RED, WIDTH, BallScene
from accuracy.scenes.photographs import as_pixels, random_part

_LONGER_SEMIAXIS = (40.0, 90.0)
"""Range of the longer semiaxis, px."""

_FLATNESS = (0.6, 1.0)
"""Range of the shorter semiaxis over the longer one."""

_AMBIENT = (0.3, 0.75)
"""Range of the share of ambient light, down to that of a room with one window; the rest of the light comes
from above, from one side."""

_GLOSS = (100.0, 400.0)
"""Range of the brightness of the lamp's reflection, grey levels."""

_GLOSS_EXPONENT = (15.0, 60.0)
"""Range of the exponent of Phong's reflection: a patch of about a quarter to an eighth of the body."""

_HOLLOW = (0.1, 0.25)
"""Range of the radius of the dark hollow of the stalk, shorter semiaxes."""

_BLUR = (0.5, 1.5)
"""Range of the standard deviation of the blur, px."""


def bodies(names: Sequence[str], count: int, seed: int) -> Iterator[BallScene]:
    """Glossy ellipsoids with shade, a white reflection and a dark hollow, with noise of 2 grey levels."""
    random = np.random.default_rng(seed)
    for k in range(count):
        photo = photographs.shared_color_photograph(names[k % len(names)])
        picture = random_part(photo, WIDTH, HEIGHT, random) * random.uniform(0.3, 1.0)
        longer = random.uniform(*_LONGER_SEMIAXIS)
        x, y = random.uniform(longer, WIDTH - longer), random.uniform(longer, HEIGHT - longer)
        _draw(picture, x, y, (longer, longer * random.uniform(*_FLATNESS)), random)
        picture = cv2.GaussianBlur(picture, (0, 0), random.uniform(*_BLUR))
        yield BallScene(as_pixels(picture + random.normal(0, 2, picture.shape)), x, y)


def _draw(
    picture: NDArray[Any], x: float, y: float, semiaxes: tuple[float, float], random: np.random.Generator
) -> None:
    """Draw a glossy ellipsoid in ambient light and the light of a lamp."""
    v, u = np.mgrid[:HEIGHT, :WIDTH]
    angle = random.uniform(0.0, math.pi)
    along, across = math.cos(angle), math.sin(angle)
    first = ((u - x) * along + (v - y) * across) / semiaxes[0]
    second = ((v - y) * along - (u - x) * across) / semiaxes[1]
    distance = np.hypot(first, second)
    # Shaded like a sphere that is stretched in the picture.
    normal = np.stack([first * along - second * across, first * across + second * along])
    out = np.sqrt(np.maximum(1.0 - distance**2, 0.0))
    side = random.uniform(-0.5, 0.5)
    light = np.array([side, -0.5, math.sqrt(1.0 - side**2 - 0.25)])
    facing = normal[0] * light[0] + normal[1] * light[1] + out * light[2]
    ambient = random.uniform(*_AMBIENT)
    shade = ambient + (1.0 - ambient) * np.maximum(facing, 0.0)
    mirrored = np.maximum(2.0 * facing * out - light[2], 0.0)
    gloss = random.uniform(*_GLOSS) * mirrored ** random.uniform(*_GLOSS_EXPONENT)
    color = np.array([random.uniform(*bounds) for bounds in RED])
    surface = 255.0 * color * shade[..., np.newaxis]
    where, turn = random.uniform(0.2, 0.6), random.uniform(0.0, 2.0 * math.pi)
    hollow = np.hypot(first - where * math.cos(turn), second - where * math.sin(turn))
    surface *= (1.0 - 0.9 * np.exp(-((hollow / random.uniform(*_HOLLOW)) ** 2)))[..., np.newaxis]
    covered = np.clip((1.0 - distance) * semiaxes[1] + 0.5, 0.0, 1.0)[..., np.newaxis]
    picture += covered * (surface + gloss[..., np.newaxis] - picture)
