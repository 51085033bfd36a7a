"""Finds the shifts that a repeating texture, such as tiles or brick, does not distinguish."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.optical_flow.shift_registration import ShiftScores

MAX_CORRELATION = 0.95
"""Correlation above which two shifts explain the frames equally well.

Derived: a peak of waves of 4 cells is interpolated to 0.02 along each axis.
"""

PEAK_RADIUS_CELLS = 2
"""Distance from a peak up to which shifts belong to it. Derived: the features vary over 3 px and more."""

_RADIUS = 3
"""Radius of the interpolation, cells. Derived: waves of 3 cells and more need it."""

_OFFSETS = np.linspace(-0.5, 0.5, 9)
"""Fractions of a cell at which a peak is interpolated. Derived: between two of them, a peak of waves of 3
cells comes out 0.01 too low."""


def _lanczos() -> NDArray[np.float32]:
    """Interpolation from the cells around a peak to _OFFSETS along an axis, [9, 7]."""
    away = _OFFSETS[:, np.newaxis] - np.arange(-_RADIUS, _RADIUS + 1)
    kernel = np.sinc(away) * np.sinc(away / (_RADIUS + 1))
    taps: NDArray[np.float32] = (kernel / kernel.sum(axis=1, keepdims=True)).astype(np.float32)
    return taps


_LANCZOS = _lanczos()
_NEIGHBOURS = np.ones((3, 3), np.uint8)


ShiftIndex = tuple[int, int]
"""Row and column of a whole shift in ShiftScores."""


def aliases(
    scores: ShiftScores, best: ShiftIndex, independent: float, least: float
) -> dict[ShiftIndex, float]:
    """Peaks that explain the same parts of the picture as the best one, and the lead of the best over each.

    The correlations at the motions of two different parts of the picture add up to at most 1, those at the
    shifts of a repeating texture to more. The lead compares evidence for overlaps of the same size: of two
    shifts that explain a repeating texture equally well, the smaller one has more evidence only because its
    overlap is larger.

    `independent`: see FlowFeatures. `least`: least evidence of a peak that is not due to chance.
    """
    likely = scores.evidence >= np.float32(least / independent)
    row, column = (slice(max(at - PEAK_RADIUS_CELLS, 0), at + PEAK_RADIUS_CELLS + 1) for at in best)
    likely[row, column] = False
    if not likely.any():
        return {}
    likely &= scores.evidence >= cv2.dilate(scores.evidence, _NEIGHBOURS)
    found = np.argwhere(likely)
    if not len(found):
        return {}
    indices = np.vstack((best, found))
    heights = _heights(scores.correlation, indices)
    at = tuple(indices.T)
    information = -np.log1p(-np.square(np.minimum(heights, MAX_CORRELATION)))
    # The number of features in the overlap.
    overlap = scores.evidence[at] / -np.log1p(-np.square(scores.correlation[at]))
    leads = independent * np.minimum(overlap, overlap[0]) * (information[0] - information)
    same = np.flatnonzero(heights[0] + heights > 1.0)
    return {(int(indices[k, 0]), int(indices[k, 1])): float(leads[k]) for k in same if k > 0}


def _heights(correlation: NDArray[np.float32], indices: NDArray[np.int64]) -> NDArray[np.float32]:
    """Correlation at the tops of peaks at indices [n, 2], between whole shifts: [n]."""
    around = np.arange(-_RADIUS, _RADIUS + 1)
    rows, columns = (
        np.clip(index[:, np.newaxis] + around, 0, size - 1)
        for index, size in zip(indices.T, correlation.shape, strict=True)
    )
    patches = correlation[rows[:, :, np.newaxis], columns[:, np.newaxis]]
    heights: NDArray[np.float32] = (_LANCZOS @ patches @ _LANCZOS.T).max(axis=(1, 2))
    return heights
