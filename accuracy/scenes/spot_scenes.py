"""Pictures of 64x64 px with a spot at a known position, and pictures without one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from accuracy.scenes import photographs
from accuracy.scenes.photographs import as_pixels

SIDE = 64

PRESETS = {
    "red": (255, 0, 0),
    "green": (0, 255, 0),
    "blue": (0, 0, 255),
    "yellow": (255, 255, 0),
    "cyan": (0, 255, 255),
    "magenta": (255, 0, 255),
    "white": (255, 255, 255),
}
"""Colour of the target of each preset, RGB."""

Image = NDArray[np.uint8]
_Y, _X = np.mgrid[:SIDE, :SIDE]


@dataclass(frozen=True)
class Scene:
    """A picture, uint8 [64, 64] or [64, 64, 3] RGB, and the position of its spot, px."""

    image: Image
    x: float = math.nan
    y: float = math.nan
    source: str = ""


def discs(count: int, seed: int, low: float = 2.0, high: float = 24.0) -> Iterator[Scene]:
    """Uniform discs with hard edges inside the picture, at least 80 grey levels brighter than the rest."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        radius = random.uniform(low, high)
        x, y = random.uniform(radius, SIDE - 1 - radius, 2)
        dark = random.integers(0, 60)
        image = np.where(_inside(x, y, radius), random.integers(dark + 80, 256), dark)
        yield Scene(image.astype(np.uint8), x, y, f"radius {radius:.1f}")


def covered(count: int, seed: int) -> Iterator[Scene]:
    """Discs with soft edges: px are as bright as their covered share; noise of 0 to 4 grey levels."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        radius = random.uniform(2.0, 24.0)
        x, y = random.uniform(radius + 1, SIDE - 2 - radius, 2)
        dark, height, noise = random.uniform(0, 60), random.uniform(80, 190), random.choice([0.0, 2.0, 4.0])
        picture = dark + height * _coverage(x, y, radius) + random.normal(0, noise, (SIDE, SIDE))
        yield Scene(as_pixels(picture), x, y, f"radius {radius:.1f}")


def touching(count: int, seed: int) -> Iterator[Scene]:
    """Discs that touch one of the four borders."""
    random = np.random.default_rng(seed)
    for k in range(count):
        radius = random.uniform(3.0, 14.0)
        along = random.uniform(radius, SIDE - 1 - radius)
        across = (radius, SIDE - 1 - radius)[k % 2]
        x, y = (across, along) if k % 4 < 2 else (along, across)
        image = np.where(_inside(x, y, radius), 255, 0)
        yield Scene(image.astype(np.uint8), x, y, f"radius {radius:.1f}")


def gaussians(count: int, seed: int) -> Iterator[Scene]:
    """Smooth spots without noise."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        sigma = random.uniform(1.0, 6.0)
        x, y = random.uniform(3 * sigma, SIDE - 1 - 3 * sigma, 2)
        amplitude, dark = random.uniform(80.0, 200.0), random.uniform(0.0, 50.0)
        yield Scene(as_pixels(dark + amplitude * _bell(x, y, sigma)), x, y, f"sigma {sigma:.1f}")


def noisy(count: int, seed: int) -> Iterator[Scene]:
    """Smooth spots of amplitude 160 with noise of standard deviation 8."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        sigma = random.uniform(1.0, 6.0)
        x, y = random.uniform(3 * sigma, SIDE - 1 - 3 * sigma, 2)
        picture = 40 + 160 * _bell(x, y, sigma) + random.normal(0, 8, (SIDE, SIDE))
        yield Scene(as_pixels(picture), x, y, f"sigma {sigma:.1f}")


def hot(count: int, seed: int) -> Iterator[Scene]:
    """Smooth spots on black, with a single white px outside the spot."""
    random = np.random.default_rng(seed)
    for scene in _dim(count, seed + 1):
        rows, columns = np.nonzero(scene.image < 10)
        k = random.integers(len(rows))
        scene.image[rows[k], columns[k]] = 255
        yield scene


def _dim(count: int, seed: int) -> Iterator[Scene]:
    random = np.random.default_rng(seed)
    for _ in range(count):
        sigma = random.uniform(1.0, 6.0)
        x, y = random.uniform(3 * sigma, SIDE - 1 - 3 * sigma, 2)
        yield Scene(as_pixels(120 * _bell(x, y, sigma)), x, y, f"sigma {sigma:.1f}")


def colored(names: Sequence[str], preset: str, contrast: float, count: int, seed: int) -> Iterator[Scene]:
    """`count` discs of a preset's colour on each photograph, whose brightness is multiplied by `contrast`."""
    random = np.random.default_rng([seed, len(preset), ord(preset[0])])
    for name in names:
        for _ in range(count):
            radius = random.uniform(8.0, 14.0)
            x, y = random.uniform(radius, SIDE - 1 - radius, 2)
            image = np.rint(_view(name, random) * contrast).astype(np.uint8)
            image[_inside(x, y, radius)] = PRESETS[preset]
            yield Scene(image, x, y, f"{preset} on {Path(name).stem}")


