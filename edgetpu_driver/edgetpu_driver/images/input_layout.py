"""The order of rows, columns and channels in the inputs of models that take an image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_CHANNELS = (1, 3)
"""Numbers of channels of an image: grey or RGB."""
_LEAST_EXTENT = 8
"""Least height and width of an input without an axis for channels: smaller ones are sequences of readings."""


@dataclass(frozen=True)
class ImageLayout:
    """The layout of one image in an input."""

    shape: tuple[int, ...]
    """Shape of the input."""
    height: int
    width: int
    """Size of the image, px."""
    channels: int
    """1 (grey) or 3 (RGB)."""
    channels_first: bool = False
    """Whether the input has all pixels of a channel before those of the next."""

    @classmethod
    def of(cls, shape: tuple[int, ...]) -> ImageLayout | None:
        """The layout of an input of this shape; None if it does not take one image.

        Shapes are [1, height, width, channels] or [1, channels, height, width], also without the axis for the
        batch; grey images may have no axis for channels: [1, height, width].
        """
        if len(shape) == 3 and shape[0] == 1:
            return cls(shape, shape[1], shape[2], 1) if min(shape[1:]) >= _LEAST_EXTENT else None
        if len(shape) == 4 and shape[0] != 1:
            return None
        extents = shape[1:] if len(shape) == 4 else shape
        if len(extents) != 3:
            return None
        if extents[2] in _CHANNELS and extents[0] * extents[1] > 0:
            return cls(shape, extents[0], extents[1], extents[2])
        if extents[0] in _CHANNELS and extents[1] * extents[2] > 0:
            return cls(shape, extents[1], extents[2], extents[0], channels_first=True)
        return None

    @property
    def by_rows(self) -> tuple[int, int, int, int]:
        """The shape of the same image in the usual order: [1, height, width, channels]."""
        return 1, self.height, self.width, self.channels

    def arranged(self, image: NDArray[Any]) -> NDArray[Any]:
        """An image [1, height, width, channels] as the input takes it; a view where that is possible."""
        if self.channels_first:
            image = np.ascontiguousarray(image.transpose(0, 3, 1, 2))
        return image.reshape(self.shape)
