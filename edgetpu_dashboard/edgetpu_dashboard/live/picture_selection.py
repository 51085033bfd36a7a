"""Selections in a picture: a dragged box in px, and a clicked colour as weights of the spot tracker."""

from __future__ import annotations

import numpy as np

from edgetpu_dashboard.live.picture_encoding import Pixels
from edgetpu_driver.errors import InputError

GREY = 0.1
"""Difference of a colour's channels, as a share of the largest, up to which it is taken for grey. Chosen: a
white balance that is wrong by 10 % tints grey objects by as much."""

DARK_LEVELS = 8
"""Difference of a colour's channels, of 255, that is taken for grey however dark it is. Chosen: the noise and
the colour subsampling of a camera tint dark objects by a few levels, a large share of their brightness."""


def box_of(
    corners: tuple[float, float, float, float], width: int, height: int, least: int = 2
) -> tuple[int, int, int, int]:
    """Return x, y, width and height, px, of a box given by two corners as shares; InputError if too small."""
    xs = sorted(min(max(round(share * width), 0), width) for share in (corners[0], corners[2]))
    ys = sorted(min(max(round(share * height), 0), height) for share in (corners[1], corners[3]))
    box = xs[0], ys[0], xs[1] - xs[0], ys[1] - ys[0]
    if box[2] < least or box[3] < least:
        raise InputError(f"expected a box of at least {least} x {least} px; got {box[2]} x {box[3]}")
    return box


def color_at(image: Pixels, column: float, row: float, radius: int = 3) -> tuple[int, int, int]:
    """Return the median RGB colour around a point of uint8 [H, W] or [H, W, 3] RGB.

    column, row: the point, as shares of the image's width and height. radius: px on each side.
    """
    height, width = image.shape[:2]
    x, y = (min(max(int(share * size), 0), size - 1) for share, size in ((column, width), (row, height)))
    patch = image[max(y - radius, 0) : y + radius + 1, max(x - radius, 0) : x + radius + 1]
    levels = np.broadcast_to(np.median(patch, axis=(0, 1)), 3)
    return int(levels[0]), int(levels[1]), int(levels[2])


def is_grey(rgb: tuple[int, int, int]) -> bool:
    """Whether a colour differs from grey no more than tinted light or noise explains."""
    return max(rgb) - min(rgb) <= max(GREY * max(rgb), DARK_LEVELS)


def spot_weights(rgb: tuple[int, int, int]) -> list[float]:
    """Return a spot tracker's weights for a colour: its difference from grey, so that grey pixels cancel.

    For grey all weights are equal, because only its brightness distinguishes it.
    """
    if is_grey(rgb):
        return [1.0, 1.0, 1.0]
    grey = sum(rgb) / 3
    return [value - grey for value in rgb]
