"""Position of a spot from models with two softmax coordinates ("bright" and "color" of LibrEdgeTPU)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_perception.confidence_ramp import ramp
from edgetpu_perception.spot_tracker.background import background_of, cells_below
from edgetpu_perception.spot_tracker.blob_measurement import HARD_EDGE_SIGMA
from edgetpu_perception.spot_tracker.spot_decoder import (
    FULL_CONFIDENCE_CONTRAST,
    MIN_CONTRAST,
    NO_SPOT,
    CameraPixels,
    Position,
    Spot,
)

TEMPERATURE = 0.1
"""LibrEdgeTPU's graphs weight cells with coordinates of -1..1 divided by this. Given by those models."""

Y_OFFSET = 10.0
"""LibrEdgeTPU's graphs add this to the y coordinates. Given by those models."""

SOFTMAX_STEPS = 256
"""Steps in which the softmax gives probabilities.

Given by TFLite: its quantised softmax has the scale 1/256.
"""

HOT_PIXEL_CONTRAST_SHARE = 0.25
"""A cell is a hot pixel if no neighbour has this share of the contrast.

Rows: spot, bright_64x64: one hot pixel. Uncritical.
"""

MAX_COORDINATE_ERROR = 0.05
"""Difference between a coordinate and that of the brightest cells above which the model searches for
something else. Derived: five steps of the output, which are about 0.01."""

ROUNDING_TIE_STEPS = 0.02
"""Distance from a half, in steps of the softmax, within which a probability may be rounded either way.

Uncritical: covers rounding errors of the softmax itself.
"""

_EIGHT_NEIGHBOURS = np.array([[1, 1, 1], [1, 0, 1], [1, 1, 1]], np.uint8)
"""Neighbourhood of a cell without the cell. Given by the definition of a hot pixel."""


