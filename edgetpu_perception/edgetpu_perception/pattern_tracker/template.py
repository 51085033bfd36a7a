"""From the patch a user gives to a template of the right size, and whether it is any good."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.graphs import pattern_correlation as pattern
from edgetpu_perception.images.encodings import ImageError, ImageFault, Pixels, check_image, to_grey
from edgetpu_perception.images.resizing import resize
from edgetpu_perception.pattern_tracker.expected_scores import NOISE
from edgetpu_perception.pattern_tracker.match_selection import Matcher, Matches

LEAST_CLARITY = 1.5
"""Logarithm of how much less a match leaves unexplained than chance does, for a template that is accepted."""

MOST_SIGMA = 0.25
"""Standard deviation of the position with pattern_expectation.NOISE up to which templates are good, px."""


class TemplateReason(enum.Enum):
    """Why a template was accepted or why it should not be."""

    GOOD = "it can be told from other things"
    FLAT = "it has no contrast"
    SLIDES = "it looks the same when moved along its edge"
    PLAIN = "it has too little structure: other things look like it by chance"
    REPEATED = "another place in the view it comes from looks like it"


@dataclass(frozen=True)
class TemplateOutcome:
    """What became of a patch."""

    accepted: bool
    """The tracker looks for it from now on."""
    ambiguous: bool
    """It may be confused with other things, for the reason given."""
    reason: TemplateReason
    message: str
    """The same as a sentence with the figures."""
    runner_up_score: float
    """Best score elsewhere in the view the patch comes from, -1..1; NaN without a view."""
    contrast: float
    """Standard deviation of the template, grey levels."""
    clipped: float
    """Share of its pixels that are black or white, where the camera may have cut off what is there, 0..1."""
    sigma: float
    """Expected error of a match along its worst axis with pattern_expectation.NOISE: one standard deviation,
    px of the search image."""


@dataclass(frozen=True, eq=False)
class View:
    """An image as the tracker sees it."""

    grey: NDArray[np.uint8]
    """[H, W], of the search image's size."""
    width: int
    """Of the image before it was resized, px."""
    height: int


@dataclass(frozen=True, eq=False)
class Template:
    """A patch brought to the template's size."""

    values: NDArray[np.float32]
    """Grey levels, [h, w] px of the search image."""
    mask: NDArray[np.bool_]
    """Where they count."""
    size: tuple[int, int]
    """Height and width of the part of it that the patch covers, px of the search image."""
    offset: tuple[float, float]
    """Where the patch's centre is (x, y), px from the template's."""
    clipped: float
    """Share of the patch's pixels that are black or white."""

    @property
    def contrast(self) -> float:
        """Standard deviation, grey levels."""
        return float(self.values[self.mask].std(dtype=np.float64))

    def cells(self, pool: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Values and mask as the convolution sees them: see pattern.cells."""
        return pattern.cells(self.values, pool), pattern.cells(self.mask.astype(np.float32), pool) > MOSTLY


MOSTLY = 0.9
"""Share of a cell under the mask from which on it counts."""


def fit(
    patch: Pixels, mask: NDArray[np.generic] | None, view: View | None, size: tuple[int, int]
) -> Template:
    """Bring a patch, and a mask of its size, to the template's `size`, height and width.

    With a view it keeps its scale: one that is too large is used up to the size of the template, around one
    that is too small nothing counts. Raises ImageError for arrays that are no patch and no mask for it.
    """
    grey = to_grey(check_image(patch))
    counts = np.ones(grey.shape, np.uint8) if mask is None else (np.asarray(mask) != 0).astype(np.uint8)
    if counts.shape != grey.shape or not counts.any():
        raise ImageError(
            ImageFault.ENCODING,
            f"expected a mask {list(grey.shape)} with something non-zero; got {list(counts.shape)}",
        )
    scales = (None, None)
    if view is not None:
        scales = view.grey.shape[0] / view.height, view.grey.shape[1] / view.width
    rows, columns = (_Span.of(*axis) for axis in zip(grey.shape, scales, size, strict=True))
    values = resize(grey[rows.used, columns.used], rows.length, columns.length)
    share = resize(counts[rows.used, columns.used] * np.uint8(255), rows.length, columns.length)
    covered = np.pad(share > 127, (rows.around, columns.around))
    if not covered.any():
        raise ImageError(ImageFault.ENCODING, "expected a mask that leaves something of the template")
    return Template(
        values=np.pad(values.astype(np.float32), (rows.around, columns.around), mode="edge"),
        mask=covered,
        size=(rows.length, columns.length),
        offset=(columns.offset, rows.offset),
        clipped=float(np.mean((grey == 0) | (grey == 255))),
    )


@dataclass(frozen=True)
class _Span:
    """How a patch becomes a template along one axis."""

    used: slice
    """Px of the patch."""
    length: int
    """What they make, px of the template ..."""
    around: tuple[int, int]
    """... and how many px are before and after it."""
    offset: float
    """The patch's centre from the template's, px of the template."""

    @classmethod
    def of(cls, length: int, scale: float | None, most: int) -> _Span:
        """`length` px, `scale` px of the template each, or so many that they become `most`, its length."""
        if scale is None:
            return cls(slice(None), most, (0, 0), 0.0)
        made = min(max(math.floor(length * scale + 1e-6), 1), most)
        part = min(max(round(made / scale), 1), length)
        first, before = (length - part) // 2, (most - made) // 2
        cut = (length - part) / 2 - first
        offset = cut * scale + before - (most - made) / 2
        return cls(slice(first, first + part), made, (before, most - made - before), offset)


def judge(
    template: Template, matcher: Matcher | None, matches: Matches | None, accept_ambiguous: bool
) -> TemplateOutcome:
    """Say whether to take a template, from what its matcher expects and what was found in its view.

    No matcher: the template has no contrast.
    """
    runner_up = math.nan if matches is None else matches.runner_up_score
    sigma = math.inf if matcher is None else matcher.sigma(NOISE)
    reason = TemplateReason.GOOD
    if matcher is None:
        reason, figures = TemplateReason.FLAT, "all its pixels are the same"
    elif matcher.expectation.clarity < LEAST_CLARITY:
        reason = TemplateReason.PLAIN
        figures = (
            f"its contrast is {template.contrast:.1f} grey levels, and with noise it resembles itself only "
            f"{math.exp(matcher.expectation.clarity):.1f} times better than other pictures"
        )
    elif sigma > MOST_SIGMA:
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
