"""A target of one flat colour, cut out of the RGB image, whose outline is more precise than the map."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.confidence_ramp import ramp
from edgetpu_perception.spot_tracker.blob import Blob, cut_off_error, moments, solidity
from edgetpu_perception.spot_tracker.blob_measurement import HARD_EDGE_SIGMA
from edgetpu_perception.spot_tracker.spot_decoder import Spot

COLOR_TOLERANCE = 12.0
"""Largest difference in grey levels, for each channel, between a flat target and the colour at its peak.

Rows: spot, colours, half contrast, rmse.
"""

SHADE_TOLERANCE = 24.0
"""The same for cells of nearly that colour. Derived: twice as much, as brightness falls with the square of
the distance from a highlight, so that the next cell has not fallen as much again."""

MAX_SHADED_OUTLINE_SHARE = 0.5
"""A shape with more cells of nearly its colour next to it is the highlight of a shaded object, which ends
where the tolerance does. Derived: half. Rows: spot, white ball of real colour, input of 128 px, wrong."""

BLOB_MARGIN_CELLS = 2
"""Cells added to a blob's bounding box on each side, as averaging may narrow the target.

Derived: 1 for the 3x3 average and 1 for the threshold.
"""

MIN_AREA_CELLS = 24
"""Smallest area of a flat target, cells; the outline of smaller ones says little.

Rows: spot, colours, full contrast, right or unsure.
"""

MAX_FILLING_FACTOR = 1.05
"""A shape whose area grows by more than this factor when its holes are filled is speckled by noise.

Rows: spot, colours, half contrast, rmse.
"""

TARGET_SOLIDITY = (0.975, 0.99)
"""Solidity up to which a shape is no target, and from which it has full confidence.

Derived: a rectangle has 3 / pi = 0.955, a disc has 1.
"""

MAX_SHAPES = 4
"""Number of shapes of one colour, the largest ones, that are compared.

Limits the time. Rows: spot, colours, full contrast, within 0.3.
"""

MIN_RIVAL_CONFIDENCE_SHARE = 0.9
"""A shape competes with the best one if it has at least this share of its confidence.

Rows: spot, colours, full contrast, right or unsure.
"""

MIN_FLAT_AREA_SHARE = 0.8
"""Smallest area of a flat target as a share of its blob; less is the highlight of something round.

Rows: spot, colours, half contrast, rmse.
"""

WHOLE_FLAT_AREA_SHARE = 0.95
"""Area share from which the flat target is the whole blob and is used whatever its confidence.

