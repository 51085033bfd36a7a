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
from edgetpu_perception.spot import FULL_CONTRAST, NO_CONTRAST, NO_SPOT, Background, Spot, background_of, ramp

BRIGHT_SHARES = (0.25, 0.6)
"""A bright spot reaches down to this share of its contrast, for its flanks tell where it is; or, on a scene
that is not dark itself, only to the second."""

COLOR_SHARES = (0.6,)
"""A coloured target is flat and stands on a scene that has some of the colour itself."""

SURE = 0.5
"""A confidence with which the second share is not tried."""

BRIGHT_CLEAR = (6.0, 12.0)
"""Contrast in deviations of the background: no spot below the first, no doubt above the second."""

COLOR_CLEAR = (2.5, 5.0)
"""The same for a colour: what deviates there is the scene more than noise."""

RIVAL_SHARE = 0.75
"""A blob is a candidate when it reaches this share of the contrast ..."""

RIVAL_WEIGHT = 0.3
"""... and has this share of the weight of the heaviest one."""

EDGE_SIGMA = 0.16
"""Sigma of the centroid of a disc of radius 1 with its edge between cells; it goes with radius**-0.5."""

QUANTUM_SIGMA = 0.006
"""What rounding to grey levels does to the centroid of a smooth spot without noise."""

SMOOTHING = 2.6
"""How many times less noise the map has than the model's input: 3x3 cells are averaged, some lowered."""


@dataclass(frozen=True)
class _Blob:
    """The cells of a map that belong together."""

    mask: NDArray[np.uint8]
    """1 inside, 0 outside."""
    left: int
    top: int
    width: int
    height: int
    area: int
    share: float
    """Its part of the weight of all blobs."""

    @classmethod
    def of(cls, mask: NDArray[np.uint8], stats: NDArray[np.int32], share: float) -> _Blob:
        """From a row of the statistics of connectedComponentsWithStats."""
        left, top, width, height, area = stats.tolist()
        return cls(mask, left, top, width, height, area, share)


class EvidenceDecoder:
    """Weighted centroid of the strongest blob of an evidence map [1, height, width, 1]."""

    def __init__(self, output: TensorSpec, colored: bool = False) -> None:
        self._name = output.name
        self._signed = output.dtype == np.int8
        self._colored = colored
        self._shares = COLOR_SHARES if colored else BRIGHT_SHARES
        self._clear = COLOR_CLEAR if colored else BRIGHT_CLEAR

    def decode(
        self, image: NDArray[np.uint8], outputs: Mapping[str, NDArray[Any]], near: tuple[float, float] | None
    ) -> Spot:
        """Find the spot; NO_SPOT where nothing stands out."""
        grid = outputs[self._name][0, :, :, 0]
        evidence: NDArray[np.uint8] = (grid.view(np.uint8) ^ np.uint8(0x80)) if self._signed else grid
        grey = None if self._colored else image[0, :, :, 0]
        background = background_of(evidence)
        contrast = float(evidence.max()) - background.level
        clarity = ramp(contrast, NO_CONTRAST, FULL_CONTRAST) * ramp(contrast / background.noise, *self._clear)
        if clarity == 0.0:
            return NO_SPOT
        rival = background.level + RIVAL_SHARE * contrast
        best = NO_SPOT
        for share in self._shares:
            threshold = background.level + share * contrast
            blob = _strongest(evidence, threshold, rival, near)
            outline = cv2.moments(blob.mask, binaryImage=True)
            size = ramp(-blob.area / grid.size, -0.65, -0.55)
            confidence = clarity * blob.share * _solidity(blob, outline) * size
            if confidence > best.confidence:
                best = _measure(evidence, grey, background, threshold, blob, outline, confidence)
            if confidence >= SURE:
                break
        return best


