"""Decoding of a model's output for optical flow: the suite's own features, and Gabor energy maps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_perception.algorithm import ImageInput
from edgetpu_perception.graphs.flow_and_compass_features import BORDER, SCALE, FeatureReader
from edgetpu_perception.optical_flow.image_noise import ImageNoise
from edgetpu_perception.optical_flow.magnification import NONE, Magnification
from edgetpu_perception.optical_flow.normal_equations import NEIGHBOURHOOD_CELLS, Floats
from edgetpu_perception.optical_flow.shift_registration import MIN_NEIGHBOURHOODS, Registration, Texture


class FlowFeatures(Protocol):
    """Decodes the outputs of one kind of model. Sizes are in cells, the px of the model's output."""

    search: Registration
    cell: float
    """Px of the model's input per cell."""
    independent: float
    """Share of independent features, less than 1 as neighbours and channels overlap."""
    floor: float
    """Standard deviation of a shift between noise-free frames that are not alike, cells."""

    def read(self, outputs: Mapping[str, NDArray[Any]]) -> Texture:
        """Decode the features of one frame from the model's outputs by name."""
        ...


def flow_features(
    image: ImageInput, outputs: Sequence[TensorSpec], magnification: Magnification = NONE
) -> FlowFeatures:
    """Recognise a model by the shape of its output.

    `magnification`: that of the images; maps of Gabor models are never averaged. Raises
    ModelUnsupportedError if the model gives no features.
    """
    if len(outputs) == 1 and len(outputs[0].shape) == 4 and outputs[0].dtype == np.uint8:
        _, rows, columns, channels = outputs[0].shape
        pool = image.width // columns
        whole = (rows * pool, columns * pool) == (image.height, image.width)
        if whole and channels > 1 and min(rows, columns) >= _MIN_CELLS:
            return GaborMaps(outputs[0], pool)
    return BandPass(image, outputs, magnification)


