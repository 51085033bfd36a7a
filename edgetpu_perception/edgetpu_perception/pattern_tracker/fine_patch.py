"""A patch at the resolution of the camera image, averaged over squares of its px."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.images.encodings import Pixels

MOST_PX = 32
"""Largest width and height of a fine patch, px; a larger one is averaged over squares. Up to twice that
if the px of the search image are as fine as these squares. Limits the time.

Rows: pattern, whole picture, within 2 px.
"""

LEAST_PX = 8
"""Smallest width and height of a fine patch, px. Derived: those of a small template."""

MIN_GAIN = 1.2
"""Least number of fine px per px of the search image along an axis for which matches are refined.

Limits the time. Uncritical.
"""

MAX_ALIASING = 0.3
"""Largest error of squares interpolated between those of a patch, as a share of its contrast.

Above it, structure finer than squares leads alignments astray. Rows: pattern, whole picture, inside one
sigma; 82 to 94 % of the patches of photographs are below.
"""

INTERPOLATION_REACH = 2
"""Squares along the sides of a patch whose interpolation reaches beyond the patch.

Derived: the reach of cubic interpolation.
"""

SMOOTHING = 0.6
"""Standard deviation of the blur before averaging that removes structure finer than squares, in squares.

Derived: with the average over a square it leaves 11 % of a wave of two squares, and 2 % of one of 1.5.
"""


@dataclass(frozen=True, eq=False)
class FinePatch:
    """The part of the camera image that a template covers, averaged over squares of px."""

    values: NDArray[np.float32]
    """Grey levels, [h, w]."""
    mask: NDArray[np.bool_]
    """Squares that count, bool [h, w]."""
    x_scale: float
    """Squares per px of the search image along x."""
    y_scale: float
    """Squares per px of the search image along y."""
    offset: tuple[float, float]
    """Centre of the squares minus that of the template, (x, y), px of the search image."""
    smooth: bool = False
    """Whether structure finer than squares was removed; then it is removed from images as well."""
    finer: FinePatch | None = None
    """The patch in squares of half the side, without finer structure; None if px are not that fine."""


def fine_patch(
    grey: Pixels,
    counts: NDArray[np.uint8],
    scale: tuple[float, float],
    offset: tuple[float, float],
) -> FinePatch | None:
    """Average a patch [h, w] of the camera image over squares; None if they are hardly finer than search px.

    `counts`: non-zero where the patch counts; `scale`: px of the search image per px of the camera image,
    along y and x; `offset`: centre of the patch minus that of the template, (x, y), px of the search image.
    """
    side = max(1, math.ceil(max(grey.shape) / MOST_PX))
    patch = _patch_of(grey, counts, scale, offset, side)
    if patch is None and side > 1:
        # For a template as large as MOST_PX these squares are no finer than px of the search image.
        side = math.ceil(side / 2)
        patch = _patch_of(grey, counts, scale, offset, side)
    if patch is None or side == 1:
        return patch
    if aliasing_of(_whole_squares(grey, side), patch.mask, side) > MAX_ALIASING:
        patch = _patch_of(grey, counts, scale, offset, side, smooth=True)
    finer = _patch_of(grey, counts, scale, offset, math.ceil(side / 2), smooth=True)
    return None if patch is None else replace(patch, finer=finer)


def _patch_of(
    grey: Pixels,
    counts: NDArray[np.uint8],
    scale: tuple[float, float],
    offset: tuple[float, float],
    side: int,
    *,
    smooth: bool = False,
) -> FinePatch | None:
    """See `fine_patch`; `side`: side of a square, px of the camera image."""
    height, width = grey.shape
    rows, columns = height // side, width // side
    y_scale, x_scale = 1 / (side * scale[0]), 1 / (side * scale[1])
    least, most = sorted((x_scale, y_scale))
    if min(rows, columns) < LEAST_PX or most < MIN_GAIN or least < 1.0 - 1e-9:
        return None
    levels = _whole_squares(grey, side)
    values = averaged(levels, side)
    mask = averaged((_whole_squares(counts, side) != 0).astype(np.float32), side) > 0.5
    if not mask.any() or values[mask].std() < 1.0:
        return None
    top, left = (height - rows * side) // 2, (width - columns * side) // 2
    moved = left + columns * side / 2 - width / 2, top + rows * side / 2 - height / 2
    return FinePatch(
        averaged(smoothed(levels, side, side), side) if smooth else values,
        mask,
        x_scale,
        y_scale,
        (offset[0] + moved[0] / side / x_scale, offset[1] + moved[1] / side / y_scale),
        smooth,
    )


def coarser(patch: FinePatch) -> FinePatch | None:
    """The same patch in squares of twice the side; None if these are too few."""
    height, width = (length // 2 for length in patch.values.shape)
    mask = averaged(patch.mask.astype(np.float32), 2) > 0.5
    if min(height, width) < LEAST_PX or not mask.any():
        return None
    down, right = (length // 2 - length / 2 for length in patch.values.shape)
    x_scale, y_scale = patch.x_scale / 2, patch.y_scale / 2
    offset = patch.offset[0] + right / 2 / x_scale, patch.offset[1] + down / 2 / y_scale
    return FinePatch(averaged(patch.values, 2), mask, x_scale, y_scale, offset)


def _whole_squares(levels: NDArray[np.uint8], side: int) -> NDArray[np.float32]:
    """The middle part of an array [h, w] whose height and width are multiples of the side."""
    height, width = (length // side * side for length in levels.shape)
    top, left = (levels.shape[0] - height) // 2, (levels.shape[1] - width) // 2
    return levels[top : top + height, left : left + width].astype(np.float32)


def averaged(levels: NDArray[np.float32], side: int) -> NDArray[np.float32]:
    """Means of [h, w] over squares that begin at the first px; px that do not fill a square are left out."""
    rows, columns = levels.shape[0] // side, levels.shape[1] // side
    used = levels[: rows * side, : columns * side]
    averages: NDArray[np.float32] = cv2.resize(used, (columns, rows), interpolation=cv2.INTER_AREA)
    return averages


def smoothed(levels: NDArray[Any], x_side: float, y_side: float) -> NDArray[Any]:
    """Grey levels [h, w] without structure finer than squares of `x_side` by `y_side` px."""
    smooth: NDArray[Any] = cv2.GaussianBlur(levels, (0, 0), SMOOTHING * x_side, sigmaY=SMOOTHING * y_side)
    return smooth


def aliasing_of(levels: NDArray[np.float32], mask: NDArray[np.bool_], side: int) -> float:
    """Error of interpolation between squares, as a share of their contrast.

    `levels`: grey levels, [h * side, w * side]; `mask`: squares that count, bool [h, w]. Squares shifted by
    half a side are interpolated, and from these the original ones again.
    """
    half, around = side // 2, INTERPOLATION_REACH
    values, between = averaged(levels, side), averaged(levels[half:, half:], side)
    rows, columns = between.shape
    values, mask = values[:rows, :columns], mask[:rows, :columns]
    inner = slice(around, rows - around), slice(around, columns - around)
    errors = np.stack(
        [between - _moved(values, half / side), values - _moved(between, -half / side)], axis=-1
    )[inner][mask[inner]]
    if not errors.size:
        return 0.0
    return float(np.sqrt(np.mean(np.square(errors)))) / max(float(values[mask].std()), 1.0)


def _moved(values: NDArray[np.float32], shift: float) -> NDArray[np.float32]:
    """Values [h, w] interpolated at positions `shift` to the right and down."""
    matrix = np.array([[1.0, 0.0, shift], [0.0, 1.0, shift]])
    flags = cv2.INTER_CUBIC | cv2.WARP_INVERSE_MAP
    moved: NDArray[np.float32] = cv2.warpAffine(values, matrix, values.shape[::-1], flags=flags)
    return moved
