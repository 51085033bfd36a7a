"""Fit a patch to the template size, and decide whether it is a good template."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.images.encodings import ImageError, ImageFault, Pixels, check_image, to_grey
from edgetpu_driver.images.resizing import resize
from edgetpu_perception.graphs import pattern_tracker_correlation as pattern
from edgetpu_perception.pattern_tracker.expected_scores import EXPECTED_NOISE
from edgetpu_perception.pattern_tracker.fine_patch import FinePatch, fine_patch
from edgetpu_perception.pattern_tracker.match_selection import Matcher, Matches

MIN_CLARITY = 1.5
"""Smallest `clarity` (see ExpectedScores) of a template that is accepted.

Rows: pattern, accepted, of all patches and within 1 px.
"""

MAX_SIGMA_PX = 0.25
"""Largest standard deviation of the position with EXPECTED_NOISE for a good template, px.

Derived: a quarter of the 1 px within which matches count as right.
"""


class TemplateReason(enum.Enum):
    """Why a template was accepted or why it should not be."""

    GOOD = "it can be distinguished from other objects"
    FLAT = "it has no contrast"
    SLIDES = "it looks the same when moved along its edge"
    PLAIN = "it has too little structure: other objects look like it by chance"
    REPEATED = "another place in the view it comes from looks like it"


@dataclass(frozen=True)
class TemplateOutcome:
    """Whether a patch was accepted as a template, and why."""

    accepted: bool
    """The tracker uses it from now on."""
    ambiguous: bool
    """It may be confused with other objects, for the reason given."""
    reason: TemplateReason
    message: str
    """The reason as a sentence with figures."""
    runner_up_score: float
    """Best score elsewhere in the view the patch comes from, -1..1; NaN without a view."""
    contrast: float
    """Standard deviation of the template, grey levels."""
    clipped: float
    """Share of its pixels, 0..1, that are black or white and may be clipped."""
    sigma: float
    """Expected error of a match along its worst axis with EXPECTED_NOISE: one standard deviation, px of the
    search image."""


@dataclass(frozen=True, eq=False)
class View:
    """An image resized for the tracker."""

    grey: NDArray[np.uint8]
    """[H, W], of the search image's size."""
    width: int
    """Size of the image, or its region, before it was resized, px."""
    height: int
    region_scale: float
    """See Frame.region_scale."""