class BandPass:
    """Decodes graphs.flow_and_compass_features: one map with its exact derivatives.

    Features of an enlarged image are averaged, see `magnification`.
    """

    cell = 1.0
    floor = 0.002

    def __init__(
        self, image: ImageInput, outputs: Sequence[TensorSpec], magnification: Magnification = NONE
    ) -> None:
        self._reader = FeatureReader.of(image.height, image.width, outputs)
        self._magnification = magnification
        self.independent = INDEPENDENT * magnification.independent
        rounding = SCALE * magnification.noise_left
        _, rows, columns, _ = outputs[0].shape
        # Half of the image, so that a shift beyond the reported range is recognised as one.
        reach_x, reach_y = min(image.width // 2, columns - 1), min(image.height // 2, rows - 1)
        self.search = Registration(
            rows,
            columns,
            reach_x,
            reach_y,
            noise=rounding / 2,
            border=BORDER,
            block=round(BLOCK_CELLS / math.sqrt(magnification.independent)),
            roughness=magnification.roughness,
            image_noise=ImageNoise(rows, columns, magnification.noise_kernel, rounding),
            neighbourhood=_neighbourhood(rows, columns, magnification),
        )

    def read(self, outputs: Mapping[str, NDArray[Any]]) -> Texture:
        """Decode the features of one frame from the model's outputs by name."""
        features = self._reader.read(outputs)
        channels, inside = self._magnification.smoothed(features.channels[:3], features.inside)
        return self.search.describe(channels[:1], channels[1:, np.newaxis], inside)


INDEPENDENT = 0.1
"""BandPass.independent of an image that is not enlarged. Derived: see FlowFeatures."""

BLOCK_CELLS = 12
"""Distance at which errors of its features are independent, cells. Derived: the extent of a feature."""

NEIGHBOURHOOD_PX = 4.5
"""Least side of a neighbourhood whose motion is compared with that of others, px of the image.

Some of fewer px follow any motion by chance, and if only these count, the sigmas are too small. Rows: flow,
images of 20x20 to 40x40 px, inside one sigma.
"""


class GaborMaps:
    """Decodes rectified outputs of an oriented filter bank, uint8 [1, rows, columns, filters], pooled or not.

    The border is left out: the convolution pads the image with black, which does not move. The mean of each
    map is removed, as the filters pass brightness. Clipped values have no weight, and maps that are mostly
    clipped are ignored. The square root makes weak and strong responses more alike.
    """

    def __init__(self, output: TensorSpec, pool: int) -> None:
        self._output = output
        self.cell = float(pool)
        self.independent = min(0.02 * pool, 0.1)
        # Aliasing: the maps are not smooth enough for their cells.
        self.floor = 0.01 * pool
        self._border = math.ceil(_GABOR_RADIUS_PX / pool)
        self._most = np.iinfo(output.dtype).max
        rows, columns = (extent - 2 * self._border - 2 for extent in output.shape[1:3])
        self.shape = rows, columns
        block = max(12 // pool, 1)
        self.search = Registration(
            rows,
            columns,
            columns // 2,
            rows // 2,
            noise=0.1,
            border=self._border + 1,
            block=block,
            remove_mean=True,
        )

    def read(self, outputs: Mapping[str, NDArray[Any]]) -> Texture:
        """Decode the features of one frame from the model's outputs by name."""
        border = self._border
        steps = outputs[self._output.name][0, border:-border, border:-border]
        full = steps == self._most
        useful = full.mean(axis=(0, 1)) < _MAX_CLIPPED_SHARE
        roots = np.sqrt(np.maximum(steps - np.float32(self._output.zero_point), 0.0)) * useful
        maps = _filter(roots, _SMOOTHING_TAPS, _SMOOTHING_TAPS)
        maps -= maps.mean(axis=(1, 2), keepdims=True)
        gradient = np.stack(
            [
                _filter(roots, _DERIVATIVE_TAPS, _SMOOTHING_TAPS),
                _filter(roots, _SMOOTHING_TAPS, _DERIVATIVE_TAPS),
            ]
        )
        weight = (~full & useful).astype(np.float32)[1:-1, 1:-1].transpose(2, 0, 1)
        return self.search.describe(maps, gradient, weight)


def _neighbourhood(rows: int, columns: int, magnification: Magnification) -> int:
    """Side of a neighbourhood, cells: larger in an enlarged image, while there are enough of them."""
    side = round(NEIGHBOURHOOD_PX * math.sqrt(magnification.cells_per_px))
    return max(min(side, min(rows, columns) // MIN_NEIGHBOURHOODS), NEIGHBOURHOOD_CELLS)


_MIN_CELLS = 12
"""Fewest rows and columns of Gabor maps.

Derived: without their border of up to 4 cells on each side 4 remain.
"""

_GABOR_RADIUS_PX = 3
"""Radius of the 7x7 filters, px. Given by the kernel size."""

_MAX_CLIPPED_SHARE = 0.5
"""Share of clipped values from which a whole map is ignored.

Rows: flow, gabor_64x64_p4: any shift to 4.
"""

_SMOOTHING_TAPS = np.array([0.229879, 0.540242, 0.229879])
"""Three taps whose derivative is _DERIVATIVE_TAPS (Farid and Simoncelli, 2004, table for 3 taps).

Given by that publication.
"""

_DERIVATIVE_TAPS = np.array([-0.425287, 0.0, 0.425287])
"""Derivative that matches _SMOOTHING_TAPS. Given by the same publication."""


def _filter(maps: Floats, across: Floats, down: Floats) -> Floats:
    """Filter [rows, columns, channels] along x and y; drop the border: [channels, rows - 2, columns - 2]."""
    filtered = cv2.sepFilter2D(maps, -1, across, down)[1:-1, 1:-1]
    return np.ascontiguousarray(filtered.transpose(2, 0, 1))
