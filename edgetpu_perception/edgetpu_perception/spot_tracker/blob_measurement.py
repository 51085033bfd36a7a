"""Position, sigmas and confidence of a blob of an evidence map."""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.confidence_ramp import ramp
from edgetpu_perception.spot_tracker.background import ROUNDING_NOISE, Background
from edgetpu_perception.spot_tracker.blob import (
    Blob,
    Moments,
    cut_off_error,
    moments,
    solidity,
    without_holes,
)
from edgetpu_perception.spot_tracker.camera_lamp import place_blob
from edgetpu_perception.spot_tracker.evidence_map import EvidenceMap
from edgetpu_perception.spot_tracker.spot_decoder import NO_SPOT, CameraPixels, Spot

HARD_EDGE_SIGMA = 0.16
"""Standard deviation in cells of the centroid of a disc of radius 1 with cells either inside or outside; it
falls with radius**-0.5. Derived: drawn discs of radius 2 to 20 give 0.148 to 0.154."""

SOFT_EDGE_SIGMA = 0.003
"""The same if the brightness of cells on the edge shows how much of them is covered.

Rows: spot, discs with soft edges, inside one sigma.
"""

BORDER_SIGMA = 0.27
"""The same along an axis on which the spot touches the border, where cells outside are missing.

Rows: spot, discs that touch the edge, inside one sigma.
"""

SMALL_SPOT_SIGMA = 0.04
"""Standard deviation added for soft edges at radius 1, cells, as cells below the threshold are lost; it falls
with radius**-2.

Rows: spot, smooth spots, inside one sigma.
"""

RIM_CELLS_PER_ROOT_AREA = (-0.8, -0.2)
"""Number of cells at 50 to 85 % of the height over the square root of the number above 50 %, negated: a soft
edge at the first, a hard edge at the second. Rows: spot, discs with soft edges and discs of radius 2-24,
inside one sigma."""

TEXTURE_SIGMA = 0.5
"""Error of a centroid in cells if the background varies by as much as the contrast of the spot.

Rows: spot, discs on texture, inside one sigma.
"""

ROUNDING_SIGMA = 0.002
"""Error in cells of the centroid of a smooth, noise-free spot from rounding to grey levels.

Rows: spot, smooth spots, inside one sigma.
"""

MIN_AREA_TO_SEE_NOISE = 40
"""Area in cells from which noise inside a spot can be distinguished from its curvature.

Rows: spot, noise 8 at amplitude 160, inside one sigma.
"""

MAX_TRUSTED_NOISE_SHARE = 0.75
"""Noise inside the spot over that of the background; below this, the background shows texture, not noise.

Rows: spot, discs on texture, inside one sigma.
"""

OUTLINE_OFFSET_RADII = (-0.15, -0.04)
"""Distance between the centroid of the outline and the weighted one over the radius plus one cell, negated:
no spot at the first, full confidence at the second. Rows: spot, none (gradients); half out of the frame."""

STEP_SHARE = 0.4
"""Least step of the map across the outline of a shaded object, as a share of the contrast.

Rows: spot, white ball of real colour, right.
"""

FALL_SHARE = 0.8
"""Least step across the outline of a dark side, which has less light, as a share of the level inside.

Derived: a normal distribution cut at a quarter of its height, the lowest threshold, falls by 0.79 of its
level over the diagonal of STEP_REACH_RADII. Rows: spot, large red body, right.
"""

STEEP_OUTLINE_SHARE = 0.9
"""Least share of the outline with such a step. Rows: spot, white ball of real colour, right; none, not
valid."""

SHADED_OUTLINE_SIGMA = 0.05
"""Error of the centroid of the outline of a shaded object, radii, as its dark side may be below the
threshold.

Rows: spot, white ball of real colour, right.
"""

STEP_REACH_CELLS = 2
"""Least distance from the outline within which a step is measured, cells.

Derived: 3 cells are averaged, and one is on the edge."""

