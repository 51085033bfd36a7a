"""Refines a match at the resolution of the camera image, of which the model sees a reduced copy."""

from __future__ import annotations

import math
from dataclasses import dataclass

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
    height, width = grey.shape
    side = max(1, math.ceil(max(height, width) / MOST_PX))
    rows, columns = height // side, width // side
    y_scale, x_scale = 1 / (side * scale[0]), 1 / (side * scale[1])
    least, most = sorted((x_scale, y_scale))
    if min(rows, columns) < LEAST_PX or most < MIN_GAIN or least < 1.0 - 1e-9:
        return None
    top, left = (height - rows * side) // 2, (width - columns * side) // 2
    used = slice(top, top + rows * side), slice(left, left + columns * side)
    size = columns, rows
    values = cv2.resize(grey[used].astype(np.float32), size, interpolation=cv2.INTER_AREA)
    share = cv2.resize((counts[used] != 0).astype(np.float32), size, interpolation=cv2.INTER_AREA)
    mask = share > 0.5
    if not mask.any() or values[mask].std() < 1.0:
        return None
    moved = left + columns * side / 2 - width / 2, top + rows * side / 2 - height / 2
    return FinePatch(
        values,
        mask,
        x_scale,
        y_scale,
        (offset[0] + moved[0] / side / x_scale, offset[1] + moved[1] / side / y_scale),
    )


class FineAligner:
    """Aligns one fine patch, starting from matches in the search image."""

    def __init__(self, patch: FinePatch) -> None:
        self._patch = patch
        self._aligner = Aligner(
            patch.values, patch.mask, REACH_PX, converged=CONVERGED_PX, sigma_floor=ROUNDING_PX
        )

    def refine(self, image: Pixels, search: tuple[int, int], match: Alignment) -> Alignment:
        """The match aligned in the image [H, W], of which the search image is a copy.

        `search`: height and width of that copy; position and sigmas stay in its px. Returns the same match
        if it cannot be improved.
        """
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