def beacons(names: Sequence[str], count: int, seed: int) -> Iterator[Scene]:
    """`count` white discs on each photograph, grey and at half its brightness."""
    random = np.random.default_rng(seed)
    for name in names:
        for _ in range(count):
            radius = random.uniform(3.0, 10.0)
            x, y = random.uniform(radius, SIDE - 1 - radius, 2)
            image = cv2.cvtColor(_view(name, random), cv2.COLOR_RGB2GRAY) // 2
            image[_inside(x, y, radius)] = 255
            yield Scene(image, x, y, Path(name).stem)


def textured(count: int, seed: int) -> Iterator[Scene]:
    """White discs on fine and coarse texture with a standard deviation of 15 grey levels."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        radius = random.uniform(3.0, 10.0)
        x, y = random.uniform(radius, SIDE - 1 - radius, 2)
        rough = cv2.GaussianBlur(random.normal(0, 1, (SIDE, SIDE)), (0, 0), random.uniform(0.5, 4.0))
        image = as_pixels(random.uniform(60, 120) + 15 * rough / rough.std())
        image[_inside(x, y, radius)] = 255
        yield Scene(image, x, y, "texture")


def cut(count: int, seed: int) -> Iterator[Scene]:
    """Discs cut by the border, whose centre is up to half a radius outside the picture."""
    random = np.random.default_rng(seed)
    for k in range(count):
        radius = random.uniform(5.0, 12.0)
        along = random.uniform(radius, SIDE - 1 - radius)
        across = random.uniform(-0.5, 0.8) * radius
        across = across if k % 2 else SIDE - 1 - across
        x, y = (across, along) if k % 4 < 2 else (along, across)
        yield Scene(np.where(_inside(x, y, radius), 255, 0).astype(np.uint8), x, y, f"radius {radius:.1f}")


def pairs(count: int, seed: int) -> Iterator[tuple[Scene, list[Scene]]]:
    """A smooth spot alone, then ten pictures of it with an equal second spot and new noise in each."""
    random = np.random.default_rng(seed)
    for k in range(count):
        sigma = random.uniform(1.5, 4.0)
        left = (random.uniform(3 * sigma, 30 - 2 * sigma), random.uniform(3 * sigma, 63 - 3 * sigma))
        right = (random.uniform(33 + 2 * sigma, 63 - 3 * sigma), random.uniform(3 * sigma, 63 - 3 * sigma))
        first = (left, right)[k % 2]
        alone = Scene(as_pixels(20 + 200 * _bell(*first, sigma)), *first)
        both = 20 + 200 * (_bell(*left, sigma) + _bell(*right, sigma))
        yield (
            alone,
            [Scene(as_pixels(both + random.normal(0, 5, both.shape)), *first) for _ in range(10)],
        )


def nothing(count: int, seed: int) -> Iterator[Scene]:
    """Black, grey and white pictures, gradients, noise and single hot pixels."""
    random = np.random.default_rng(seed)

    def even() -> NDArray[Any]:
        return np.full((SIDE, SIDE), random.integers(0, 256))

    def white() -> NDArray[Any]:
        return 255 - np.abs(random.normal(0, random.uniform(0, 4), (SIDE, SIDE)))

    def slope() -> NDArray[Any]:
        angle = random.uniform(0, 2 * math.pi)
        across = (_X - 31.5) * math.cos(angle) + (_Y - 31.5) * math.sin(angle)
        lightness: NDArray[Any] = 128 + random.uniform(0.2, 2.0) * across + random.normal(0, 2, across.shape)
        return lightness

    def noise() -> NDArray[Any]:
        return random.normal(random.uniform(0, 200), random.uniform(2, 40), (SIDE, SIDE))

    def pixel() -> NDArray[Any]:
        picture = random.normal(random.uniform(0, 60), random.uniform(0, 5), (SIDE, SIDE))
        picture[tuple(random.integers(0, SIDE, 2))] = 255
        return picture

    kinds: tuple[Callable[[], NDArray[Any]], ...] = (even, white, slope, noise, pixel)
    for k in range(count):
        kind = kinds[k % len(kinds)]
        yield Scene(as_pixels(kind()), source=kind.__name__)


def _inside(x: float, y: float, radius: float) -> NDArray[np.bool_]:
    inside: NDArray[np.bool_] = (_X - x) ** 2 + (_Y - y) ** 2 <= radius**2
    return inside


def _coverage(x: float, y: float, radius: float) -> NDArray[np.float64]:
    """Share of each px that a disc covers, from 8x8 samples."""
    samples = np.arange(0.5, 8 * SIDE) / 8 - 0.5
    fine = (samples - x) ** 2 + (samples[:, np.newaxis] - y) ** 2 <= radius**2
    shares: NDArray[np.float64] = fine.reshape(SIDE, 8, SIDE, 8).mean(axis=(1, 3))
    return shares


def _bell(x: float, y: float, sigma: float) -> NDArray[np.float64]:
    bell: NDArray[np.float64] = np.exp(-((_X - x) ** 2 + (_Y - y) ** 2) / (2 * sigma**2))
    return bell


def _view(name: str, random: np.random.Generator) -> Image:
    """A random square of a photograph, with half to all of its shorter side."""
    photo = photographs.shared_color_photograph(name)
    side = int(random.uniform(0.5, 1.0) * min(photo.shape[:2]))
    top, left = (random.integers(0, size - side + 1) for size in photo.shape[:2])
    square = photo[top : top + side, left : left + side]
    small: Image = cv2.resize(square, (SIDE, SIDE), interpolation=cv2.INTER_AREA)
    return small
