"""Connected cells of an evidence map (blobs): search, shape, and how much the image border cuts off."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.confidence_ramp import ramp

MIN_RIVAL_WEIGHT_SHARE = 0.3
"""A blob competes with the heaviest one if it has at least this share of its weight.

Rows: spot, two equal spots. Uncritical.
"""

MAX_RIVALS = 3
"""If more blobs than this compete, they are parts of the scene, not spots. Uncritical."""

MAX_SHARE_WITH_RIVALS = 0.495
"""Upper limit of a blob's share of the weight if others compete.

Derived: just below SUFFICIENT_CONFIDENCE (disc_around_spot.py), so that one of several equal spots never
counts as certain.
"""

OUTLINE_GROWTH_CELLS = 0.9
"""How far, in cells, averaging over 3x3 cells moves the outline of a spot outwards.

Rows: spot, discs that touch the edge, inside one sigma.
"""

MIN_FILLED_SHARE = 0.5
"""Least share of the cells within the outline of an object that are of its colour. Derived: half."""

_IN_BLOB = np.uint8(2)
"""Value with which cv2.floodFill marks the blob in a map of 0 and 1. Given by find_blob."""

_ONE_BIT = np.uint8(1)
"""Shift from _IN_BLOB to 1. Given by _IN_BLOB."""


class Blob(NamedTuple):
    """Touching cells of a map that are above a threshold. Sizes and positions are in cells."""

    mask: NDArray[np.uint8]
    """1 inside, 0 outside; [height, width]."""
    rows: int
    """Size of the map."""
    columns: int
    left: int
    top: int
    width: int
    height: int
    area: int

    @property
    def window(self) -> tuple[slice, slice]:
        """Rows and columns of its bounding box."""
        return slice(self.top, self.top + self.height), slice(self.left, self.left + self.width)

    @property
    def touches_border(self) -> tuple[bool, bool]:
        """Whether it touches the left or right border, and the upper or lower one."""
        return (
            self.left == 0 or self.left + self.width == self.columns,
            self.top == 0 or self.top + self.height == self.rows,
        )

    @property
    def compactness(self) -> float:
        """0 if it spans the map, as a gradient or a sky does; 1 if it leaves a fifth of it free each way."""
        return ramp(-self.width / self.columns, -0.95, -0.8) * ramp(-self.height / self.rows, -0.95, -0.8)


class Moments(NamedTuple):
    """Moments of values over the cells of a blob's bounding box, whose first cell is at (0, 0)."""

    total: float
    x: float
    """The centroid."""
    y: float
    xx: float
    """The sum of the squared distances from it along x, along y, and of their products."""
    yy: float
    xy: float


def moments(values: NDArray[Any]) -> list[Moments]:
    """The moments of several maps, [n, height, width], none of which is 0 all over.

    cv2.moments computes more, and takes longer for the few cells of a blob.
    """
    _, rows, columns = values.shape
    sums = (_powers(rows).T @ values @ _powers(columns)).tolist()  # [map][power of y][power of x]
    found = []
    for (total, x_sum, xx_sum), (y_sum, xy_sum, _), (yy_sum, _, _) in sums:
        x, y = x_sum / total, y_sum / total
        found.append(Moments(total, x, y, xx_sum - x * x_sum, yy_sum - y * y_sum, xy_sum - x * y_sum))
    return found


def _powers(size: int) -> NDArray[np.float64]:
    """1, n and n**2 of each cell n, [size, 3]."""
    return _power_table((size - 1).bit_length())[:size]


@functools.lru_cache(maxsize=16)
def _power_table(bits: int) -> NDArray[np.float64]:
    """The same for 2**bits cells: blobs come in every size."""
    return np.vander(np.arange(float(1 << bits)), 3, increasing=True)


class FoundBlob(NamedTuple):
    """A blob, and its rivals in the map."""

    blob: Blob
    marked: NDArray[np.uint8]
    """_IN_BLOB inside of it and its rivals, other values outside; [H, W]."""
    share: float
    """Its share of the weight of all blobs."""
    rival: tuple[float, float] | None
    """The centroid of the nearest rival."""

    def outside(self) -> NDArray[np.uint8]:
        """A map that is non-zero outside of the blob and its rivals, [H, W]."""
        return self.marked ^ _IN_BLOB


def find_blob(
    evidence: NDArray[Any],
    threshold: float,
    peak: tuple[int, int],
    rival: float,
    near: tuple[float, float] | None,
) -> FoundBlob:
    """Find the heaviest blob above the threshold, or of several similar ones the nearest to `near`.

    `evidence`: [H, W], grey levels. `peak`: column and row of its largest value. Only blobs with a cell of at
    least `rival` grey levels count. The weight of a blob is the sum of what exceeds the threshold.
    """
    above = _above(evidence, threshold)
    count = cv2.countNonZero(above)
    area, _, _, (left, top, width, height) = cv2.floodFill(above, None, peak, 2, flags=8)
    rows, columns = above.shape
    # The same call of OpenCV as before: a shift by NumPy takes twice as long.
    mask = _above(above[top : top + height, left : left + width], 1)
    blob = Blob(mask, rows, columns, left, top, width, height, area)
    if area == count:
        return FoundBlob(blob, above, 1.0, None)
    weight = area * (cv2.mean(evidence, mask=above & _IN_BLOB)[0] - threshold)
    total = count * (cv2.mean(evidence, mask=above)[0] - threshold)
    if total - weight < MIN_RIVAL_WEIGHT_SHARE * weight:
        return FoundBlob(blob, above, weight / total, None)
    return _choose(evidence, threshold, rival, near)