STEP_REACH_RADII = 0.2
"""The same for large shapes, in radii: shade widens an edge in proportion to the shape, not to the cells.

Derived: from 0.28 radii inside to 0.28 outside, the diagonal of such a square, a normal distribution without
any edge falls by STEP_SHARE of its height.
"""

_NEIGHBOURS = np.ones((3, 3), np.uint8)
"""A cell and its eight neighbours."""

INPUT_ROUNDING_NOISE = 0.36
"""Standard deviation in grey levels of a cell of the model's input that rounding alone leaves.

One rounding leaves 1/sqrt(12) = 0.29, independent ones by camera and resizing 0.41. Rows: spot, smooth spots,
inside one sigma.
"""

NOISE_REDUCTION = 2.6
"""Noise of the model's input over noise of the map.

Derived: white noise through the graph gives 2.1 (1 grey level, rounded) to 3.3; on resized images, whose
neighbours are correlated, it is less. Rows: spot, noise 8 at amplitude 160, inside one sigma.
"""

SMALL_LAMP_SHARE = math.pi / 4.0
"""Largest share of its height that the map shows of a lamp of a few cells.

Derived: a disc with the diameter of three cells covers that much of the 3x3 over which the map averages.
"""

_SECOND_DIFFERENCES = np.outer([1.0, -2.0, 1.0], [1.0, -2.0, 1.0])
"""Filter that passes white noise with a gain of 6 and no linear or quadratic shape (Immerkaer 1996).

Derived: [1, -2, 1] along both axes.
"""


def measure_blob(
    output: EvidenceMap,
    grey: NDArray[np.uint8] | None,
    threshold: float,
    blob: Blob,
    confidence: float,
    solidity_range: tuple[float, float],
    camera: CameraPixels | None = None,
) -> Spot:
    """Centroid of a blob, weighted with the excess over the threshold, and its sigmas.

    `grey`: the model's input, uint8 [H, W], or None for a colour; `threshold`: grey levels; `confidence`: its
    upper limit. It rises with the shape's solidity, over the `solidity_range`, and falls with the distance to
    the centroid of the outline. Returns NO_SPOT if the shape leaves no confidence.
    """
    evidence, background, contrast, _ = output
    outline, weight, x, y = _weighted_centroid(evidence, blob, threshold)
    shape, solid = blob, solidity(blob, outline)
    if grey is None and solid < solidity_range[1]:
        shape = without_holes(blob)
        if shape is not blob:
            (outline,) = moments(shape.mask[np.newaxis])
            solid = solidity(shape, outline)
    radius = math.sqrt(shape.area / math.pi)
    confidence *= ramp(solid, *solidity_range)
    if confidence == 0.0:
        return NO_SPOT
    x_offset, y_offset = outline.x - x, outline.y - y
    outline_offset = ramp(-math.hypot(x_offset, y_offset) / (1.0 + radius), *OUTLINE_OFFSET_RADII)
    # A coloured spot is a shaded object; a bright one is a light, and its glow shows its position.
    if grey is None and outline_offset < 1.0 and has_steep_outline(output, shape, STEP_SHARE, FALL_SHARE):
        spot = _by_outline(shape, outline, radius, confidence)
        offset_of_cells = 2.0 * HARD_EDGE_SIGMA / math.sqrt(radius)  # that of two sigma
        return spot._replace(is_uneven=math.hypot(x_offset, y_offset) > offset_of_cells)
    confidence *= outline_offset
    if confidence and grey is not None and camera is not None:
        height = cv2.norm(grey[blob.window], cv2.NORM_INF) - background.level
        # Most cells of a lamp of a few cells are on its edge, where the graph and the threshold remove a part
        # and so move the centroid; and the map averages over more than the lamp.
        lamp = place_blob(blob, camera) if contrast < SMALL_LAMP_SHARE * height else None
        if lamp is not None:
            return Spot(*lamp, confidence)
    x, y = x + blob.left, y + blob.top
    noise, hardness = _noise_and_hardness(grey, background, blob)
    noise_gain = (noise / weight) ** 2
    common = ROUNDING_SIGMA**2 + _texture_variance(background, blob.area, noise, contrast)
    x_edge, y_edge = _edge_variances(blob, hardness, radius)
    x_cut_off, y_cut_off = cut_off_error(x, y, blob)
    x_sigma = math.sqrt(common + x_edge + noise_gain * outline.xx + x_cut_off**2)
    y_sigma = math.sqrt(common + y_edge + noise_gain * outline.yy + y_cut_off**2)
    return Spot(x, y, x_sigma, y_sigma, confidence)