@dataclass(frozen=True, eq=False)
class Template:
    """A patch fitted to the template's size."""

    values: NDArray[np.float32]
    """Grey levels, [h, w] px of the search image."""
    mask: NDArray[np.bool_]
    """bool [h, w]: the pixels that count."""
    size: tuple[int, int]
    """Height and width of the part that the patch covers, px of the search image."""
    offset: tuple[float, float]
    """Centre of the patch minus that of the template, (x, y), px of the search image."""
    clipped: float
    """Share of the patch's pixels that are black or white, 0..1."""
    fine: FinePatch | None = None
    """The patch at the resolution of the camera image, where that is higher."""
    region_scale: float | None = None
    """Frame.region_scale of the view that the patch was cut out of; None if unknown."""
    px_aspect: float | None = None
    """Width over height of a px of the template, measured in px of the patch; None if unknown."""

    @property
    def contrast(self) -> float:
        """Standard deviation, grey levels."""
        return float(self.values[self.mask].std(dtype=np.float64))

    def cells(self, pool: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Values and mask in cells of the convolution: see pattern_tracker_correlation.cells."""
        coverage = pattern.cells(self.mask.astype(np.float32), pool)
        return pattern.cells(self.values, pool), coverage > MIN_CELL_COVERAGE


MIN_CELL_COVERAGE = 0.9
"""Share of a cell under the mask above which the cell counts.

Rows: none, as the patches have no mask; it is 1 minus a tenth of a cell.
"""


def fit(
    patch: Pixels, mask: NDArray[np.generic] | None, view: View | None, size: tuple[int, int]
) -> Template:
    """Fit a patch and its mask, [h, w], to the template's `size` (height, width).

    With a view the patch keeps its scale: a larger patch is cropped to the template, and around a smaller one
    nothing counts. Without a view it is resized. Raises ImageError for unsuitable arrays.
    """
    grey = to_grey(check_image(patch))
    counts = _counted(mask, grey.shape)
    scales = (None, None)
    if view is not None:
        scales = view.grey.shape[0] / view.height, view.grey.shape[1] / view.width
    rows, columns = (_Span.of(*axis) for axis in zip(grey.shape, scales, size, strict=True))
    values = resize(grey[rows.used, columns.used], rows.length, columns.length)
    share = resize(counts[rows.used, columns.used] * np.uint8(255), rows.length, columns.length)
    covered = np.pad(share > 127, (rows.around, columns.around))
    if not covered.any():
        raise ImageError(
            ImageFault.MASK, "expected a mask that covers at least one px of the template; got none"
        )
    centre = tuple(axis.around[0] - sum(axis.around) / 2 for axis in (columns, rows))
    return Template(
        fine=fine_patch(
            grey[rows.used, columns.used],
            counts[rows.used, columns.used],
            (rows.scale, columns.scale),
            (centre[0], centre[1]),
        ),
        values=np.pad(values.astype(np.float32), (rows.around, columns.around), mode="edge"),
        mask=covered,
        size=(rows.length, columns.length),
        offset=(columns.offset, rows.offset),
        clipped=float(np.mean((grey == 0) | (grey == 255))),
        region_scale=None if view is None else view.region_scale,
        px_aspect=rows.scale / columns.scale,
    )


def _counted(mask: NDArray[np.generic] | None, shape: tuple[int, ...]) -> Pixels:
    """1 for each pixel of a patch that counts, otherwise 0; ImageError for an unsuitable mask."""
    if mask is None:
        return np.ones(shape, np.uint8)
    counts: Pixels = (np.asarray(mask) != 0).astype(np.uint8)
    if counts.shape != shape:
        raise ImageError(
            ImageFault.MASK, f"expected a mask of the patch's shape {list(shape)}; got {list(counts.shape)}"
        )
    if not counts.any():
        raise ImageError(ImageFault.MASK, "expected a mask with something non-zero; got zeros only")
    return counts


@dataclass(frozen=True)
class _Span:
    """Fit of a patch to a template along one axis."""

    used: slice
    """Px of the patch that are used."""
    length: int
    """Number of px of the template that they fill ..."""
    around: tuple[int, int]
    """... and numbers of px before and after them."""
    offset: float
    """Centre of the patch minus that of the template, px of the template."""
    scale: float
    """Px of the search image per px of the patch: `length` is this times the px used, but for rounding."""

    @classmethod
    def of(cls, length: int, scale: float | None, most: int) -> _Span:
        """Fit `length` px to at most `most` px of the template, `scale` each; None: resize them to `most`."""
        if scale is None:
            return cls(slice(None), most, (0, 0), 0.0, most / length)
        made = min(max(math.floor(length * scale + 1e-6), 1), most)
        part = min(max(round(made / scale), 1), length)
        first, before = (length - part) // 2, (most - made) // 2
        cut = (length - part) / 2 - first
        offset = cut * scale + before - (most - made) / 2
        return cls(slice(first, first + part), made, (before, most - made - before), offset, scale)


def judge(
    template: Template, matcher: Matcher | None, matches: Matches | None, accept_ambiguous: bool
) -> TemplateOutcome:
    """Decide whether to accept a template, by its expected scores and the matches in its view.

    `matcher` is None for a template without contrast; `matches` is None without a view.
    """
    runner_up = math.nan if matches is None else matches.runner_up_score
    sigma = math.inf if matcher is None else matcher.sigma(EXPECTED_NOISE)
    reason = TemplateReason.GOOD
    if matcher is None:
        height, width = template.size
        reason, figures = TemplateReason.FLAT, f"resized, it is {width}x{height} px of one grey level"
    elif matcher.expected.clarity < MIN_CLARITY:
        reason = TemplateReason.PLAIN
        figures = (
            f"its contrast is {template.contrast:.1f} grey levels, and with noise it resembles itself only "
            f"{math.exp(matcher.expected.clarity):.1f} times better than other objects do"
        )
    elif sigma > MAX_SIGMA_PX:
        reason, figures = TemplateReason.SLIDES, f"noise would move it by {sigma:.2f} px"
    elif matches is not None and matches.rivals:
        reason, figures = TemplateReason.REPEATED, f"with a score of {runner_up:.3f}"
    else:
        figures = f"contrast {template.contrast:.0f} grey levels, noise moves it by {sigma:.2f} px"
    ambiguous = reason is not TemplateReason.GOOD
    accepted = not ambiguous or (accept_ambiguous and matcher is not None)
    verdict = ("accepted as asked, although" if ambiguous else "accepted:") if accepted else "refused:"
    return TemplateOutcome(
        accepted=accepted,
        ambiguous=ambiguous,
        reason=reason,
        message=f"{verdict} {reason.value} ({figures})",
        runner_up_score=runner_up,
        contrast=template.contrast,
        clipped=template.clipped,
        sigma=sigma,
    )
