"""Position of a spot from an evidence map: the weighted centroid of its strongest blob."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.tensor import TensorSpec
from edgetpu_perception.confidence import ramp
from edgetpu_perception.spot.spot import (
    FULL_CONTRAST,
    NO_CONTRAST,
    NO_SPOT,
    ROUNDING,
    Background,
    Spot,
    background_of,
    cells_below,
)

BRIGHT_SHARES = np.arange(0.25, 0.91, 0.05)
"""A bright spot reaches down to the first of these shares of its contrast that is clear of the background:
its flanks tell where it is."""

COLOR_SHARES = np.arange(0.6, 0.91, 0.05)
"""A coloured target is flat and stands on a scene that has some of the colour itself."""

GAP = 0.1
"""The flank below a threshold: the cells that miss it by up to this share of the contrast. Those of a spot
are few for the cells above the threshold, those of a background's brightest parts are many."""

FLANK = (1.5, 0.2, 1.0)
"""A threshold is clear when its flank, in parts of the cells above, is at most so many times that of the
best threshold plus the second number (both let the flanks of smooth spots in), and less than the third."""

MOST = 0.55
"""Part of the picture that a spot may cover."""

CLEAR = (5.5, 8.5)
"""Contrast in deviations of all that is not the spot, times the root of the independent cells: no spot below
the first, no doubt above the second. The largest of a few thousand cells of noise reaches 4."""

BRIGHT_SOLID = (0.5, 0.9)
"""Solidity of a shape that is no spot, and from which on it is one without doubt."""

COLOR_SOLID = (0.9, 0.99)
"""The same for a colour, where a target may have grown together with a part of the scene."""

SURE = 0.5
"""A confidence with which no second threshold is tried."""

RIVAL_SHARE = 0.75
"""A blob is a candidate when it reaches this share of the contrast ..."""

RIVAL_WEIGHT = 0.3
"""... and has this share of the weight of the heaviest one."""

EDGE_SIGMA = 0.16
"""Sigma of the centroid of a disc of radius 1 with its edge between cells; it goes with radius**-0.5."""

QUANTUM_SIGMA = 0.003
"""What rounding to grey levels does to the centroid of a smooth spot without noise."""

TEXTURE = 3.0
"""A background's deviations that are not noise but texture reach a spot at its rim only: a third counts."""

LEAN = (-0.2, -0.05)
"""How far the centroid of the upper half of a blob may be off, in radii (and one cell): no spot, no doubt."""

ROUND_EDGE = 0.7
"""By so much, in cells, averaging widens the outline of a spot."""

SMOOTHING = 2.6
"""How many times less noise the map has than the model's input: 3x3 cells are averaged, some lowered."""


@dataclass(frozen=True)
class _Blob:
    """The cells of a map that belong together."""

    mask: NDArray[np.uint8]
    """1 inside, 0 outside; of the map's size."""
    left: int
    top: int
    width: int
    height: int
    area: int
    share: float
    """Its part of the weight of all blobs."""

    @property
    def window(self) -> tuple[slice, slice]:
        """The part of the map around it."""
        return slice(self.top, self.top + self.height), slice(self.left, self.left + self.width)

    @classmethod
    def of(cls, mask: NDArray[np.uint8], stats: NDArray[np.int32], share: float) -> _Blob:
        """From a row of the statistics of connectedComponentsWithStats."""
        left, top, width, height, area = stats.tolist()
        return cls(mask, left, top, width, height, area, share)