def _weighted_centroid(
    evidence: NDArray[Any], blob: Blob, threshold: float
) -> tuple[Moments, float, float, float]:
    """Moments of the outline, and total and centroid of the excess over the threshold, in the window."""
    values = np.array((blob.mask, evidence[blob.window]), np.float64)
    values[1] *= values[0]
    outline, inside = moments(values)
    below = threshold * blob.area
    weight = inside.total - below
    x = (inside.total * inside.x - below * outline.x) / weight
    y = (inside.total * inside.y - below * outline.y) / weight
    return outline, weight, x, y


def has_steep_outline(output: EvidenceMap, blob: Blob, share: float, fall: float = math.inf) -> bool:
    """Whether the map has a step all around a blob but along the border, unlike around a gradient.

    `share`: height of the step, as a share of the contrast; `fall`: height as a share of the level inside,
    which counts, too, for a side in the shade.
    """
    reach = max(step_reach(blob.area), STEP_REACH_CELLS)
    rows = slice(max(blob.top - reach, 0), blob.top + blob.height + reach)
    columns = slice(max(blob.left - reach, 0), blob.left + blob.width + reach)
    part, around = output.evidence[rows, columns], np.ones((2 * reach + 1,) * 2, np.uint8)
    inner = cv2.erode(blob.mask, _NEIGHBOURS, borderType=cv2.BORDER_CONSTANT, borderValue=0)
    outline = blob.mask != inner
    # Along the border nothing is seen of an outline.
    outline[: int(blob.top == 0)] = outline[blob.rows - blob.top - 1 :] = False
    outline[:, : int(blob.left == 0)] = outline[:, blob.columns - blob.left - 1 :] = False
    top, left = blob.top - rows.start, blob.left - columns.start
    near = slice(top, top + blob.height), slice(left, left + blob.width)
    # In float, as maps of other models may be float64.
    bright = cv2.dilate(part, around)[near][outline].astype(np.float32)
    steps = bright - cv2.erode(part, around)[near][outline]
    steep = steps >= np.minimum(share * output.contrast, fall * (bright - output.background.level))
    return bool(np.count_nonzero(steep) >= STEEP_OUTLINE_SHARE * max(len(steep), 1))


def step_reach(area: float) -> int:
    """How far from its outline, on either side, a step of a shape may begin and end, cells."""
    return int(STEP_REACH_RADII * math.sqrt(area / math.pi))


def _by_outline(shape: Blob, outline: Moments, radius: float, confidence: float) -> Spot:
    """A shaded object at the centroid of its outline; the weighted centroid is towards its bright side."""
    x, y = outline.x + shape.left, outline.y + shape.top
    sigma = math.hypot(HARD_EDGE_SIGMA / math.sqrt(radius), SHADED_OUTLINE_SIGMA * radius)
    x_cut_off, y_cut_off = cut_off_error(x, y, shape)
    return Spot(x, y, math.hypot(sigma, x_cut_off), math.hypot(sigma, y_cut_off), confidence)


def _edge_variances(blob: Blob, hardness: float, radius: float) -> tuple[float, float]:
    """Variances of x and y from the cells on the edge, cells squared."""
    x_cut, y_cut = blob.touches_border
    hard, soft = hardness * HARD_EDGE_SIGMA**2, 1.0 - hardness
    x_edge = hard + soft * (BORDER_SIGMA if x_cut else SOFT_EDGE_SIGMA) ** 2
    y_edge = hard + soft * (BORDER_SIGMA if y_cut else SOFT_EDGE_SIGMA) ** 2
    rim = soft * (SMALL_SPOT_SIGMA / radius**2) ** 2
    return x_edge / radius + rim, y_edge / radius + rim


