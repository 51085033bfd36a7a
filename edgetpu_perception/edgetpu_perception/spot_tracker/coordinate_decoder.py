"""Position of a spot from models that give two softmax coordinates ("bright" and "color" of LibrEdgeTPU)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.tensor import TensorSpec
from edgetpu_perception.confidence import ramp
from edgetpu_perception.spot_tracker.background import background_of, cells_below
from edgetpu_perception.spot_tracker.evidence_decoder import EDGE_SIGMA
from edgetpu_perception.spot_tracker.spot_decoder import FULL_CONTRAST, NO_CONTRAST, NO_SPOT, Spot

TEMPERATURE = 0.1
"""The graphs weigh cells with coordinates of -1..1 divided by this ..."""

Y_OFFSET = 10.0
"""... and add this to the y ones."""

SOFTMAX_STEPS = 256
"""The softmax gives probabilities in steps of 1/256."""

LONE_SHARE = 0.25
"""A cell is a hot pixel when its neighbours do not even have this share of the contrast."""

FOREIGN = 0.05
"""Difference of a coordinate from that of the brightest cells with which it is that of something else; a step
is about 0.01."""

UNDECIDED = 0.02
"""Steps from a half within which a probability may have been rounded up or down."""

_AROUND = np.array([[1, 1, 1], [1, 0, 1], [1, 1, 1]], np.uint8)


class CoordinateDecoder:
    """Decodes x / T and y / T + offset of the softmax over all grey levels.

    Two numbers cannot tell whether there is a spot, nor that the softmax's steps of 1/256 do not add up to 1
    (64 equal cells give 64 * 4/256, 400 cells 400 * 1/256, 513 nothing at all), nor that a hot pixel has a
    part in them or is all that they tell of. All follow from the model's input, which is at hand: the sum and
    the hot pixels correct the numbers, contrast and spread say how far to trust.
    """

    def __init__(
        self, outputs: Sequence[TensorSpec], height: int, width: int, weights: Sequence[float] | None = None
    ) -> None:
        """`outputs`: a tensor with x and y, or one for each; `weights`: those of a colour model's filter."""
        self._outputs = tuple(outputs)
        self._weights = None if weights is None else np.asarray(weights, np.float32)
        self._x = np.linspace(-1.0, 1.0, width)
        self._y = np.linspace(-1.0, 1.0, height)
        self._exp = np.exp(np.arange(256) - 255.0)

    def decode(
        self,
        image: NDArray[np.uint8],
        outputs: Mapping[str, NDArray[Any]],
        near: tuple[float, float] | None,  # noqa: ARG002 - the model has chosen already
    ) -> Spot:
        """Find the spot; NO_SPOT without contrast, with a collapsed softmax, or outside the model's range.

        Raises ModelUnsupportedError for a model that looks for something else, as those for patterns do.
        """
        codes = np.concatenate([outputs[spec.name].ravel() for spec in self._outputs])
        limits = np.iinfo(codes.dtype)
        grey = self._grey(image[0])
        background = background_of(cells_below(grey))
        contrast = float(grey.max()) - background.level
        clarity = ramp(contrast, NO_CONTRAST, FULL_CONTRAST) * ramp(contrast / background.noise, 6, 12)
        steps = self._exp[grey + (255 - grey.max())]
        steps *= SOFTMAX_STEPS / steps.sum()
        shares = np.rint(steps) / SOFTMAX_STEPS
        lone = self._lone(grey, background.level + LONE_SHARE * contrast) * shares
        seen = shares - lone
        total = float(seen.sum())
        if clarity == 0.0 or total == 0.0 or np.any((codes == limits.min) | (codes == limits.max)):
            return NO_SPOT
        values = np.concatenate([spec.dequantise(outputs[spec.name]).ravel() for spec in self._outputs])
        if image.shape[-1] == 1:
            self._refuse_others(values * TEMPERATURE, shares, steps)
        x = (float(values[0]) * TEMPERATURE - float(lone.sum(0) @ self._x)) / total
        y = (float(values[1]) - float(lone.sum()) * Y_OFFSET) * TEMPERATURE - float(lone.sum(1) @ self._y)
        y = y / total - Y_OFFSET * TEMPERATURE
        quantum = self._outputs[0].scale * TEMPERATURE / total / math.sqrt(12)
        x_spread, y_spread = self._spread(self._x, seen.sum(0)), self._spread(self._y, seen.sum(1))
        confidence = clarity * ramp(-math.hypot(x_spread, y_spread), -0.7, -0.4)
        # The models see the cells of maximal brightness, a shape with hard edges.
        edge = EDGE_SIGMA / (max(int(np.count_nonzero(seen)), 1) / math.pi) ** 0.25
        # Noise decides which cells of a spot are the brightest; else all of them would have the same share.
        spot = grey > background.level + contrast / 2
        chance = math.sqrt(max(float(np.square(seen).sum()) / total**2 - 1 / np.count_nonzero(spot), 0.0))
        x_sigma = math.hypot(quantum, chance * self._spread(self._x, spot.sum(0)))
        y_sigma = math.hypot(quantum, chance * self._spread(self._y, spot.sum(1)))
        return self._in_cells(x, y, x_sigma, y_sigma, edge, confidence)

    def _refuse_others(
        self, values: NDArray[Any], shares: NDArray[np.float64], steps: NDArray[np.float64]
    ) -> None:
        """ModelUnsupportedError unless the coordinates are those of the cells by their shares in the softmax.

        `steps`: the shares before rounding, in steps of it.
        """
        expected = (
            float(shares.sum(0) @ self._x),
            float(shares.sum(1) @ self._y) + Y_OFFSET * TEMPERATURE * float(shares.sum()),
        )
        undecided = np.count_nonzero(np.abs(steps % 1.0 - 0.5) < UNDECIDED) / SOFTMAX_STEPS
        if np.abs(values - expected).max() > FOREIGN + 2.0 * undecided:
            raise ModelUnsupportedError(
                "expected a model that gives the coordinates of the brightest cells, here about "
                f"{expected[0]:.2f} and {expected[1]:.2f}; got {values[0]:.2f} and {values[1]:.2f}"
            )

    def _grey(self, pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """What the softmax sees, or the nearest thing to it without the filter's weights: the chroma."""
        if pixels.shape[2] == 1:
            return pixels[:, :, 0]
        if self._weights is None:
            chroma: NDArray[np.uint8] = pixels.max(axis=2) - pixels.min(axis=2)
            return chroma
        filtered: NDArray[np.uint8] = np.clip(np.rint(pixels @ self._weights), 0, 255).astype(np.uint8)
        return filtered

    @staticmethod
    def _lone(grey: NDArray[np.uint8], dark: float) -> NDArray[np.bool_]:
        """Cells without a neighbour brighter than `dark`: hot pixels."""
        neighbours = cv2.dilate(grey, _AROUND)
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