def _measure(
    evidence: NDArray[np.uint8],
    grey: NDArray[np.uint8] | None,
    background: Background,
    threshold: float,
    blob: _Blob,
    outline: Mapping[str, float],
    confidence: float,
) -> Spot:
    """Centroid of a blob, weighted with what exceeds the threshold, and its sigmas."""
    moments = cv2.moments((evidence - np.float32(threshold)) * blob.mask)
    x, y = moments["m10"] / moments["m00"], moments["m01"] / moments["m00"]
    noise = _noise(grey, background, blob.mask)
    hardness = 1.0 if grey is None else _hardness(grey, background, noise, blob.mask)
    common = QUANTUM_SIGMA**2 + EDGE_SIGMA**2 * hardness / math.sqrt(blob.area / math.pi)
    noise_gain = (noise / moments["m00"]) ** 2
    x_hidden, y_hidden = _hidden(x, y, blob, evidence.shape)
    return Spot(
        x,
        y,
        math.sqrt(common + noise_gain * outline["mu20"] + x_hidden**2),
        math.sqrt(common + noise_gain * outline["mu02"] + y_hidden**2),
        confidence,
    )


def _strongest(
    evidence: NDArray[np.uint8], threshold: float, rival: float, near: tuple[float, float] | None
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
    """1 for a filled ellipse or rectangle, going to 0 for a scattered or hollow shape of the same spread."""
    spread = outline["mu20"] * outline["mu02"] - outline["mu11"] ** 2
    if blob.area < 4 or spread <= 0:
        return 1.0
    # A filled ellipse has area = 4 pi sqrt(det(covariance)).
    return ramp(blob.area**2 / (4 * math.pi * math.sqrt(spread)), 0.5, 0.9)


def _noise(grey: NDArray[np.uint8] | None, background: Background, mask: NDArray[np.uint8]) -> float:
    """Standard deviation of one cell of the model's input, grey levels.

    A background at black shows no noise; then the spot
    itself is looked at, through a filter that passes no shape as smooth as a spot (Immerkaer 1996).
    """
    noise = SMOOTHING * background.noise
    if grey is None or not background.clipped:
        return noise
    rough = cv2.sepFilter2D(grey, cv2.CV_16S, _SECOND_DIFFERENCE, _SECOND_DIFFERENCE)
    return max(noise, 1.4826 / 6.0 * float(np.median(np.abs(rough[mask.view(bool)]))))


_SECOND_DIFFERENCE = np.array([1.0, -2.0, 1.0])


def _hardness(
    grey: NDArray[np.uint8], background: Background, noise: float, mask: NDArray[np.uint8]
) -> float:
    """1 for a flat spot with a sharp edge, 0 for a smooth one: how much of its upper half is its top."""
    inside = grey[mask.view(bool)]
    height = float(inside.max()) - 2.0 * noise - background.level
    half = np.count_nonzero(inside > background.level + 0.5 * height)
    top = np.count_nonzero(inside > background.level + 0.85 * height)
    return ramp(int(top) / max(int(half), 1), 0.3, 0.8)


def _hidden(x: float, y: float, blob: _Blob, shape: tuple[int, ...]) -> tuple[float, float]:
    """How far off the centroid of a blob cut by the border may be along each axis, if the blob is round."""
    x_cut = blob.left == 0 or blob.left + blob.width == shape[1]
    y_cut = blob.top == 0 or blob.top + blob.height == shape[0]
    if x_cut and y_cut:
        return blob.width / 2, blob.height / 2
    x_hidden = _beyond(x, blob.left, blob.width, blob.height) if x_cut else 0.0
    y_hidden = _beyond(y, blob.top, blob.height, blob.width) if y_cut else 0.0
    return x_hidden, y_hidden


def _beyond(center: float, first: int, span: int, cross_span: int) -> float:
    """The same along one axis: the whole blob is as long as it is wide."""
    middle = first + span - 0.5 - cross_span / 2 if first == 0 else first - 0.5 + cross_span / 2
    # Half a cell of it is the outline's own rounding; blobs are not quite round.
    return 1.2 * max(abs(center - middle) - 0.5, 0.0)
