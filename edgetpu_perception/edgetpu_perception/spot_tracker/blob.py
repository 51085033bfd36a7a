"""The cells of an evidence map that belong together, and what their outline tells."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.confidence import ramp

RIVAL_WEIGHT = 0.3
"""A blob is as good as the heaviest one when it has this share of its weight."""

ONE_OF_SEVERAL = 0.495
"""The part of the weight that a blob has at most when others are as good."""

ROUND_EDGE = 0.9
"""By so much, in cells, averaging widens the outline of a spot."""

_IN_BLOB = np.uint8(2)
_ONE_BIT = np.uint8(1)


@dataclass(frozen=True)
class Blob:
    """Cells of a map above a threshold that touch each other."""

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
        """The part of the map around it."""
        return slice(self.top, self.top + self.height), slice(self.left, self.left + self.width)

    @property
    def cut(self) -> tuple[bool, bool]:
        """Whether it touches the border along x and along y."""
        return (
            self.left == 0 or self.left + self.width == self.columns,
            self.top == 0 or self.top + self.height == self.rows,
        )

    @property
    def compactness(self) -> float:
        """0 for what goes from one border to the other: a slope, a sky; 1 for what leaves a fifth free."""
        return ramp(-self.width / self.columns, -0.95, -0.8) * ramp(-self.height / self.rows, -0.95, -0.8)


Found = tuple[Blob, NDArray[np.uint8], float]
"""A blob; a map, not 0 outside of it; and its part of the weight of all blobs."""


def find_blob(
    evidence: NDArray[Any],
    threshold: float,
    peak: tuple[int, int],
    rival: float,
    near: tuple[float, float] | None,
) -> Found:
    """The heaviest blob above the threshold, or of several almost as strong ones the nearest to `near`.

    `peak`: column and row of the map's largest value. Only blobs that reach `rival` are taken.
    """
    above = _above(evidence, threshold)
    count = cv2.countNonZero(above)
    area, _, _, (left, top, width, height) = cv2.floodFill(above, None, peak, 2, flags=8)
    rows, columns = above.shape
    mask = above[top : top + height, left : left + width] >> _ONE_BIT
    blob = Blob(mask, rows, columns, left, top, width, height, area)
    outside = above ^ _IN_BLOB
    if area == count:
        return blob, outside, 1.0
    weight = area * (cv2.mean(evidence, mask=above & _IN_BLOB)[0] - threshold)
    total = count * (cv2.mean(evidence, mask=above)[0] - threshold)
    if total - weight < RIVAL_WEIGHT * weight:
        return blob, outside, weight / total
    return _choose(evidence, threshold, rival, near)


def _above(evidence: NDArray[Any], threshold: float) -> NDArray[np.uint8]:
    """1 where the map is above the threshold, else 0."""
    if evidence.dtype == np.uint8:
        return cast("NDArray[np.uint8]", cv2.threshold(evidence, threshold, 1, cv2.THRESH_BINARY)[1])
    return (evidence > threshold).view(np.uint8)


def _choose(
    evidence: NDArray[Any], threshold: float, rival: float, near: tuple[float, float] | None
) -> Found:
    """The same with every blob looked at, which takes longer."""
    above = _above(evidence, threshold)
    count, labels, stats, centroids = cv2.connectedComponentsWithStats(above, connectivity=8)
    excess = np.where(above, evidence - np.float32(threshold), np.float32(0))
    weights = np.bincount(labels.ravel(), excess.ravel(), count)
    bright = np.zeros(count, bool)
    bright[labels[evidence >= rival]] = True
    chosen = int(np.argmax(weights * bright))
    candidates = np.flatnonzero(bright & (weights >= RIVAL_WEIGHT * weights[chosen]))
    if near is not None:
        distances = np.hypot(centroids[candidates, 0] - near[0], centroids[candidates, 1] - near[1])
        chosen = int(candidates[np.argmin(distances)])
    left, top, width, height, area = stats[chosen].tolist()
    inside = (labels == chosen).view(np.uint8)
    mask = inside[top : top + height, left : left + width]
    rows, columns = inside.shape
    blob = Blob(mask, rows, columns, left, top, width, height, area)
    share = float(weights[chosen] / weights.sum())
    return blob, inside ^ _ONE_BIT, min(share, ONE_OF_SEVERAL) if len(candidates) > 1 else share


def solidity(blob: Blob, outline: Mapping[str, float]) -> float:
    """1 for a filled ellipse, 0.95 for a rectangle, less for a scattered or hollow shape.

    `outline`: moments of the blob's mask.
    """
    spread = outline["mu20"] * outline["mu02"] - outline["mu11"] ** 2
    if blob.area < 4 or spread <= 0:
        return 1.0
    # A filled ellipse has area = 4 pi sqrt(det(covariance)).
    return blob.area**2 / (4 * math.pi * math.sqrt(spread))


def hidden(x: float, y: float, blob: Blob) -> tuple[float, float]:
    """How far off the centroid of a blob cut by the border may be along each axis, if the blob is round."""
    x_cut, y_cut = blob.cut
    if not (x_cut or y_cut):
        return 0.0, 0.0
    if x_cut and y_cut:
        return blob.width / 2, blob.height / 2
    if x_cut:
        chord = cv2.countNonZero(blob.mask[:, -(blob.left > 0)])
        return _beyond(x, blob.left, blob.width, blob.height, chord), 0.0
    chord = cv2.countNonZero(blob.mask[-(blob.top > 0)])
    return 0.0, _beyond(y, blob.top, blob.height, blob.width, chord)


def _beyond(center: float, first: int, span: int, cross_span: int, chord: int) -> float:
    """The same along one axis; `chord`: how much of the border is covered."""
    half = cross_span / 2
    # A chord and what is seen beside it tell the circle, also when its centre is outside.
    radius = half if span >= half else (span**2 + half**2) / (2 * span)
    middle = first + span - 0.5 - radius if first == 0 else first - 0.5 + radius
    off = abs(center - middle)
    # Half a cell of it is the outline's own rounding; blobs are not quite round.
    far = 1.3 * off * ramp(off, 0.5, 1.0)
    # Of little that is hidden the chord tells more: a segment of two thirds of its length times its height.
    height = radius - math.sqrt(max(radius**2 - (chord / 2) ** 2, 0.0))
    return max(far, 2 / 3 * chord * max(height - ROUND_EDGE, 0.0) / (math.pi * radius))