class EvidenceDecoder:
    """Weighted centroid of the strongest blob of an evidence map [1, height, width, 1]."""

    def __init__(self, output: TensorSpec, colored: bool = False) -> None:
        self._name = output.name
        self._dtype = output.dtype
        self._colored = colored
        self._solid = COLOR_SOLID if colored else BRIGHT_SOLID
        self._shares = COLOR_SHARES if colored else BRIGHT_SHARES

    def decode(
        self, image: NDArray[np.uint8], outputs: Mapping[str, NDArray[Any]], near: tuple[float, float] | None
    ) -> Spot:
        """Find the spot; NO_SPOT where nothing stands out."""
        evidence, below = self._evidence(outputs[self._name][0, :, :, 0])
        grey = None if self._colored else image[0, :, :, 0]
        background = background_of(below)
        contrast = float(evidence.max()) - background.level
        clarity = ramp(contrast, NO_CONTRAST, FULL_CONTRAST)
        if clarity == 0.0:
            return NO_SPOT
        rival = background.level + RIVAL_SHARE * contrast
        best = NO_SPOT
        for threshold in _clear_thresholds(below, background.level, contrast * self._shares, GAP * contrast):
            blob = _strongest(evidence, threshold, rival, near)
            noise = _noise_beside(image[0], blob)
            confidence = clarity * blob.share * _compactness(blob, evidence.shape)
            confidence *= ramp(contrast / noise * math.sqrt(blob.area) / 3.0, *CLEAR)
            if confidence > best.confidence:
                spot = _measure(evidence, grey, background, threshold, blob, confidence, self._solid)
                best = spot if spot.confidence > best.confidence else best
            if best.confidence >= SURE:
                break
        return best

    def _evidence(self, grid: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """The map in grey levels, and its `cells_below`; a map of floats has grey levels already."""
        if self._dtype.kind == "f":
            return grid, cells_below(np.clip(np.rint(grid), 0, 255).astype(np.uint8))
        evidence: NDArray[np.uint8] = grid.view(np.uint8) ^ np.uint8(0x80) if self._dtype == np.int8 else grid
        return evidence, cells_below(evidence)


def _clear_thresholds(
    below: NDArray[np.int64], level: float, heights: NDArray[np.float64], gap: float
) -> list[float]:
    """Thresholds that cut the brightest parts of the background off: the lowest and the best, grey levels."""
    thresholds = level + heights
    total = below[-1]
    above = total - below[(thresholds + 1).astype(np.intp)]
    with_gap = total - below[np.maximum(thresholds - gap + 1, 0).astype(np.intp)]
    flank = with_gap / np.maximum(above, 1) - 1
    flank[above > MOST * total] = math.inf
    times, more, most = FLANK
    best = int(np.argmin(flank))
    if flank[best] > most:
        return []
    first = int(np.argmax(flank <= min(times * flank[best] + more, most)))
    return [float(thresholds[k]) for k in ((first, best) if first < best else (best,))]


def _measure(
    evidence: NDArray[Any],
    grey: NDArray[np.uint8] | None,
    background: Background,
    threshold: float,
    blob: _Blob,
    confidence: float,
    solid: tuple[float, float],
) -> Spot:
    """Centroid of a blob, weighted with what exceeds the threshold, and its sigmas.

    The confidence goes down with the shape's solidity, and when the centroid of the upper half is elsewhere.
    """
    window = blob.window
    mask, inside = blob.mask[window], evidence[window]
    outline = cv2.moments(mask, binaryImage=True)
    # Two columns of 32 bits would be taken for a list of points.
    moments = cv2.moments((inside - np.float64(threshold)) * mask)
    x, y = moments["m10"] / moments["m00"], moments["m01"] / moments["m00"]
    upper = cv2.moments(mask * (inside > (threshold + float(evidence.max())) / 2), binaryImage=True)
    radius = math.sqrt(blob.area / math.pi)
    if upper["m00"]:
        lean = math.hypot(upper["m10"] / upper["m00"] - x, upper["m01"] / upper["m00"] - y)
        confidence *= ramp(-lean / (1.0 + radius), *LEAN)
    confidence *= ramp(_solidity(blob, outline), *solid)
    noise = _noise(grey, background, blob)
    hardness = 1.0 if grey is None else _hardness(grey[window], background, noise, mask)
    common = QUANTUM_SIGMA**2 + EDGE_SIGMA**2 * hardness / radius
    noise_gain = (noise / moments["m00"]) ** 2
    x, y = x + blob.left, y + blob.top
    x_hidden, y_hidden = _hidden(x, y, blob, evidence.shape)
    return Spot(
        x,
        y,
        math.sqrt(common + noise_gain * outline["mu20"] + x_hidden**2),
        math.sqrt(common + noise_gain * outline["mu02"] + y_hidden**2),
        confidence,
    )


def _strongest(
    evidence: NDArray[Any], threshold: float, rival: float, near: tuple[float, float] | None
) -> _Blob:
    """The heaviest blob above the threshold, or of several almost as strong ones the nearest to `near`."""
    above = (evidence > threshold).view(np.uint8)
    count, labels, stats, centroids = cv2.connectedComponentsWithStats(above, connectivity=8)
    if count == 2:
        return _Blob.of(above, stats[1], 1.0)
    excess = np.where(above, evidence - np.float32(threshold), np.float32(0))
    weights = np.bincount(labels.ravel(), excess.ravel(), count)
    bright = np.zeros(count, bool)
    bright[labels[evidence >= rival]] = True
    chosen = int(np.argmax(weights * bright))
    if near is not None:
        candidates = np.flatnonzero(bright & (weights >= RIVAL_WEIGHT * weights[chosen]))
        distances = np.hypot(centroids[candidates, 0] - near[0], centroids[candidates, 1] - near[1])
        chosen = int(candidates[np.argmin(distances)])
    mask = (labels == chosen).view(np.uint8)
    return _Blob.of(mask, stats[chosen], float(weights[chosen] / weights.sum()))


def _solidity(blob: _Blob, outline: Mapping[str, float]) -> float:
    """1 for a filled ellipse, 0.95 for a rectangle, less for a scattered or hollow shape."""
    spread = outline["mu20"] * outline["mu02"] - outline["mu11"] ** 2
    if blob.area < 4 or spread <= 0:
        return 1.0
    # A filled ellipse has area = 4 pi sqrt(det(covariance)).
    return blob.area**2 / (4 * math.pi * math.sqrt(spread))


def _compactness(blob: _Blob, shape: tuple[int, ...]) -> float:
    """0 for what goes from one border to the other: a slope, a sky; 1 for what leaves a fifth free."""
    return ramp(-blob.width / shape[1], -0.95, -0.8) * ramp(-blob.height / shape[0], -0.95, -0.8)


def _noise_beside(image: NDArray[np.uint8], blob: _Blob) -> float:
    """Standard deviation of a cell of the map outside of a blob, if what deviates in the image is noise."""
    deviations = cv2.meanStdDev(image, mask=blob.mask ^ np.uint8(1))[1]
    return max(float(deviations.mean()) / SMOOTHING, ROUNDING)


def _noise(grey: NDArray[np.uint8] | None, background: Background, blob: _Blob) -> float:
    """Standard deviation of one cell of the model's input, grey levels.

    A background at black shows no noise, and one of texture seems to have more than there is; then the spot
    itself is looked at, through a filter that passes no shape as smooth as a spot (Immerkaer 1996).
    """
    noise = SMOOTHING * background.noise
    if grey is None:
        return max(noise / TEXTURE, SMOOTHING * ROUNDING)
    if noise < 0.5 and not background.clipped:
        return noise
    rough = cv2.sepFilter2D(grey[blob.window], cv2.CV_16S, _SECOND_DIFFERENCE, _SECOND_DIFFERENCE)
    inside = 1.4826 / 6.0 * float(np.median(np.abs(rough[blob.mask[blob.window].view(bool)])))
    return max(noise, inside) if background.clipped else min(max(inside, noise / TEXTURE), noise)


_SECOND_DIFFERENCE = np.array([1.0, -2.0, 1.0])


def _hardness(
    grey: NDArray[np.uint8], background: Background, noise: float, mask: NDArray[np.uint8]
) -> float:
    """1 for a flat spot with a sharp edge, 0 for a smooth one: how much of its upper half is its top."""
    inside = grey[mask.view(bool)]
    height = float(inside.max()) - 2.0 * noise - background.level
    half = np.count_nonzero(inside > background.level + 0.5 * height)
    top = np.count_nonzero(inside > background.level + 0.85 * height)
    return ramp(int(top) / max(int(half), 1), 0.4, 0.8)


def _hidden(x: float, y: float, blob: _Blob, shape: tuple[int, ...]) -> tuple[float, float]:
    """How far off the centroid of a blob cut by the border may be along each axis, if the blob is round."""
    x_cut = blob.left == 0 or blob.left + blob.width == shape[1]
    y_cut = blob.top == 0 or blob.top + blob.height == shape[0]
    if x_cut and y_cut:
        return blob.width / 2, blob.height / 2
    columns, rows = blob.mask[:, -(blob.left > 0)], blob.mask[-(blob.top > 0)]
    x_hidden = _beyond(x, blob.left, blob.width, blob.height, int(columns.sum())) if x_cut else 0.0
    y_hidden = _beyond(y, blob.top, blob.height, blob.width, int(rows.sum())) if y_cut else 0.0
    return x_hidden, y_hidden


def _beyond(center: float, first: int, span: int, cross_span: int, chord: int) -> float:
    """The same along one axis; `chord`: how much of the border is covered."""
    half = cross_span / 2
    # A chord and what is seen beside it tell the circle, also when its centre is outside.
    radius = half if span >= half else (span**2 + half**2) / (2 * span)
    middle = first + span - 0.5 - radius if first == 0 else first - 0.5 + radius
    off = abs(center - middle)
    # Half a cell of it is the outline's own rounding; blobs are not quite round.
    far = 1.3 * off * ramp(off, 0.4, 0.8)
    # Of little that is hidden the chord tells more: a segment of two thirds of its length times its height.
    height = radius - math.sqrt(max(radius**2 - (chord / 2) ** 2, 0.0))
    return max(far, 2 / 3 * chord * max(height - ROUND_EDGE, 0.0) / (math.pi * radius))
