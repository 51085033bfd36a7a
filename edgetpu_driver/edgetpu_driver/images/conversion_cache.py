"""Crops, converts and resizes an image once for all models that need the same input."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.images.encodings import (
    Pixels,
    check_image,
    to_grey,
    to_rgb,
)
from edgetpu_driver.images.region import Region
from edgetpu_driver.images.resizing import resize


class CameraImage:
    """An image with the model inputs made from it so far.

        image = CameraImage(pixels)
        flow.update(image, stamp), compass.update(image, stamp)

    If the models of both algorithms have the same input, the second one needs no conversion.
    """

    def __init__(self, pixels: NDArray[np.uint8]) -> None:
        """`pixels`: uint8 [H, W] or [H, W, 3] RGB, not to be changed afterwards; ImageError for others."""
        self.pixels: Pixels = check_image(pixels)
        self.height, self.width = self.pixels.shape[:2]
        self._converted: dict[tuple[Region, int], Pixels] = {}
        self._made: dict[Hashable, NDArray[Any]] = {}

    def fill(self, region: Region, height: int, width: int, channels: int) -> Pixels:
        """A model's input: uint8 [1, height, width, 1 (grey) or 3 (RGB)], read-only.

        `region`: the part of the image, as `Region.within` returns it. The same arguments return the same
        array.
        """

        def resized() -> Pixels:
            part = resize(self.part(region, channels), height, width)
            return np.ascontiguousarray(part).reshape(1, height, width, channels)

        return self.made((region, height, width, channels), resized)

    def made(self, key: Hashable, make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """The result of `make` for the image, read-only; the same key returns the same array."""
        array = self._made.get(key)
        if array is None:
            array = self._made[key] = make()
            array.setflags(write=False)
        return array

    def part(self, region: Region, channels: int) -> Pixels:
        """The region as grey levels [h, w] (`channels` 1) or RGB [h, w, 3] (3), at its own resolution."""
        key = region, channels
        part = self._converted.get(key)
        if part is None:
            x, y = region.x_offset, region.y_offset
            cut = self.pixels[y : y + region.height, x : x + region.width]
            part = self._converted[key] = to_grey(cut) if channels == 1 else to_rgb(cut)
        return part
