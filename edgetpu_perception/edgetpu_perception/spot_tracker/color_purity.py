"""Confidence in a coloured spot by its purity: tints of grey, as of walls and wood, are no target."""

from __future__ import annotations

import math

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.confidence_ramp import ramp
from edgetpu_perception.spot_tracker.shaded_disc import ShadedDisc
from edgetpu_perception.spot_tracker.small_spot import SmallSpot
from edgetpu_perception.spot_tracker.spot_decoder import CameraPixels

PURITY = (0.4, 0.6)
"""Amount of a colour over the light in its channels: no confidence up to the first, full confidence from the
second on. It is 1 for the colour alone and 0 for grey; for red, green and blue it is at most the saturation
of HSV. Derived: half on either side of 0.5, equal shares of colour and white light. In rooms of `make drive`
the red ball has 0.94, and the largest red of rooms without it 0.40 in the median."""

PURITY_OF_DISC = (0.35, 0.45)
"""The same for a disc with an outline, which no wall has; glare adds white to it.

Derived: more than the tint of wood, 0.33. Rows: none;
test_a_ball_of_which_a_glare_hides_the_colour_in_part_is_found_by_its_outline.
"""

PURITY_WITHOUT_RED = (0.25, 0.4)
"""As PURITY, for green, blue and cyan. Wood, brick, skin and lamplight have tints of the other colours, but
hardly of these. Balls that people call green or blue may have less than 0.6, if they are pale or in warm or
strong light. Derived: around 1/3, one part of the colour and two of white light."""

PURITY_OF_DISC_WITHOUT_RED = (0.2, 0.3)
"""As PURITY_OF_DISC, for the same colours. Derived: as far below PURITY_WITHOUT_RED as that is below
PURITY."""

_SMOOTH_SIDE = 3
"""Side in px of the square whose mean is the colour of a px of the camera. Derived: one hot pixel has a
ninth."""


def purity_of_large_spot(
    image: NDArray[np.uint8],
    peak: tuple[int, int],
    disc: ShadedDisc | None,
    weights: NDArray[np.float32],
) -> float:
    """Confidence, 0..1, by the purity at the cell with most of the colour.

    `image`: RGB, uint8 [H, W, 3]; `peak`: column and row near which the cell is searched for, unless `disc`,
    the outline by which the spot was found, is given; `weights`: of the colour, [1, 3]. Returns 1 for weights
    without a negative one, as for white: grey has such a colour, too.
    """
    if disc is None:
        return _purity(_square(image, peak, 1), weights, _limits(weights))
    square = _square(image, (round(disc.x), round(disc.y)), math.ceil(disc.radius))
    return _purity(square, weights, PURITY_OF_DISC if _has_red(weights) else PURITY_OF_DISC_WITHOUT_RED)


def purity_of_small_spot(
    image: NDArray[np.uint8], small: SmallSpot, camera: CameraPixels | None, weights: NDArray[np.float32]
) -> float:
    """The same for a spot that may be smaller than a cell, in the camera's pixels if they are given."""
    column, row = small.peak
    if camera is None or weights.min() >= 0.0:
        return _purity(image[row : row + 2, column : column + 2], weights, _limits(weights))
    pixels = camera()
    x_cell, y_cell = pixels.shape[1] / image.shape[1], pixels.shape[0] / image.shape[0]
    part = pixels[
        int(row * y_cell) : math.ceil((row + 2) * y_cell),
        int(column * x_cell) : math.ceil((column + 2) * x_cell),
    ]
    return _purity(cv2.blur(part, (_SMOOTH_SIDE, _SMOOTH_SIDE)).astype(np.uint8), weights, _limits(weights))


def _has_red(weights: NDArray[np.float32]) -> bool:
    """Whether the weight of red is above 0."""
    return bool(weights[0, 0] > 0.0)


def _limits(weights: NDArray[np.float32]) -> tuple[float, float]:
    """The limits for a spot of any shape."""
    return PURITY if _has_red(weights) else PURITY_WITHOUT_RED


def _square(image: NDArray[np.uint8], middle: tuple[int, int], reach: int) -> NDArray[np.uint8]:
    """The cells of an image up to `reach` cells from one (column, row)."""
    column, row = middle
    rows = slice(max(row - reach, 0), max(row + reach + 1, 0))
    return image[rows, max(column - reach, 0) : max(column + reach + 1, 0)]


def _purity(pixels: NDArray[np.uint8], weights: NDArray[np.float32], limits: tuple[float, float]) -> float:
    """Confidence by the purity of the px with most of the colour."""
    if weights.min() >= 0.0 or not pixels.size:
        return 1.0
    colors = pixels.reshape(-1, 3).astype(np.float32)
    amounts = colors @ weights[0]
    most = int(np.argmax(amounts))
    light = float(colors[most] @ np.maximum(weights[0], 0.0))
    return ramp(float(amounts[most]) / max(light, 1.0), *limits)
