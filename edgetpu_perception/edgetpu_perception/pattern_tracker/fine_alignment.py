"""Refines a match at the resolution of the camera image, of which the model sees a reduced copy."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.images.encodings import Pixels
from edgetpu_perception.pattern_tracker.patch_alignment import ROUNDING_PX, Aligner, Alignment

MOST_PX = 32
"""Largest width and height of a fine patch, px; a larger one is averaged over squares. Limits the time.

Rows: pattern, whole picture, within 2 px.
"""

LEAST_PX = 8
"""Smallest width and height of a fine patch, px. Derived: those of a small template."""

MIN_GAIN = 1.2
"""Least number of fine px per px of the search image along an axis for which it is refined.

Limits the time. Uncritical.
"""

MARGIN_PX = 2
"""Fine px around a patch that are cut out with it.

Derived: the reach of the alignment and of its interpolation. Limits the time.
"""

REACH_PX = 1.5
"""How far a match in the search image may be off, fine px along an axis.

Derived: a third of a px of the search image, with 5 fine px to one.
"""

CONVERGED_PX = 0.15
"""A step that moves no corner of the patch by more than this is the last one, fine px: steps converge
quadratically. Rows: pattern, whole picture, within 2 px."""

LARGEST_GROWTH = 1.1
"""Size of what is cut out over that of the patch, besides MARGIN_PX.

Derived: 5 degrees and 5 %, which a pattern may turn and grow.
"""


MAX_ALIASING = 0.3
"""Largest error of squares interpolated between those of a patch, as a share of its contrast.

Beyond it, structure finer than squares leads alignments astray. Rows: pattern, whole picture, inside one
sigma; 82 to 94 % of the patches of photographs are below.
"""

INTERPOLATION_REACH = 2
"""Squares along the sides of a patch that are interpolated with what is beyond.

Derived: that of cubic interpolation.
"""

SMOOTHING = 0.6
"""Standard deviation of the blur before averaging that removes structure finer than squares, in squares.

