"""Position of a spot from an evidence map: the weighted centroid of its strongest blob."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.tensor import TensorSpec
from edgetpu_perception.confidence import ramp
from edgetpu_perception.spot_tracker.background import ROUNDING, Background, background_of, cells_below
from edgetpu_perception.spot_tracker.blob import Blob, find_blob, hidden, solidity
from edgetpu_perception.spot_tracker.flat_target import (
    FlatTarget,
    cells_like,
    find_flat_target,
    flat_target_in,
)
from edgetpu_perception.spot_tracker.round_target import MOST_CONFIDENCE, find_round_target
from edgetpu_perception.spot_tracker.spot_decoder import FULL_CONTRAST, NO_CONTRAST, NO_SPOT, Spot

BRIGHT_SHARES = tuple(step / 20 for step in range(5, 19))
"""A bright spot reaches down to the first of these shares of its contrast that is clear of the background:
its flanks tell where it is."""

COLOR_SHARES = tuple(step / 20 for step in range(12, 19))
"""A coloured target is flat and stands on a scene that has some of the colour itself."""

GAP = 0.1
"""The flank below a threshold: the cells that miss it by up to this share of the contrast. Those of a spot
are few for the cells above the threshold, those of a background's brightest parts are many."""

FLANK = (1.5, 0.2, 1.0)
"""A threshold is clear when its flank, in parts of the cells above, is at most so many times that of the
best threshold plus the second number (both let the flanks of smooth spots in), and less than the third."""

UNSEEN = 0.3
"""Cells added to a flank: that there is none below a threshold reached by two cells tells little."""

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

FLAT_SHARE = 0.8
"""A flat target is most of the blob found for it, not the highlight of something round."""

WHOLE_SHARE = 0.95
"""One that is as good as all of the blob needs no better shape."""

RIVAL_SHARE = 0.75
"""A blob is a candidate when it reaches this share of the contrast."""

EDGE_SIGMA = 0.16
"""Sigma of the centroid of a disc of radius 1 whose edge goes between cells; it goes with radius**-0.5."""

SOFT_EDGE_SIGMA = 0.003
"""The same where cells on the edge are as bright as the part of them that is covered ..."""

BORDER_SIGMA = 0.27
"""... and along the axis where the spot touches the border, where the map has no cells outside of it."""

RIM_SIGMA = 0.04
"""What soft edges add at radius 1, where cells below the threshold are lost; it goes with radius**-2."""

RIM = (-0.8, -0.2)
"""Cells of half to 85 % of the height, per root of the cells above half: a soft edge, a hard one."""

TEXTURE_SIGMA = 0.5
"""Cells that a centroid is off when the background deviates by as much as the spot stands out."""

QUANTUM_SIGMA = 0.002
"""What rounding to grey levels does to the centroid of a smooth spot without noise."""

FLAT_ENOUGH = 40
"""Cells of a spot in whose middle noise can be told from the curvature of the spot."""

REAL_NOISE = 0.75
"""What deviates in the background is noise, not texture, when the spot has this share of it."""

LEAN = (-0.15, -0.04)
"""How far the centroid of a blob's outline may be off the weighted one, in radii (and one cell): no spot, no
doubt."""

INPUT_ROUNDING = 0.36
"""Standard deviation, grey levels, that rounding alone leaves in a cell of the model's input."""

SMOOTHING = 2.6
"""How many times less noise the map has than the model's input: 3x3 cells are averaged, some lowered."""


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
        _, top, _, peak = cv2.minMaxLoc(evidence)
        contrast = top - background.level
        clarity = ramp(contrast, NO_CONTRAST, FULL_CONTRAST)
        if clarity == 0.0:
            return NO_SPOT
        rival = background.level + RIVAL_SHARE * contrast
        best, best_blob = NO_SPOT, None
        for threshold in _clear_thresholds(below, background.level, contrast, self._shares):
            blob, outside, share = find_blob(evidence, threshold, peak, rival, near)
            noise = _noise_beside(image[0], outside)
            confidence = clarity * share * blob.compactness
            confidence *= ramp(contrast / noise * math.sqrt(blob.area) / 3.0, *CLEAR)
            if confidence > best.confidence:
                spot = _measure(
                    evidence, grey, background, contrast, threshold, blob, confidence, self._solid
                )
                if spot.confidence > best.confidence:
                    best, best_blob = spot, blob
            if best.confidence >= SURE:
                break
        if not self._colored:
            return best
        if best.confidence >= SURE and best_blob is not None:
            return _sharpened(best, best_blob, evidence, image[0])
        return _unsure(best, cells_like(image[0], peak), clarity, near)

    def _evidence(self, grid: NDArray[Any]) -> tuple[NDArray[Any], Sequence[float]]:
        """The map in grey levels, and its `cells_below`; a map of floats has grey levels already."""
        if self._dtype.kind == "f":
            return grid, cells_below(np.clip(np.rint(grid), 0, 255).astype(np.uint8))
        evidence: NDArray[np.uint8] = grid.view(np.uint8) ^ np.uint8(0x80) if self._dtype == np.int8 else grid
        return evidence, cells_below(evidence)


