"""A target of one flat colour, cut out of the picture itself: its outline tells more than an average."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.confidence import ramp
from edgetpu_perception.spot_tracker.blob import Blob, hidden, solidity

LEVELS = 12.0
"""By so much each channel of a flat target may be off the middle of it."""

MARGIN = 2
"""Cells that a blob of averages may be narrower than the target on each side."""

LEAST_AREA = 24
"""Cells; of fewer the outline tells little."""

SPECKLED = 1.05
"""Noise has made holes in a shape when filling them makes it larger by more than this factor."""

SOLID = (0.975, 0.99)
"""Solidity of a shape that is no target, and from which on it is one without doubt."""

MOST_SHAPES = 4
"""So many shapes of a colour are looked at, the largest ones."""

ALIKE = 0.9
"""Shapes are as good as the best one with this share of its confidence."""


@dataclass(frozen=True)
class FlatTarget:
    """A shape of one colour; positions in cells."""

    x: float
    y: float
    x_hidden: float
    """How far off the centre may be because the border cuts the shape."""
    y_hidden: float
    area: int
    confidence: float
    """How much like a target it is, by its shape."""


def flat_target_in(image: NDArray[np.uint8], around: Blob, peak: tuple[int, int]) -> FlatTarget | None:
    """Cut out what has the colour of an RGB image [H, W, 3] at a column and row of a blob, and touches it.

    None where that is little, or full of holes.
    """
    first_row, first_column = max(around.top - MARGIN, 0), max(around.left - MARGIN, 0)
    last_row, last_column = around.top + around.height + MARGIN, around.left + around.width + MARGIN
    flat = _alike(image[first_row:last_row, first_column:last_column], _color(image, peak))
    column, row = peak[0] - first_column, peak[1] - first_row
    if not flat[row, column]:
        return None
    area, _, _, (left, top, width, height) = cv2.floodFill(flat, None, (column, row), 1, flags=4)
    if area < LEAST_AREA:
        return None
    mask = flat[top : top + height, left : left + width] & np.uint8(1)
    if cv2.countNonZero(cv2.medianBlur(mask, 3)) > SPECKLED * area:
        return None
    left, top = left + first_column, top + first_row
    return _target(Blob(mask, around.rows, around.columns, left, top, width, height, area))


def cells_like(image: NDArray[np.uint8], peak: tuple[int, int]) -> NDArray[np.uint8]:
    """255 where an RGB image [H, W, 3] has about the colour that it has at a column and row, else 0."""
    return _alike(image, _color(image, peak))


def find_flat_target(flat: NDArray[np.uint8], near: tuple[float, float] | None) -> FlatTarget | None:
    """The most target-like shape of what is not 0 in a map [H, W].

    Of several the one nearest to `near`, with its share in the confidence; None where there is none.
    """
    _, labels, stats, _ = cv2.connectedComponentsWithStats(flat, connectivity=4, ltype=cv2.CV_16U)
    targets = []
    rows, columns = flat.shape
    for label in (1 + np.argsort(stats[1:, cv2.CC_STAT_AREA])[: -MOST_SHAPES - 1 : -1]).tolist():
        left, top, width, height, area = stats[label].tolist()
        if area >= LEAST_AREA:
            mask = (labels[top : top + height, left : left + width] == label).view(np.uint8)
            targets.append(_target(Blob(mask, rows, columns, left, top, width, height, area)))
    least = ALIKE * max((target.confidence for target in targets), default=0.0)
    alike = [target for target in targets if target.confidence >= least > 0.0]
    if not alike:
        return None
    best = alike[0]
    if near is not None:
        best = min(alike, key=lambda target: (target.x - near[0]) ** 2 + (target.y - near[1]) ** 2)
    share = best.area / sum(target.area for target in alike)
    return replace(best, confidence=share * best.confidence)


def _color(image: NDArray[np.uint8], peak: tuple[int, int]) -> Sequence[float]:
    """Mean of the 3x3 cells around a column and row."""
    column, row = peak
    mean: Sequence[float] = cv2.mean(image[max(row - 1, 0) : row + 2, max(column - 1, 0) : column + 2])
    return mean[:3]


def _alike(image: NDArray[np.uint8], color: Sequence[float]) -> NDArray[np.uint8]:
    """255 where an image [H, W, 3] has about a colour, else 0."""
    lowest, highest = [level - LEVELS for level in color], [level + LEVELS for level in color]
    alike: NDArray[np.uint8] = cv2.inRange(image, tuple(lowest), tuple(highest))
    return alike


def _target(blob: Blob) -> FlatTarget:
    outline = cv2.moments(blob.mask)
    x, y = blob.left + outline["m10"] / blob.area, blob.top + outline["m01"] / blob.area
    confidence = blob.compactness * ramp(solidity(blob, outline), *SOLID)
    return FlatTarget(x, y, *hidden(x, y, blob), blob.area, confidence)
