"""Decoding of a model's output for the compass: the suite's own features, and Gabor energy maps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_perception.algorithm import ImageInput
from edgetpu_perception.graphs.flow_and_compass_features import BORDER, FeatureReader
from edgetpu_perception.optical_flow.flow_features import GaborMaps, flow_features
from edgetpu_perception.optical_flow.magnification import NONE, Magnification

Floats = NDArray[np.float32]

LARGEST_CELLS = 1.75
"""Cells per px of the image along an axis, up to which features of an enlarged image are not averaged.

Rows: compass, images of 32x32 px, yaw rate RMSE. In images of 40x40 px, with 1.6 cells, averages only blur.
"""


@dataclass(frozen=True)
class FeatureGrid:
    """Layout of a model's features on its input."""

    rows: int
    columns: int
    first: float
    """Position of the first feature along both axes, px of the model's input."""
    cell: float
    """Distance between neighbouring features, px of the model's input."""
    blur: float
    """Effect of the features' extent on their motion, cells^2: see `ray_projection`."""
    floor: float
    """Standard deviation of the image motion between noise-free frames, cells."""
    quiet: float
    """Quantile of the differences of two views that shows their noise, whatever else moves."""
    rounding: float = 0.0
    """Standard deviation of the difference of two features from their rounding alone; 0 if it is unknown."""
    magnification: Magnification = NONE
    """Of the images."""

    @property
    def blurs(self) -> NDArray[np.float64]:
        """`blur` plus the blur of the magnification along x and y, cells^2: [2]."""
        return self.blur + np.array(self.magnification.blur)


class CompassFeatures(Protocol):
    """Decodes the outputs of one kind of model."""

    grid: FeatureGrid

    def read(self, outputs: Mapping[str, NDArray[Any]]) -> Floats:
        """Features and their derivatives to x and y, per cell: [3, channels, rows * columns]."""
        ...


def compass_features(
    image: ImageInput, outputs: Sequence[TensorSpec], width: int = 0, height: int = 0
) -> CompassFeatures:
    """Recognise a model by the shape of its output; ModelUnsupportedError if it gives no features.

    `width`, `height`: of the images, px; 0 if they are not enlarged. Maps of Gabor models are not averaged.
    """
    flow = flow_features(image, outputs)
    if isinstance(flow, GaborMaps):
        return GaborCompassFeatures(flow, image)
    of_image = width or image.width, height or image.height
    magnification = Magnification.of(*of_image, image.width, image.height, LARGEST_CELLS)
    return BandPassCompassFeatures(image, outputs, magnification)


class BandPassCompassFeatures:
    """Decodes graphs.flow_and_compass_features: one map with its exact derivatives.

    Features of an enlarged image are averaged, see `magnification`; those too near the border are left out.
    """

    def __init__(
        self, image: ImageInput, outputs: Sequence[TensorSpec], magnification: Magnification = NONE
    ) -> None:
        self._reader = FeatureReader.of(image.height, image.width, outputs)
        _, rows, columns, _ = outputs[0].shape
        # A very small image keeps half of its features.
        self._border = border = min(magnification.reach, rows // 4, columns // 4)
        self._inside = np.ones((rows, columns), bool)
        self.grid = FeatureGrid(
            rows - 2 * border,
            columns - 2 * border,
            BORDER + border,
            1.0,
            blur=1.2,
            floor=0.002,
            quiet=0.3,
            # An error of up to half a step in each of two features.
            rounding=float(self._reader.factors[0]) * magnification.noise_left / math.sqrt(6.0),
            magnification=magnification,
        )

    def read(self, outputs: Mapping[str, NDArray[Any]]) -> Floats:
        """Features and their derivatives to x and y, per cell: [3, 1, rows * columns]."""
        channels = self._reader.channels(outputs)[:3]
        if border := self._border:
            channels, _ = self.grid.magnification.smoothed(channels, self._inside)
            channels = channels[:, border:-border, border:-border]
        return channels.reshape(3, 1, -1).astype(np.float32, copy=False)


class GaborCompassFeatures:
    """Decodes rectified outputs of an oriented filter bank, like optical flow."""

    def __init__(self, maps: GaborMaps, image: ImageInput) -> None:
        self._maps = maps
        rows, columns = maps.shape
        first = (image.width - columns * maps.cell) / 2 + (maps.cell - 1) / 2
        # Rectified features are often 0, whatever the noise: the median says more than a lower quantile.
        self.grid = FeatureGrid(
            rows, columns, first, maps.cell, blur=0.5 / maps.cell, floor=maps.floor, quiet=0.5
        )

    def read(self, outputs: Mapping[str, NDArray[Any]]) -> Floats:
        """Features and their derivatives to x and y, per cell: [3, filters, rows * columns]."""
        texture = self._maps.read(outputs)
        planes = np.concatenate((texture.maps[np.newaxis], texture.gradient)) * texture.weight
        return planes.reshape(3, len(texture.maps), -1)