def noise_outside(image: NDArray[np.uint8], outside: NDArray[np.uint8]) -> float:
    """Standard deviation of a cell of the map outside a blob, as if all deviation in the image were noise.

    `image`: the model's input, [H, W, channels]; `outside`: [H, W], 0 in the blob.
    """
    return _noise_of(cv2.meanStdDev(image, mask=outside)[1])


def most_noise_outside(image: NDArray[np.uint8], area: int) -> float:
    """Upper limit of `noise_outside` a blob of `area` cells, without a mask, which takes longer.

    `image`: the model's input, [H, W, channels]. Without the blob, the sum of squared deviations is not
    larger, whatever the blob is like.
    """
    total = image.shape[0] * image.shape[1]
    return _noise_of(cv2.meanStdDev(image)[1]) * math.sqrt(total / (total - area))


def _noise_of(deviations_of_channels: NDArray[np.float64]) -> float:
    """Standard deviation of a cell of the map from those of the model's input, [channels, 1]."""
    deviations: list[float] = deviations_of_channels.ravel().tolist()
    return max(sum(deviations) / len(deviations) / NOISE_REDUCTION, ROUNDING_NOISE)


def _texture_variance(background: Background, area: int, noise: float, contrast: float) -> float:
    """Variance of the centroid of a blob because the background varies by more than its noise, cells^2."""
    spread = math.sqrt(max(background.spread_outside(area) ** 2 - (noise / NOISE_REDUCTION) ** 2, 0.0))
    return (TEXTURE_SIGMA * spread / contrast) ** 2


def _noise_and_hardness(
    grey: NDArray[np.uint8] | None, background: Background, blob: Blob
) -> tuple[float, float]:
    """Standard deviation of a cell of the model's input, grey levels, and `_hardness`.

    A black background shows no noise, and a textured one seems to have too much. In these cases noise is
    measured inside the spot, with a filter that does not pass smooth shapes (Immerkaer 1996).
    """
    if grey is None:
        return INPUT_ROUNDING_NOISE, 1.0
    noise = NOISE_REDUCTION * background.noise if background.noise > ROUNDING_NOISE else INPUT_ROUNDING_NOISE
    part, inside = grey[blob.window], blob.mask.view(bool)
    if blob.area >= MIN_AREA_TO_SEE_NOISE if background.clipped else noise >= 0.5:
        deviations = np.abs(cv2.filter2D(part, cv2.CV_16S, _SECOND_DIFFERENCES)[inside])
        deviations.sort()
        seen = 1.4826 / 6.0 * int(deviations[blob.area // 2])
        if background.clipped:
            noise = max(noise, seen)
        elif seen < MAX_TRUSTED_NOISE_SHARE * noise:
            noise = max(seen, INPUT_ROUNDING_NOISE)
    return noise, _hardness(part[inside], background.level, noise)


def _hardness(cells: NDArray[np.uint8], level: float, noise: float) -> float:
    """1 for a spot whose cells are either bright or dark, 0 if cells on its edge are partly bright.

    `cells`: uint8 [n] inside the spot; sorted in place. `level`: brightness of the background.
    """
    cells.sort()
    ordered, count = cells.tobytes(), len(cells)
    height = ordered[-1] - 2.0 * noise - level
    half = count - bisect_right(ordered, level + 0.5 * height)
    # With noise, cells of the middle would count as rim.
    top = min(0.85, 1.0 - 5.0 * noise / height) if height > 0.0 else 0.0
    if top < 0.6:
        return ramp((count - bisect_right(ordered, level + 0.85 * height)) / max(half, 1), 0.4, 0.8)
    rim = half - (count - bisect_right(ordered, level + top * height))
    return ramp(-rim / math.sqrt(max(half, 1)) * 0.35 / (top - 0.5), *RIM_CELLS_PER_ROOT_AREA)
