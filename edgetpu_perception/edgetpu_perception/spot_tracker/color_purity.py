"""How pure the colour of a spot is: a tint of grey, as walls and wood have, is no coloured target."""

from __future__ import annotations

import math

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.confidence import ramp
from edgetpu_perception.spot_tracker.small_spot import SmallSpot
from edgetpu_perception.spot_tracker.spot_decoder import CameraPixels

PURITY = (0.4, 0.6)
"""Amount of a colour over the light in the channels that it adds up: a tint up to the first, full confidence
from the second on. It is 1 for the colour alone and 0 for grey; for red, green and blue it is at most the
saturation of HSV. Derived: half on either side of 0.5, equal shares of colour and white light. In rooms of
`make drive` the red ball has 0.94, and the largest red of rooms without it 0.40 in the median."""

_SMOOTH_SIDE = 3
"""Side, px, of the square whose mean is the colour of a px of the camera. Derived: one hot pixel has a
ninth."""


def purity_around(image: NDArray[np.uint8], peak: tuple[int, int], weights: NDArray[np.float32]) -> float:
    """Confidence, 0..1, by the purity at the cell near `peak` (column, row) with most of the colour.

    `image`: RGB, uint8 [H, W, 3]; `weights`: of the colour, [1, 3]. 1 for a colour that grey has as well.
    """
    column, row = peak
    return _purest(image[max(row - 1, 0) : row + 2, max(column - 1, 0) : column + 2], weights)


def purity_of_small_spot(
    image: NDArray[np.uint8], small: SmallSpot, camera: CameraPixels | None, weights: NDArray[np.float32]
) -> float:
    """`purity_around` for a spot that may be smaller than a cell, in the camera's pixels if there are any."""
    column, row = small.peak
    if camera is None or weights.min() >= 0.0:
        return _purest(image[row : row + 2, column : column + 2], weights)
    pixels = camera()
    x_cell, y_cell = pixels.shape[1] / image.shape[1], pixels.shape[0] / image.shape[0]
    part = pixels[
        int(row * y_cell) : math.ceil((row + 2) * y_cell),
        int(column * x_cell) : math.ceil((column + 2) * x_cell),
    ]
    return _purest(cv2.blur(part, (_SMOOTH_SIDE, _SMOOTH_SIDE)).astype(np.uint8), weights)


def _purest(pixels: NDArray[np.uint8], weights: NDArray[np.float32]) -> float:
    """Confidence by the purity of the px with most of the colour."""
    if weights.min() >= 0.0 or not pixels.size:
        return 1.0
    colors = pixels.reshape(-1, 3).astype(np.float32)
    amounts = colors @ weights[0]
    most = int(np.argmax(amounts))
    light = float(colors[most] @ np.maximum(weights[0], 0.0))
    return ramp(float(amounts[most]) / max(light, 1.0), *PURITY)