Derived: with the average over a square itself it leaves 11 % of a wave of two squares, and 2 % of one of 1.5.
"""


@dataclass(frozen=True, eq=False)
class FinePatch:
    """What a template covers, in squares of px of the camera image."""

    values: NDArray[np.float32]
    """Grey levels, [h, w]."""
    mask: NDArray[np.bool_]
    """bool [h, w]: the squares that count."""
    x_scale: float
    """Squares per px of the search image along x ..."""
    y_scale: float
    """... and along y."""
    offset: tuple[float, float]
    """Centre of these squares minus that of the template, (x, y), px of the search image."""
    smooth: bool = False
    """Whether structure finer than squares was removed, as it is to be in images ..."""
    finer: FinePatch | None = None
    """... and if so, the same in squares of half the side."""


def fine_patch(
    grey: Pixels,
    counts: NDArray[np.uint8],
    scale: tuple[float, float],
    offset: tuple[float, float],
) -> FinePatch | None:
    """Average a patch [h, w] of the camera image over squares; None if it has hardly more px than that.

    `counts`: non-zero where the patch counts; `scale`: px of the search image per px of the camera image,
    along y and x; `offset`: its centre minus that of the template, (x, y), px of the search image.
    """
    side = max(1, math.ceil(max(grey.shape) / MOST_PX))
    patch = _patch_of(grey, counts, scale, offset, side)
    if patch is None or aliasing_of(_whole_squares(grey, side), patch.mask, side) <= MAX_ALIASING:
        return patch
    coarse, finer = (
        _patch_of(grey, counts, scale, offset, each, smooth=True) for each in (side, math.ceil(side / 2))
    )
    return None if coarse is None else replace(coarse, finer=finer)


def _patch_of(
    grey: Pixels,
    counts: NDArray[np.uint8],
    scale: tuple[float, float],
    offset: tuple[float, float],
    side: int,
    *,
    smooth: bool = False,
) -> FinePatch | None:
    """See `fine_patch`; `side`: that of the squares, px of the camera image."""
    height, width = grey.shape
    rows, columns = height // side, width // side
    y_scale, x_scale = 1 / (side * scale[0]), 1 / (side * scale[1])
    least, most = sorted((x_scale, y_scale))
    if min(rows, columns) < LEAST_PX or most < MIN_GAIN or least < 1.0 - 1e-9:
        return None
    levels = _whole_squares(grey, side)
    values = _averaged(levels, side)
    mask = _averaged((_whole_squares(counts, side) != 0).astype(np.float32), side) > 0.5
    if not mask.any() or values[mask].std() < 1.0:
        return None
    top, left = (height - rows * side) // 2, (width - columns * side) // 2
    moved = left + columns * side / 2 - width / 2, top + rows * side / 2 - height / 2
    return FinePatch(
        _averaged(_smoothed(levels, side, side), side) if smooth else values,
        mask,
        x_scale,
        y_scale,
        (offset[0] + moved[0] / side / x_scale, offset[1] + moved[1] / side / y_scale),
        smooth,
    )


def _whole_squares(levels: NDArray[np.uint8], side: int) -> NDArray[np.float32]:
    """The middle of an array [h, w], whose height and width are multiples of the side."""
    height, width = (length // side * side for length in levels.shape)
    top, left = (levels.shape[0] - height) // 2, (levels.shape[1] - width) // 2
    return levels[top : top + height, left : left + width].astype(np.float32)


def _averaged(levels: NDArray[np.float32], side: int) -> NDArray[np.float32]:
    """Means over squares that begin at the first px; px that fill none are left out."""
    rows, columns = levels.shape[0] // side, levels.shape[1] // side
    used = levels[: rows * side, : columns * side]
    averages: NDArray[np.float32] = cv2.resize(used, (columns, rows), interpolation=cv2.INTER_AREA)
    return averages


def _smoothed(levels: NDArray[Any], x_side: float, y_side: float) -> NDArray[Any]:
    """Grey levels [h, w] without structure finer than squares of so many px along x and y."""
    smooth: NDArray[Any] = cv2.GaussianBlur(levels, (0, 0), SMOOTHING * x_side, sigmaY=SMOOTHING * y_side)
    return smooth


def aliasing_of(levels: NDArray[np.float32], mask: NDArray[np.bool_], side: int) -> float:
    """Error of squares that are interpolated between squares, as a share of their contrast.

    `levels`: grey levels, [h * side, w * side]; `mask`: bool [h, w], the squares that count. Squares half a
    square off are interpolated, and the squares themselves from these.
    """
    half, around = side // 2, INTERPOLATION_REACH
    values, between = _averaged(levels, side), _averaged(levels[half:, half:], side)
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
    """Values [h, w] interpolated at positions that are `shift` farther right and down."""
    matrix = np.array([[1.0, 0.0, shift], [0.0, 1.0, shift]])
    flags = cv2.INTER_CUBIC | cv2.WARP_INVERSE_MAP
    moved: NDArray[np.float32] = cv2.warpAffine(values, matrix, values.shape[::-1], flags=flags)
    return moved


class FineAligner:
    """Aligns one fine patch, starting from matches in the search image."""

    def __init__(self, patch: FinePatch) -> None:
        self._patch = patch
        self._aligner = Aligner(
            patch.values,
            patch.mask,
            REACH_PX,
            converged=CONVERGED_PX,
            sigma_floor=ROUNDING_PX,
            blur=SMOOTHING if patch.smooth else 0.0,
        )
        self._finer = None if patch.finer is None else FineAligner(patch.finer)

    def refine(self, image: Pixels, search: tuple[int, int], match: Alignment) -> Alignment:
        """The match aligned in the image [H, W], of which the search image is a copy.

        `search`: height and width of that copy; position and sigmas stay in its px. Returns the same match
        if it cannot be improved.
        """
        refined = self._refine(image, search, match)
        return refined if self._finer is None else self._finer.refine(image, search, refined)

    def _refine(self, image: Pixels, search: tuple[int, int], match: Alignment) -> Alignment:
        """The match aligned in squares of one size."""
        patch = self._patch
        x_cell, y_cell = image.shape[1] / search[1], image.shape[0] / search[0]  # px of the image
        x_side, y_side = x_cell / patch.x_scale, y_cell / patch.y_scale  # px of the image in a fine px
        if min(x_side, y_side) < 0.9:  # the image has fewer px than the patch
            return match
        u = (match.x + patch.offset[0] + 0.5) * x_cell
        v = (match.y + patch.offset[1] + 0.5) * y_cell
        height, width = patch.values.shape
        left, columns = _span(u, x_side, width, image.shape[1])
        top, rows = _span(v, y_side, height, image.shape[0])
        if columns < 2 or rows < 2:
            return match
        part = image[top : top + round(rows * y_side), left : left + round(columns * x_side)]
        x_side, y_side = part.shape[1] / columns, part.shape[0] / rows
        if patch.smooth:
            part = _smoothed(part, x_side, y_side)
        levels = self._aligner.levels(cv2.resize(part, (columns, rows), interpolation=cv2.INTER_AREA))
        x, y = (u - left) / x_side - 0.5, (v - top) / y_side - 0.5
        found = self._aligner.align(levels, x, y, pose=(match.cosine, match.sine))
        x_sigma, y_sigma = found.x_sigma * x_side / x_cell, found.y_sigma * y_side / y_cell
        if x_sigma + y_sigma > match.x_sigma + match.y_sigma:
            return match
        grown = math.sqrt(x_side * patch.x_scale / x_cell * (y_side * patch.y_scale / y_cell))
        return match._replace(
            x=(left + (found.x + 0.5) * x_side) / x_cell - 0.5 - patch.offset[0],
            y=(top + (found.y + 0.5) * y_side) / y_cell - 0.5 - patch.offset[1],
            cosine=grown * found.cosine,
            sine=grown * found.sine,
            x_sigma=x_sigma,
            y_sigma=y_sigma,
            growth_sigma=found.growth_sigma,
        )


def _span(center: float, side: float, length: int, last: int) -> tuple[int, int]:
    """First px of an image around a patch of `length` fine px, and how many fine px from there to take.

    The squares of the patch begin where those of the image do if the match is right: then both averages are
    the same.
    """
    first = round(center - length / 2 * side)
    margin = min(round(length / 2 * (LARGEST_GROWTH - 1.0)) + MARGIN_PX, max(int(first / side), 0))
    first = max(first - round(margin * side), 0)
    return first, min(
        length + 2 * MARGIN_PX + int(length * (LARGEST_GROWTH - 1.0)), int((last - first) / side)
    )