def _clear_thresholds(
    below: Sequence[float], level: float, contrast: float, shares: Sequence[float]
) -> list[float]:
    """Thresholds that cut the brightest parts of the background off: the lowest and the best, grey levels."""
    total = below[-1]
    most_above, gap = MOST * total, GAP * contrast - 1.0
    thresholds = [level + share * contrast for share in shares]
    flanks = []
    for threshold in thresholds:
        not_above = below[int(threshold) + 1]
        above, flank = total - not_above, not_above - below[int(threshold - gap)] + UNSEEN
        flanks.append(flank / above if above <= most_above else math.inf)
    times, more, most = FLANK
    least = min(flanks)
    if least > most:
        return []
    best = flanks.index(least)
    limit = min(times * least + more, most)
    first = next(k for k, flank in enumerate(flanks) if flank <= limit)
    return [thresholds[k] for k in ((first, best) if first < best else (best,))]


def _measure(
    evidence: NDArray[Any],
    grey: NDArray[np.uint8] | None,
    background: Background,
    contrast: float,
    threshold: float,
    blob: Blob,
    confidence: float,
    solid: tuple[float, float],
) -> Spot:
    """Centroid of a blob, weighted with what exceeds the threshold, and its sigmas.

    The confidence goes down with the shape's solidity, and when the centroid of its outline is elsewhere.
    """
    inside = evidence[blob.window] * blob.mask
    outline, moments = cv2.moments(blob.mask), cv2.moments(inside)
    weight = moments["m00"] - threshold * blob.area
    x = (moments["m10"] - threshold * outline["m10"]) / weight
    y = (moments["m01"] - threshold * outline["m01"]) / weight
    radius = math.sqrt(blob.area / math.pi)
    lean = math.hypot(outline["m10"] / blob.area - x, outline["m01"] / blob.area - y)
    confidence *= ramp(-lean / (1.0 + radius), *LEAN)
    confidence *= ramp(solidity(blob, outline), *solid)
    noise, hardness = _noise_and_hardness(grey, background, blob)
    spread = math.sqrt(max(background.spread_beside(blob.area) ** 2 - (noise / SMOOTHING) ** 2, 0.0))
    common = QUANTUM_SIGMA**2 + (TEXTURE_SIGMA * spread / contrast) ** 2
    noise_gain = (noise / weight) ** 2
    x_edge, y_edge = _edge_variances(blob, hardness, radius)
    x, y = x + blob.left, y + blob.top
    x_hidden, y_hidden = hidden(x, y, blob)
    return Spot(
        x,
        y,
        math.sqrt(common + x_edge + noise_gain * outline["mu20"] + x_hidden**2),
        math.sqrt(common + y_edge + noise_gain * outline["mu02"] + y_hidden**2),
        confidence,
    )


def _edge_variances(blob: Blob, hardness: float, radius: float) -> tuple[float, float]:
    """Of x and y, from the cells on the edge."""
    x_cut, y_cut = blob.cut
    hard, soft = hardness * EDGE_SIGMA**2, 1.0 - hardness
    x_edge = hard + soft * (BORDER_SIGMA if x_cut else SOFT_EDGE_SIGMA) ** 2
    y_edge = hard + soft * (BORDER_SIGMA if y_cut else SOFT_EDGE_SIGMA) ** 2
    rim = soft * (RIM_SIGMA / radius**2) ** 2
    return x_edge / radius + rim, y_edge / radius + rim


