"""Pictures of one spot, and errors of the tracker's results."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from edgetpu_perception import SpotResult, SpotTracker

Scene = tuple[NDArray[np.uint8], tuple[float, float]]


def block(y: int, x: int, size: int = 4, level: int = 255) -> NDArray[np.uint8]:
    """A black 64x64 image with a square whose first pixel is (x, y)."""
    image = np.zeros((64, 64), np.uint8)
    image[y : y + size, x : x + size] = level
    return image


def in_px(result: SpotResult) -> tuple[float, float]:
    """Position in px of a 64x64 image."""
    return (result.x + 1) * 31.5, (result.y + 1) * 31.5


def rmse(tracker: SpotTracker, make: Callable[[], Scene], count: int = 150) -> float:
    """Root mean square distance of results from the centres of `count` spots, px."""
    errors = []
    for _ in range(count):
        image, center = make()
        result = tracker.update(image)
        assert result.valid
        errors.append(math.dist(in_px(result), center))
    return math.sqrt(np.mean(np.square(errors)))
