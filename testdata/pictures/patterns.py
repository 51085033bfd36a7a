"""Pictures in which patches are to be found, and the patches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

Image = NDArray[np.uint8]
SIZES = [(64, 8), (64, 16), (128, 16), (128, 32)]
"""Sides of the search image and of the template, px."""


def texture(seed: int, side: int = 64, blur: float = 1.5) -> Image:
    """Smooth random blobs, in which all patches differ."""
    noise = np.random.default_rng(seed).normal(size=(side, side))
    smooth = cv2.GaussianBlur(noise, (0, 0), blur)
    return pixels(128 + 45 * smooth / smooth.std())


def cut(image: Image, x: int, y: int, side: int = 16) -> Image:
    """The patch whose first pixel is (x, y)."""
    return image[y : y + side, x : x + side].copy()


def moved(image: Image, dx: float, dy: float, turn: float = 0.0, size: float = 1.0) -> NDArray[np.float32]:
    """The image, turned by `turn` deg and scaled by `size` about its middle, then moved by dx, dy px."""
    middle = (image.shape[0] - 1) / 2
    matrix = cv2.getRotationMatrix2D((middle, middle), -turn, size)
    matrix[:, 2] += dx, dy
    result: NDArray[np.float32] = cv2.warpAffine(
        image.astype(np.float32),
        matrix,
        image.shape[::-1],
        flags=cv2.INTER_CUBIC,
        borderMode=cv2.BORDER_REFLECT,
    )
    return result


def pixels(image: NDArray[np.floating]) -> Image:
    """Round to grey levels."""
    rounded: Image = np.clip(np.rint(image), 0, 255).astype(np.uint8)
    return rounded


@dataclass
class Photograph:
    """A photograph reduced to an image, and its patches."""

    image: Image
    random: np.random.Generator

    def patches(self, side: int, count: int) -> Iterator[tuple[Image, float, float]]:
        """Yield patches, clear of the border, with their centres."""
        for _ in range(count):
            x, y = self.random.integers(4, len(self.image) - side - 3, 2)
            yield cut(self.image, x, y, side), x + (side - 1) / 2, y + (side - 1) / 2


def photographs(search: int) -> list[Photograph]:
    """Four photographs, reduced to search x search px."""
    images = (_reduced(name, search) for name in ("camera", "coins", "chelsea", "gravel"))
    return [Photograph(image, np.random.default_rng(index)) for index, image in enumerate(images)]


@cache
def _reduced(name: str, search: int) -> Image:
    data = pytest.importorskip("skimage.data", reason="needs scikit-image for photographs")
    photo = getattr(data, name)()
    grey = photo if photo.ndim == 2 else cv2.cvtColor(photo, cv2.COLOR_RGB2GRAY)
    side = min(grey.shape)
    image: Image = cv2.resize(grey[:side, :side], (search, search), interpolation=cv2.INTER_AREA)
    return image