class CoordinateDecoder:
    """Decodes x / T and y / T + offset of the softmax over all grey levels.

    Two numbers do not tell whether there is a spot, and they have two errors: the softmax's steps of 1/256 do
    not add up to 1 (64 equal cells give 64 * 4/256, 400 cells 400 * 1/256, 513 cells 0), and hot pixels
    count. Both errors are computed from the model's input and corrected; contrast and spread of the input
    give the confidence.
    """

    def __init__(
        self, outputs: Sequence[TensorSpec], height: int, width: int, weights: Sequence[float] | None = None
    ) -> None:
        """`outputs`: one tensor with x and y, or one for each. `weights`: those of a colour filter (RGB)."""
        self._outputs = tuple(outputs)
        self._weights = None if weights is None else np.asarray(weights, np.float32)
        self._x = np.linspace(-1.0, 1.0, width)
        self._y = np.linspace(-1.0, 1.0, height)
        self._exp = np.exp(np.arange(256) - 255.0)

    def decode(
        self,
        image: NDArray[np.uint8],
        outputs: Mapping[str, NDArray[Any]],
        near: Position | None,  # noqa: ARG002 - the model chooses
        cell: tuple[float, float] = (1.0, 1.0),  # noqa: ARG002 - hot pixels are found in the input
        camera: CameraPixels | None = None,  # noqa: ARG002 - the model chooses
    ) -> Spot:
        """Find the spot; NO_SPOT without contrast, if the softmax is 0, or at the end of the output's range.

        Raises ModelUnsupportedError for a model that looks for something else, such as a pattern.
        """
        codes = np.concatenate([outputs[spec.name].ravel() for spec in self._outputs])
        limits = np.iinfo(codes.dtype)
        grey = self._grey(image[0])
        background = background_of(cells_below(grey))
        contrast = float(grey.max()) - background.level
        clarity = ramp(contrast, MIN_CONTRAST, FULL_CONFIDENCE_CONTRAST) * ramp(
            contrast / background.noise, 6, 12
        )
        steps = self._exp[grey + (255 - grey.max())]
        steps *= SOFTMAX_STEPS / steps.sum()
        shares = np.rint(steps) / SOFTMAX_STEPS
        hot = self._hot_pixels(grey, background.level + HOT_PIXEL_CONTRAST_SHARE * contrast) * shares
        seen = shares - hot
        total = float(seen.sum())
        if clarity == 0.0 or total == 0.0 or np.any((codes == limits.min) | (codes == limits.max)):
            return NO_SPOT
        values = np.concatenate([spec.dequantise(outputs[spec.name]).ravel() for spec in self._outputs])
        if image.shape[-1] == 1:
            self._check_coordinates(values * TEMPERATURE, shares, steps)
        x = (float(values[0]) * TEMPERATURE - float(hot.sum(0) @ self._x)) / total
        y = (float(values[1]) - float(hot.sum()) * Y_OFFSET) * TEMPERATURE - float(hot.sum(1) @ self._y)
        y = y / total - Y_OFFSET * TEMPERATURE
        x_spread, y_spread = self._spread(self._x, seen.sum(0)), self._spread(self._y, seen.sum(1))
        confidence = clarity * ramp(-math.hypot(x_spread, y_spread), -0.7, -0.4)
        # The cells of maximal brightness are a shape with hard edges.
        edge = HARD_EDGE_SIGMA / (max(int(np.count_nonzero(seen)), 1) / math.pi) ** 0.25
        sigmas = self._sigmas(seen, total, grey > background.level + contrast / 2)
        return self._in_cells(x, y, *sigmas, edge, confidence)

    def _sigmas(
        self, seen: NDArray[np.float64], total: float, spot: NDArray[np.bool_]
    ) -> tuple[float, float]:
        """Standard deviations of x and y by rounding and noise; `total`: sum of the cells' shares, `seen`.

        Noise decides which cells of a spot are the brightest. Without it all would have the same share.
        """
        quantum = self._outputs[0].scale * TEMPERATURE / total / math.sqrt(12)
        chance = math.sqrt(max(float(np.square(seen).sum()) / total**2 - 1 / np.count_nonzero(spot), 0.0))
        x_sigma = math.hypot(quantum, chance * self._spread(self._x, spot.sum(0)))
        y_sigma = math.hypot(quantum, chance * self._spread(self._y, spot.sum(1)))
        return x_sigma, y_sigma

    def _check_coordinates(
        self, values: NDArray[Any], shares: NDArray[np.float64], steps: NDArray[np.float64]
    ) -> None:
        """Raise ModelUnsupportedError unless the coordinates are those that the softmax of the input gives.

        `shares`: softmax of the cells, [H, W]; `steps`: the same before rounding, in steps of 1/256.
        """
        expected = (
            float(shares.sum(0) @ self._x),
            float(shares.sum(1) @ self._y) + Y_OFFSET * TEMPERATURE * float(shares.sum()),
        )
        undecided = np.count_nonzero(np.abs(steps % 1.0 - 0.5) < ROUNDING_TIE_STEPS) / SOFTMAX_STEPS
        if np.abs(values - expected).max() > MAX_COORDINATE_ERROR + 2.0 * undecided:
            raise ModelUnsupportedError(
                "expected a model that gives the coordinates of the brightest cells, here about "
                f"{expected[0]:.2f} and {expected[1]:.2f}; got {values[0]:.2f} and {values[1]:.2f}"
            )

    def _grey(self, pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """What the softmax works on, uint8 [H, W]; the chroma if the filter's weights are unknown."""
        if pixels.shape[2] == 1:
            return pixels[:, :, 0]
        if self._weights is None:
            chroma: NDArray[np.uint8] = pixels.max(axis=2) - pixels.min(axis=2)
            return chroma
        filtered: NDArray[np.uint8] = np.clip(np.rint(pixels @ self._weights), 0, 255).astype(np.uint8)
        return filtered

    @staticmethod
    def _hot_pixels(grey: NDArray[np.uint8], dark: float) -> NDArray[np.bool_]:
        """Cells that have no neighbour brighter than `dark`, bool [H, W]."""
        neighbours = cv2.dilate(grey, _EIGHT_NEIGHBOURS)
        alone: NDArray[np.bool_] = neighbours <= dark
        return alone

    @staticmethod
    def _spread(positions: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
        mean = float(positions @ weights) / weights.sum()
        return math.sqrt(max(float((positions - mean) ** 2 @ weights) / weights.sum(), 0.0))

    def _in_cells(
        self, x: float, y: float, x_sigma: float, y_sigma: float, edge: float, confidence: float
    ) -> Spot:
        if confidence == 0.0:
            return NO_SPOT
        half_width, half_height = (len(self._x) - 1) / 2, (len(self._y) - 1) / 2
        return Spot(
            (x + 1) * half_width,
            (y + 1) * half_height,
            math.hypot(x_sigma * half_width, edge),
            math.hypot(y_sigma * half_height, edge),
            confidence,
        )
