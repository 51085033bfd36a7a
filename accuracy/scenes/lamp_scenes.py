"""Pictures of 320x240 px: lamps of any size on dark photographs, lamps that cross, and no lamp at all."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accuracy.scenes import photographs
from accuracy.scenes.photographs import as_pixels, random_part

WIDTH, HEIGHT = 320, 240

WITHOUT_LAMP = tuple(name for name in photographs.DEVELOPMENT if name != "moon")
"""Photographs without a lamp. The moon is not among them: its bright crater is a spot."""

NIGHT = (0.0, 0.1)
"""Range of the factor by which photographs are darkened at night."""

DUSK = (0.1, 0.3)
"""Range of that factor at dusk."""

DULL_DAY = (0.3, 0.5)
"""Range of that factor on a dull day."""

FRAMES_OF_A_CROSSING = 40

_BORDER = 14
"""Smallest distance of a lamp's centre from the border, px."""

_SAMPLES = 8
"""Samples along each side of a px that a disc partly covers."""


@dataclass(frozen=True)
class LampScene:
    """A picture, uint8 [240, 320], and the centre of its lamp, px; NaN without a lamp."""

    image: NDArray[np.uint8]
    x: float = math.nan
    y: float = math.nan


def lamps(
    names: Sequence[str], radius: float, brightness: tuple[float, float], count: int, seed: int
) -> Iterator[LampScene]:
    """White discs of `radius` px with soft edges on darkened photographs, and noise of 2 grey levels."""
    random = np.random.default_rng(seed)
    for k in range(count):
        picture = _view(names[k % len(names)], random) * random.uniform(*brightness)
        x, y = random.uniform(_BORDER, WIDTH - _BORDER), random.uniform(_BORDER, HEIGHT - _BORDER)
        _draw(picture, x, y, radius)
        yield LampScene(_noisy(picture, random), x, y)


def empty(names: Sequence[str], count: int, seed: int) -> Iterator[LampScene]:
    """Photographs of full brightness without a lamp, with noise of 2 grey levels."""
    random = np.random.default_rng(seed)
    for k in range(count):
        yield LampScene(_noisy(_view(names[k % len(names)], random), random))


def crossings(names: Sequence[str], count: int, seed: int) -> Iterator[Iterator[LampScene]]:
    """Sequences at 30 images/s in which another lamp appears and crosses the path of the first one."""
    random = np.random.default_rng(seed)
    for k in range(count):
        yield _crossing(names[k % len(names)], random)


def _crossing(name: str, random: np.random.Generator) -> Iterator[LampScene]:
    background = _view(name, random) * random.uniform(*DUSK)
    radius, reach = random.uniform(3.0, 15.0), random.uniform(50.0, 90.0)
    course = random.uniform(0.0, 2.0 * math.pi)
    other_course = course + random.uniform(math.pi / 4, 7 * math.pi / 4)
    middle = np.array([WIDTH, HEIGHT]) / 2 + random.uniform(-15, 15, 2)
    missed = random.uniform(-radius, radius, 2)
    for frame in range(FRAMES_OF_A_CROSSING):
        way = (2.0 * frame / (FRAMES_OF_A_CROSSING - 1) - 1.0) * reach
        x, y = middle + way * np.array([math.cos(course), math.sin(course)])
        picture = background.copy()
        _draw(picture, x, y, radius)
        if frame:
            u, v = middle + missed + way * np.array([math.cos(other_course), math.sin(other_course)])
            _draw(picture, u, v, radius)
        yield LampScene(_noisy(picture, random), float(x), float(y))


def _view(name: str, random: np.random.Generator) -> NDArray[np.float32]:
    return random_part(photographs.grey_photograph(name), WIDTH, HEIGHT, random)


def _draw(picture: NDArray[np.float32], x: float, y: float, radius: float) -> None:
    """Draw a disc of 255 grey levels; px on its edge are as bright as their covered part."""
    left, top = max(int(x - radius) - 1, 0), max(int(y - radius) - 1, 0)
    part = picture[top : int(y + radius) + 3, left : int(x + radius) + 3]
    rows, columns = part.shape
    u = (np.arange(columns * _SAMPLES) + 0.5) / _SAMPLES - 0.5 + left
    v = (np.arange(rows * _SAMPLES) + 0.5) / _SAMPLES - 0.5 + top
    inside = (u - x) ** 2 + (v[:, np.newaxis] - y) ** 2 <= radius**2
    share = inside.reshape(rows, _SAMPLES, columns, _SAMPLES).mean(axis=(1, 3))
    part += (255.0 - part) * share


def _noisy(picture: NDArray[np.float32], random: np.random.Generator) -> NDArray[np.uint8]:
    return as_pixels(picture + random.normal(0, 2, picture.shape))