Rows: spot, colours, full contrast, within 0.3.
"""


@dataclass(frozen=True)
class FlatTarget:
    """A shape of one colour; positions in cells."""

    x: float
    y: float
    x_cut_off: float
    """Error of the centre in cells because the border cuts off part of the shape."""
    y_cut_off: float
    blob: Blob
    confidence: float
    """0..1, by its shape."""

    @property
    def area(self) -> int:
        """Cells."""
        return self.blob.area


def flat_target_in(image: NDArray[np.uint8], around: Blob, peak: tuple[int, int]) -> FlatTarget | None:
    """Cut out the cells of one colour around a peak (column, row) of a blob in an RGB image [H, W, 3].

    None if they are too few or full of holes.
    """
    first_row, first_column = max(around.top - BLOB_MARGIN_CELLS, 0), max(around.left - BLOB_MARGIN_CELLS, 0)
    last_row, last_column = (
        around.top + around.height + BLOB_MARGIN_CELLS,
        around.left + around.width + BLOB_MARGIN_CELLS,
    )
    flat = _within_tolerance(image[first_row:last_row, first_column:last_column], _color(image, peak))
    column, row = peak[0] - first_column, peak[1] - first_row
    if not flat[row, column]:
        return None
    area, _, _, (left, top, width, height) = cv2.floodFill(flat, None, (column, row), 1, flags=4)
    if area < MIN_AREA_CELLS:
        return None
    mask = flat[top : top + height, left : left + width] & np.uint8(1)
    if cv2.countNonZero(cv2.medianBlur(mask, 3)) > MAX_FILLING_FACTOR * area:
        return None
    left, top = left + first_column, top + first_row
    return _target(Blob(mask, around.rows, around.columns, left, top, width, height, area))


def cells_of_color(
    image: NDArray[np.uint8], peak: tuple[int, int], tolerance: float = COLOR_TOLERANCE
) -> NDArray[np.uint8]:
    """255 where an RGB image [H, W, 3] has about the colour of its cell (column, row), else 0."""
    return _within_tolerance(image, _color(image, peak), tolerance)


def find_flat_target(
    flat: NDArray[np.uint8], shade: NDArray[np.uint8], near: tuple[float, float] | None
) -> FlatTarget | None:
    """Find the most target-like shape among the non-zero cells of a map [H, W].

    `shade`: non-zero where the colour is nearly the same, [H, W]. Of several similar shapes, returns the one
    nearest to `near`, with its confidence times its share of their area. None if there is no such shape.
    """
    _, labels, stats, _ = cv2.connectedComponentsWithStats(flat, connectivity=4, ltype=cv2.CV_16U)
    targets = []
    rows, columns = flat.shape
    for label in (1 + np.argsort(stats[1:, cv2.CC_STAT_AREA])[: -MAX_SHAPES - 1 : -1]).tolist():
        left, top, width, height, area = stats[label].tolist()
        if area >= MIN_AREA_CELLS:
            mask = (labels[top : top + height, left : left + width] == label).view(np.uint8)
            blob = Blob(mask, rows, columns, left, top, width, height, area)
            if not _is_highlight(blob, shade):
                targets.append(_target(blob))
    least = MIN_RIVAL_CONFIDENCE_SHARE * max((target.confidence for target in targets), default=0.0)
    alike = [target for target in targets if target.confidence >= least > 0.0]
    if not alike:
        return None
    best = alike[0]
    if near is not None:
        best = min(alike, key=lambda target: (target.x - near[0]) ** 2 + (target.y - near[1]) ** 2)
    share = best.area / sum(target.area for target in alike)
    return replace(best, confidence=share * best.confidence)


def refined_by_outline(spot: Spot, blob: Blob, evidence: NDArray[Any], image: NDArray[np.uint8]) -> Spot:
    """The spot placed by the outline of its flat colour, if that colour covers most of the blob.

    `evidence`: [H, W]; `image`: RGB, uint8 [H, W, 3].
    """
    column, row = cv2.minMaxLoc(evidence[blob.window], mask=blob.mask)[3]
    target = flat_target_in(image, blob, (blob.left + column, blob.top + row))
    if target is None or target.area < MIN_FLAT_AREA_SHARE * blob.area:
        return spot
    if target.confidence < spot.confidence and target.area < WHOLE_FLAT_AREA_SHARE * blob.area:
        return spot
    return flat_spot(target, spot.confidence)


def flat_spot(target: FlatTarget, confidence: float) -> Spot:
    """The target as a spot, with the sigmas of a shape with hard edges."""
    edge = HARD_EDGE_SIGMA**2 / math.sqrt(target.area / math.pi)
    return Spot(
        target.x,
        target.y,
        math.sqrt(edge + target.x_cut_off**2),
        math.sqrt(edge + target.y_cut_off**2),
        confidence,
    )


def _color(image: NDArray[np.uint8], peak: tuple[int, int]) -> Sequence[float]:
    """Mean colour of the 3x3 cells around a peak (column, row)."""
    column, row = peak
    mean: Sequence[float] = cv2.mean(image[max(row - 1, 0) : row + 2, max(column - 1, 0) : column + 2])
    return mean[:3]


def _within_tolerance(
    image: NDArray[np.uint8], color: Sequence[float], tolerance: float = COLOR_TOLERANCE
) -> NDArray[np.uint8]:
    """255 where an image [H, W, 3] has about this colour, else 0: uint8 [H, W]."""
    lowest, highest = [level - tolerance for level in color], [level + tolerance for level in color]
    alike: NDArray[np.uint8] = cv2.inRange(image, tuple(lowest), tuple(highest))
    return alike


def _is_highlight(blob: Blob, shade: NDArray[np.uint8]) -> bool:
    """Whether the colour changes so slowly across the outline of a shape that the outline is not real."""
    top, left = max(blob.top - 1, 0), max(blob.left - 1, 0)
    around = shade[top : blob.top + blob.height + 1, left : blob.left + blob.width + 1]
    outline = np.zeros(around.shape, np.uint8)
    row, column = blob.top - top, blob.left - left
    outline[row : row + blob.height, column : column + blob.width] = blob.mask
    outline = cv2.dilate(outline, np.ones((3, 3), np.uint8)) - outline
    shaded = cv2.countNonZero(cv2.bitwise_and(outline, around))
    return shaded > MAX_SHADED_OUTLINE_SHARE * cv2.countNonZero(outline)


def _target(blob: Blob) -> FlatTarget:
    (outline,) = moments(blob.mask[np.newaxis])
    x, y = blob.left + outline.x, blob.top + outline.y
    confidence = blob.compactness * ramp(solidity(blob, outline), *TARGET_SOLIDITY)
    return FlatTarget(x, y, *cut_off_error(x, y, blob), blob, confidence)