def _sharpened(spot: Spot, blob: Blob, evidence: NDArray[Any], image: NDArray[np.uint8]) -> Spot:
    """The same spot by the outline of what has one colour in an RGB image, where that is most of the blob."""
    column, row = cv2.minMaxLoc(evidence[blob.window], mask=blob.mask)[3]
    target = flat_target_in(image, blob, (blob.left + column, blob.top + row))
    if target is None or target.area < FLAT_SHARE * blob.area:
        return spot
    if target.confidence < spot.confidence and target.area < WHOLE_SHARE * blob.area:
        return spot
    return _flat_spot(target, spot.confidence)


def _unsure(best: Spot, flat: NDArray[np.uint8], clarity: float, near: tuple[float, float] | None) -> Spot:
    """What looks most like a target among the cells of the brightest one's colour, if more so than `best`."""
    target = find_flat_target(flat, near)
    if target is not None and clarity * target.confidence > best.confidence:
        best = _flat_spot(target, clarity * target.confidence)
    if best.confidence < clarity * MOST_CONFIDENCE:
        disc = find_round_target(flat)
        if disc is not None and clarity * disc.confidence > best.confidence:
            return Spot(disc.x, disc.y, disc.x_sigma, disc.y_sigma, clarity * disc.confidence)
    return best


def _flat_spot(target: FlatTarget, confidence: float) -> Spot:
    edge = EDGE_SIGMA**2 / math.sqrt(target.area / math.pi)
    return Spot(
        target.x,
        target.y,
        math.sqrt(edge + target.x_hidden**2),
        math.sqrt(edge + target.y_hidden**2),
        confidence,
    )


def _noise_beside(image: NDArray[np.uint8], outside: NDArray[np.uint8]) -> float:
    """Standard deviation of a cell of the map outside of a blob, if what deviates in the image is noise."""
    deviations: list[float] = cv2.meanStdDev(image, mask=outside)[1].ravel().tolist()
    return max(sum(deviations) / len(deviations) / SMOOTHING, ROUNDING)


def _noise_and_hardness(
    grey: NDArray[np.uint8] | None, background: Background, blob: Blob
) -> tuple[float, float]:
    """Standard deviation of a cell of the model's input, grey levels, and `_hardness`.

    A background at black shows no noise, and one of texture seems to have more than there is; then the spot
    itself is looked at, through a filter that passes no shape as smooth as a spot (Immerkaer 1996).
    """
    if grey is None:
        return INPUT_ROUNDING, 1.0
    noise = SMOOTHING * background.noise if background.noise > ROUNDING else INPUT_ROUNDING
    inside = blob.mask.view(bool)
    if blob.area >= FLAT_ENOUGH if background.clipped else noise >= 0.5:
        deviations = np.abs(cv2.filter2D(grey[blob.window], cv2.CV_16S, _SECOND_DIFFERENCES)[inside])
        deviations.sort()
        seen = 1.4826 / 6.0 * int(deviations[blob.area // 2])
        if background.clipped:
            noise = max(noise, seen)
        elif seen < REAL_NOISE * noise:
            noise = max(seen, INPUT_ROUNDING)
    return noise, _hardness(grey[blob.window][inside], background.level, noise)


_SECOND_DIFFERENCES = np.outer([1.0, -2.0, 1.0], [1.0, -2.0, 1.0])


def _hardness(cells: NDArray[np.uint8], level: float, noise: float) -> float:
    """1 for a spot with a sharp edge between cells, 0 where cells on the edge are partly bright.

    The cells, [n], get sorted.
    """
    cells.sort()
    ordered, count = cells.tobytes(), len(cells)
    height = ordered[-1] - 2.0 * noise - level
    half = count - bisect_right(ordered, level + 0.5 * height)
    # Noise makes cells of the middle seem to be of the rim.
    top = min(0.85, 1.0 - 5.0 * noise / height) if height > 0.0 else 0.0
    if top < 0.6:
        return ramp((count - bisect_right(ordered, level + 0.85 * height)) / max(half, 1), 0.4, 0.8)
    rim = half - (count - bisect_right(ordered, level + top * height))
    return ramp(-rim / math.sqrt(max(half, 1)) * 0.35 / (top - 0.5), *RIM)
