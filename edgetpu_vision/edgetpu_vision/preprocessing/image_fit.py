"""Letterbox or stretch: an image's position in a model's input, and coordinates back to the image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import InputError
from edgetpu_driver.images.region import Region

Fit = Literal["letterbox", "stretch"]
"""How an image is resized to a model's input: "letterbox" keeps its aspect ratio, centres it and fills the
rest with grey; "stretch" fills the whole input with it."""
FITS: tuple[Fit, ...] = get_args(Fit)

Coordinates = TypeVar("Coordinates", float, NDArray[np.float32], NDArray[np.float64])


def check_fit(fit: str) -> Fit:
    """Return `fit` if it is one of FITS; otherwise raise InputError."""
    for known in FITS:
        if fit == known:
            return known
    raise InputError(f"expected a fit of {' or '.join(FITS)}; got '{fit}'")


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a region of an image is in a model's input.

    Coordinates are continuous: (0, 0) is the upper left corner of the first pixel, (width, height) the lower
    right corner of the last one.
    """

    region: Region
    """Part of the image that is used, px of the image."""
    left: int
    """First column of the input that the region fills, px of the input."""
    top: int
    """First row of the input that the region fills, px of the input."""
    width: int
    """Number of columns that the region fills."""
    height: int
    """Number of rows that the region fills."""
    input_width: int
    """Size of the whole input, px."""
    input_height: int

    @classmethod
    def of(cls, region: Region, input_width: int, input_height: int, fit: Fit) -> Placement:
        """Place a region, as `Region.within` returns it, in an input of this size."""
        width, height = input_width, input_height
        if fit == "letterbox":
            scale = min(input_width / region.width, input_height / region.height)
            width = min(max(round(region.width * scale), 1), input_width)
            height = min(max(round(region.height * scale), 1), input_height)
        left, top = (input_width - width) // 2, (input_height - height) // 2
        return cls(region, left, top, width, height, input_width, input_height)

    def image_x(self, x: Coordinates) -> Coordinates:
        """Columns of the input, px, as columns of the image, px."""
        return (x - self.left) * (self.region.width / self.width) + self.region.x_offset

    def image_y(self, y: Coordinates) -> Coordinates:
        """Rows of the input, px, as rows of the image, px."""
        return (y - self.top) * (self.region.height / self.height) + self.region.y_offset