def _above(evidence: NDArray[Any], threshold: float) -> NDArray[np.uint8]:
    """1 where the map is above the threshold, else 0: uint8 [H, W]."""
    if evidence.dtype == np.uint8:
        above: NDArray[np.uint8] = cv2.threshold(evidence, threshold, 1, cv2.THRESH_BINARY)[1]
        return above
    return (evidence > threshold).view(np.uint8)


def _choose(
    evidence: NDArray[Any], threshold: float, rival: float, near: tuple[float, float] | None
) -> FoundBlob:
    """`find_blob` by comparing all blobs, which takes longer; up to MAX_RIVALS that compete are marked."""
    above = _above(evidence, threshold)
    count, labels, stats, centroids = cv2.connectedComponentsWithStats(above, connectivity=8)
    excess = np.where(above, evidence - np.float32(threshold), np.float32(0))
    weights = np.bincount(labels.ravel(), excess.ravel(), count)
    bright = np.zeros(count, bool)
    bright[labels[evidence >= rival]] = True
    chosen = int(np.argmax(weights * bright))
    candidates = np.flatnonzero(bright & (weights >= MIN_RIVAL_WEIGHT_SHARE * weights[chosen]))
    if near is not None:
        distances = np.hypot(centroids[candidates, 0] - near[0], centroids[candidates, 1] - near[1])
        chosen = int(candidates[np.argmin(distances)])
    left, top, width, height, area = stats[chosen].tolist()
    inside = (labels == chosen).view(np.uint8)
    mask = inside[top : top + height, left : left + width]
    rows, columns = inside.shape
    blob = Blob(mask, rows, columns, left, top, width, height, area)
    share = float(weights[chosen] / weights.sum())
    if len(candidates) == 1:
        return FoundBlob(blob, inside << _ONE_BIT, share, None)
    if len(candidates) <= MAX_RIVALS:
        inside = np.isin(labels, candidates).view(np.uint8)
    others = centroids[candidates[candidates != chosen]]
    x, y = others[np.argmin(np.hypot(*(others - centroids[chosen]).T))].tolist()
    return FoundBlob(blob, inside << _ONE_BIT, min(share, MAX_SHARE_WITH_RIVALS), (x, y))


def solidity(blob: Blob, outline: Moments) -> float:
    """Area over that of an ellipse with the same moments: 1 for an ellipse, 0.95 for a rectangle.

    Scattered and hollow shapes have less. `outline`: moments of the blob's mask.
    """
    if blob.area < 4:
        return 1.0
    # Moments take cells as points. Each cell has a variance of 1/12 along both axes, without which a line of
    # cells would have no area at all.
    own = blob.area / 12.0
    spread = (outline.xx + own) * (outline.yy + own) - outline.xy**2
    # A filled ellipse has area = 4 pi sqrt(det(covariance)).
    return blob.area**2 / (4 * math.pi * math.sqrt(spread))


def without_holes(blob: Blob) -> Blob:
    """The blob with its holes, which highlights and hollows make; itself if most of it would be hole."""
    mask = blob.mask
    if min(blob.width, blob.height) < 3:
        return blob
    starts = cv2.countNonZero(mask[:, 0]) + cv2.countNonZero(cv2.subtract(mask[:, 1:], mask[:, :-1]))
    if starts == blob.height:  # every row is in one piece, as in most blobs
        return blob
    padded = cv2.copyMakeBorder(mask, 1, 1, 1, 1, cv2.BORDER_CONSTANT, value=0)
    # Touching corners connect a blob, so they do not connect what is outside of it.
    outside = cv2.floodFill(padded, None, (0, 0), 2, flags=4)[0]
    area = padded.size - outside
    if area == blob.area or area * MIN_FILLED_SHARE > blob.area:
        return blob
    filled = cv2.threshold(padded[1:-1, 1:-1], 1, 1, cv2.THRESH_BINARY_INV)[1]
    return blob._replace(mask=filled, area=area)


def cut_off_error(
    x: float, y: float, blob: Blob, growth: float = OUTLINE_GROWTH_CELLS
) -> tuple[float, float]:
    """Error in cells of the centroid along x and y because the border cuts off part of a round blob.

    `growth`: how far the outline of the blob is outside of that of the spot, cells.
    """
    x_cut, y_cut = blob.touches_border
    if not (x_cut or y_cut):
        return 0.0, 0.0
    if x_cut and y_cut:
        return blob.width / 2, blob.height / 2
    if x_cut:
        chord = cv2.countNonZero(blob.mask[:, -(blob.left > 0)])
        return _cut_off_error_along(x, blob.left, blob.width, blob.height, chord, growth), 0.0
    chord = cv2.countNonZero(blob.mask[-(blob.top > 0)])
    return 0.0, _cut_off_error_along(y, blob.top, blob.height, blob.width, chord, growth)


def _cut_off_error_along(
    center: float, first: int, span: int, cross_span: int, chord: int, growth: float
) -> float:
    """`cut_off_error` along an axis. `first`, `span`: extent along it; `chord`: cells at the border."""
    half = cross_span / 2
    # A chord and the visible part of the circle determine the circle, even if its centre is outside.
    radius = half if span >= half else (span**2 + half**2) / (2 * span)
    middle = first + span - 0.5 - radius if first == 0 else first - 0.5 + radius
    off = abs(center - middle)
    # Half a cell is rounding of the outline; 1.3 because blobs are not quite round.
    far = 1.3 * off * ramp(off, 0.5, 1.0)
    # If little is cut off the chord is more precise: a segment has 2/3 of its chord times its height.
    height = radius - math.sqrt(max(radius**2 - (chord / 2) ** 2, 0.0))
    return max(far, 2 / 3 * chord * max(height - growth, 0.0) / (math.pi * radius))
