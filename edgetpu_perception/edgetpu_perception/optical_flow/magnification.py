"""Features of an image of fewer px than the model's input, to which it is enlarged.

Features show waves of 3 cells and more. Where a px of the image has several cells, the shorter ones of these
waves are not in the scene: aliasing and the interpolation make them, and they stay where the px are while the
scene moves. Features averaged over a px, twice, have little of them; as features are linear, this is the same
as to enlarge the image by cubic B-splines. The noise of one px is then in the features of many cells.
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
"""Cells of a px, along an axis, up to which features are taken as they are.

Derived: two px show a wave of 3 cells, the shortest one of the features.
"""

AVERAGES = 2
"""Number of averages over a px.

Derived: the interpolation has two, and four make a cubic B-spline, whose traces of the px are small.
"""

ALIASED_FROM = 2.0
"""Cells of a px from which on waves that no px shows are in features.

Derived: two px show a wave of 4 cells, and features have little of shorter ones.
"""

ALIASING = 0.011
"""Standard deviation, px, of a shift by such waves for each further cell of a px.

They move every part of the picture alike, towards whole px, so that residuals do not show them. Rows: flow,
images of 32x32 to 48x48 px, input of 128 px, inside one sigma.
"""


class Magnification(NamedTuple):
    """Cells of each px of the image; 1 along an axis whose features are taken as they are."""

    x: float = 1.0
    y: float = 1.0

    @classmethod
    def of(
        cls, width: int, height: int, columns: int, rows: int, largest: float = LARGEST_CELLS
    ) -> Magnification:
        """That of an image of width x height px as an input of so many columns and rows.

        `largest`: cells of a px up to which features are taken as they are.
        """
        x, y = columns / width, rows / height
        return cls(x if x > largest else 1.0, y if y > largest else 1.0)

    @property
    def cells_per_px(self) -> float:
        """Cells that a px covers."""
        return self.x * self.y

    @property
    def noise_left(self) -> float:
        """Standard deviation of independent errors of features after the averages, over that before."""
        return math.sqrt(
            float(np.square(self._averages(self.x)).sum() * np.square(self._averages(self.y)).sum())
        )

    @property
    def noise_kernel(self) -> NDArray[np.float64]:
        """Weights of px in a feature, as ImageNoise takes them, if the image had as many px as the input."""
        kernel = self._enlarged(feature_kernel())
        reach = max(kernel.shape) // 2
        reach += reach % 2
        return np.pad(kernel, [(reach - size // 2,) * 2 for size in kernel.shape])

    @property
    def aliasing(self) -> tuple[float, float]:
        """Standard deviation of a shift along x and y by waves that no px shows, cells."""
        x, y = (ALIASING * cells * max(cells - ALIASED_FROM, 0.0) for cells in self)
        return x, y

    @property
    def blur(self) -> tuple[float, float]:
        """Variance of what the enlargement and the averages blur along x and y, cells^2."""
        # Of the px instead of a cell, the interpolation and the averages, each is a twelfth of a square.
        x, y = (((3 + AVERAGES) * cells**2 - 1) / 12 if cells > 1 else 0.0 for cells in self)
        return x, y

    @property
    def reach(self) -> int:
        """Cells from which on features at the border of a map have others in their average, not beyond it."""
        return max(len(self._averages(cells)) // 2 for cells in self) if self != NONE else 0

    @property
    def roughness(self) -> float:
        """See Registration: the geometric mean of both axes."""
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

        `inside`: usable features, [rows, columns]. A weight is 1 if no other is in the average, else 0.
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
        """The kernel of a feature of the input as that of an average of features of the enlarged image."""
        if self == NONE:
            return kernel
        # Linear interpolation is an average over a px, twice.
        across, down = (_repeated(_px(cells), 2 + AVERAGES) for cells in self)
        wide = np.apply_along_axis(np.convolve, 1, kernel, across)
        return np.asarray(np.apply_along_axis(np.convolve, 0, wide, down))


NONE = Magnification()
"""That of an image which is not enlarged."""


def _px(cells: float) -> NDArray[np.float64]:
    """Weights of an average over a px of so many cells, around the middle of one."""
    reach = math.ceil((cells - 1) / 2)
    at = np.arange(-reach, reach + 1)
    covered = np.minimum(at + 0.5, cells / 2) - np.maximum(at - 0.5, -cells / 2)
    weights: NDArray[np.float64] = covered / cells
    return weights


def _repeated(weights: NDArray[np.float64], times: int) -> NDArray[np.float64]:
    """The weights of a weighted average that is taken several times."""
    return functools.reduce(np.convolve, [weights] * times)


def _independent(kernel: NDArray[np.float64]) -> float:
    """Independent features as a share of all if each is made of white noise by this kernel."""
    power = np.square(np.abs(np.fft.fft2(kernel, [2 * size for size in kernel.shape])))
    return float(np.mean(power) ** 2 / np.mean(np.square(power)))
