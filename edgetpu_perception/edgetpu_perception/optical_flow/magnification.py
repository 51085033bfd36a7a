"""Features of images that have fewer px than the model's input and are enlarged to it.

Features respond to waves of 3 cells and more. If a px of the image covers several cells, the shorter of these
waves are not in the scene: they come from aliasing and interpolation, and stay with the px while the scene
moves. Averaging the features over a px twice removes most of them; as features are linear, this is the same
as enlarging the image by cubic B-splines. The noise of one px then spreads over the features of many cells.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.graphs.flow_and_compass_features import ROUGHNESS, feature_kernel

LARGEST_CELLS = 1.5
"""Cells per px along an axis up to which features are not averaged.

Derived: two px then show a wave of 3 cells, the shortest one in the features.
"""

AVERAGES = 2
"""How often features are averaged over a px.

Derived: interpolation amounts to two averages, and four make a cubic B-spline, which hardly shows the px.
"""

ALIASED_FROM = 2.0
"""Cells per px above which features contain waves that the px do not show.

Derived: two px then show a wave of 4 cells, and features respond little to shorter ones.
"""

ALIASING = 0.011
"""Standard deviation in px of a shift due to such waves, for each cell per px above ALIASED_FROM.

They pull every part of the picture alike towards whole px, so that residuals do not show it. Rows: flow,
images of 32x32 to 48x48 px, input of 128 px, inside one sigma.
"""


class Magnification(NamedTuple):
    """Cells per px of the image along x and y; 1 along an axis along which features are not averaged."""

    x: float = 1.0
    y: float = 1.0

    @classmethod
    def of(
        cls, width: int, height: int, columns: int, rows: int, largest: float = LARGEST_CELLS
    ) -> Magnification:
        """The magnification of an image of width x height px to an input of columns x rows cells.

        `largest`: cells per px up to which features are not averaged.
        """
        x, y = columns / width, rows / height
        return cls(x if x > largest else 1.0, y if y > largest else 1.0)

    @property
    def cells_per_px(self) -> float:
        """Cells that a px covers."""
        return self.x * self.y

    @property
    def noise_left(self) -> float:
        """Share of the standard deviation of independent errors of features that is left after averaging."""
        return math.sqrt(
            float(np.square(self._averages(self.x)).sum() * np.square(self._averages(self.y)).sum())
        )

    @property
    def noise_kernel(self) -> NDArray[np.float64]:
        """Weights of px in a feature, for ImageNoise, as if the image had as many px as the input."""
        kernel = self._enlarged(feature_kernel())
        reach = max(kernel.shape) // 2
        reach += reach % 2
        return np.pad(kernel, [(reach - size // 2,) * 2 for size in kernel.shape])

    @property
    def aliasing(self) -> tuple[float, float]:
        """Standard deviation of a shift along x and y due to waves that the px do not show, cells."""
        x, y = (ALIASING * cells * max(cells - ALIASED_FROM, 0.0) for cells in self)
        return x, y

    @property
    def blur(self) -> tuple[float, float]:
        """Variance of the blur by enlargement and averages along x and y, cells^2."""
        # A box has a twelfth of its squared width: the px instead of a cell, the interpolation, the averages.
        x, y = (((3 + AVERAGES) * cells**2 - 1) / 12 if cells > 1 else 0.0 for cells in self)
        return x, y

    @property
    def reach(self) -> int:
        """Distance in cells from the border of a map from which averages have only features of the map."""
        return max(len(self._averages(cells)) // 2 for cells in self) if self != NONE else 0

    @property
    def roughness(self) -> float:
        """The `roughness` of Registration, as the geometric mean of both axes."""
        if self == NONE:
            return ROUGHNESS
        power, along_x, along_y = (
            float(np.square(self._enlarged(feature_kernel(*order))).sum())
            for order in ((0, 0), (1, 0), (0, 1))
        )
        return math.sqrt(along_x * along_y) / power

    @property
    def independent(self) -> float:
        """Number of independent features over that of an image that is not enlarged."""
        return _independent(self._enlarged(feature_kernel())) / _independent(feature_kernel())

    def smoothed(
        self, channels: NDArray[np.float32], inside: NDArray[np.bool_]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Averages of features, [channels, rows, columns], and their weights, [rows, columns].

        `inside`: usable features, [rows, columns]. A weight is 1 if the average has only such, else 0.
        """
        weight = inside.astype(np.float32)
        if self == NONE:
            return channels, weight
        across, down = self._averages(self.x), self._averages(self.y)
        smooth = np.stack([cv2.sepFilter2D(plane, -1, across, down) for plane in channels])
        around = np.ones((len(down), len(across)), np.uint8)
        return smooth, cv2.erode(weight, around, borderType=cv2.BORDER_CONSTANT, borderValue=0)

    def _averages(self, cells: float) -> NDArray[np.float64]:
        return _repeated(_px(cells), AVERAGES)

    def _enlarged(self, kernel: NDArray[np.float64]) -> NDArray[np.float64]:
        """Turn the kernel of a feature into that of an averaged feature of the enlarged image."""
        if self == NONE:
            return kernel
        # Linear interpolation is an average over a px, twice.
        across, down = (_repeated(_px(cells), 2 + AVERAGES) for cells in self)
        wide = np.apply_along_axis(np.convolve, 1, kernel, across)
        return np.asarray(np.apply_along_axis(np.convolve, 0, wide, down))


NONE = Magnification()
"""Magnification of an image that is not enlarged."""


def _px(cells: float) -> NDArray[np.float64]:
    """Weights of an average over a px that is `cells` cells wide, around the middle of a cell."""
    reach = math.ceil((cells - 1) / 2)
    at = np.arange(-reach, reach + 1)
    covered = np.minimum(at + 0.5, cells / 2) - np.maximum(at - 0.5, -cells / 2)
    weights: NDArray[np.float64] = covered / cells
    return weights


def _repeated(weights: NDArray[np.float64], times: int) -> NDArray[np.float64]:
    """Weights of an average that is taken several times."""
    return functools.reduce(np.convolve, [weights] * times)


def _independent(kernel: NDArray[np.float64]) -> float:
    """Share of independent features if this kernel makes them of white noise."""
    power = np.square(np.abs(np.fft.fft2(kernel, [2 * size for size in kernel.shape])))
    return float(np.mean(power) ** 2 / np.mean(np.square(power)))
