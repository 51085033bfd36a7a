"""Non-repeating textures of walls and objects, made from a seed."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

SIZE = 512
"""Width and height of a texture, px."""

_COARSEST, _FINEST = 4, 128
"""Number of cells across a texture in the first and in the last layer of noise."""


def noise_texture(
    random: np.random.Generator, brightness: float = 1.0, size: int = SIZE
) -> NDArray[np.uint8]:
    """Return noise on all scales, like that of surfaces in photographs: uint8[size, size, 3].

    brightness: factor on the whole texture; 1: as in a lit room.
    """
    texture = np.zeros((size, size, 3), np.float32)
    cells = _COARSEST
    while cells <= _FINEST:
        grey = random.uniform(-1.0, 1.0, (cells, cells, 1)) * np.ones(3) / np.sqrt(cells / _COARSEST)
        tint = random.uniform(-0.3, 0.3, (cells, cells, 3)) / np.sqrt(cells / _COARSEST)
        layer = cv2.resize((grey + tint).astype(np.float32), (size, size), interpolation=cv2.INTER_CUBIC)
        texture += layer
        cells *= 2
    base = random.uniform(90.0, 160.0, 3)
    return np.clip(brightness * (base + 55.0 * texture), 0, 255).astype(np.uint8)


def as_png(texture: NDArray[np.uint8]) -> bytes:
    """Return an RGB texture as the bytes of a PNG file."""
    done, data = cv2.imencode(".png", cv2.cvtColor(texture, cv2.COLOR_RGB2BGR))
    assert done
    return data.tobytes()
