"""Searches images for one template, which may look smaller or larger there than where it was cut out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.algorithm import Frame
from edgetpu_perception.graphs import pattern_tracker_correlation as pattern
from edgetpu_perception.pattern_tracker.correlation_locator import Candidate, CorrelationLocator, Locator
from edgetpu_perception.pattern_tracker.fine_alignment import FineAligner
from edgetpu_perception.pattern_tracker.match_selection import Matcher, Matches
from edgetpu_perception.pattern_tracker.patch_alignment import Alignment
from edgetpu_perception.pattern_tracker.scale_search import ScaleSearch, scale_of


@dataclass(frozen=True)
class Finding:
    """The matches in an image that was resized to one size."""

    matches: Matches
    confidence: float
    """That the best match is the template, 0..1."""
    size: pattern.Size
    """Height and width of the resized image, of whose px positions are."""

    def is_valid(self, min_confidence: float) -> bool:
        """Whether there is a match of so much confidence."""
        return self.confidence > 0.0 and self.confidence >= min_confidence


class TemplateSearch:
    """Finds one template in images, with what is known from those before.

    The model's responses are for the template's own scale. Another scale is searched on the host: in every
    image that at which the template was found last, or while it is not found, one after another, and where
    something fits that had to be stretched for it, the scale that it was stretched to.
    """

    def __init__(
        self,
        matcher: Matcher,
        locator: Locator,
        correlator: CorrelationLocator,
        fine: FineAligner | None,
        scales: ScaleSearch,
        pool: int,
    ) -> None:
        """`locator`: finds candidates in the model's outputs; `correlator`: without the model.

        `fine`: None if the images have no more px than the model; `pool`: px of a cell along each axis.
        """
        self.locator = locator
        """Of the model that runs."""
        self._matcher, self._correlator = matcher, correlator
        self._fine, self._scales, self._pool = fine, scales, pool
        self._last: tuple[float, float] | None = None
        """Where it was found last, as shares of the whole image's width and height."""

    def find(
        self,
        frame: Frame,
        grey: NDArray[np.uint8],
        outputs: Mapping[str, NDArray[Any]],
        min_confidence: float,
    ) -> Finding:
        """Search an image; `grey` [H, W]: the model's input; `outputs`: the model's outputs by name.

        The best match is refined in the camera's px if it is valid.
        """
        found = self._find(frame, grey, outputs, min_confidence)
        if found.matches.best is None or not found.is_valid(min_confidence):
            self._scales.lost()
            return found
        best = self._refined(frame, found.matches.best, found.size)
        (height, width), region = found.size, frame.region
        self._last = (
            (region.x_offset + (best.x + 0.5) / width * region.width) / frame.image_width,
            (region.y_offset + (best.y + 0.5) / height * region.height) / frame.image_height,
        )
        self._scales.found(best.search_scale * scale_of(found.size, self._scales.search), frame)
        return Finding(replace(found.matches, best=best), found.confidence, found.size)

    def _find(
        self,
        frame: Frame,
        grey: NDArray[np.uint8],
        outputs: Mapping[str, NDArray[Any]],
        min_confidence: float,
    ) -> Finding:
        tracked = self._scales.tracked(frame)
        if tracked is not None:
            found = self._find_on_host(frame, tracked)
            if found.is_valid(min_confidence):
                return found
        by_model = self._rated(frame, grey, self.locator.find(pattern.cells(grey, self._pool), outputs))
        if tracked is not None or by_model.is_valid(min_confidence):
            return by_model
        found = by_model
        for in_turn in (False, True, False):
            size = self._scales.next(frame) if in_turn else self._suggested(frame, found)
            if size is not None:
                found = self._find_on_host(frame, size)
                if found.is_valid(min_confidence):
                    return found
        return by_model

    def _suggested(self, frame: Frame, found: Finding) -> pattern.Size | None:
        """Size in which the template would have its own size if it is what was found, stretched to fit."""
        best = found.matches.best
        if best is None or not self._matcher.is_promising(best):
            return None
        size = self._scales.size(best.scale * scale_of(found.size, self._scales.search), frame)
        return None if size == found.size else size

    def _find_on_host(self, frame: Frame, size: pattern.Size) -> Finding:
        grey = self._scales.resized(frame, size)
        candidates = self._correlator.find_without_model(pattern.cells(grey, self._pool))
        return self._rated(frame, grey, candidates)

    def _rated(self, frame: Frame, grey: NDArray[np.uint8], candidates: Sequence[Candidate]) -> Finding:
        height, width = grey.shape
        matches = self._matcher.match(grey, candidates, self._expected(frame, (height, width)))
        if matches.best is None:
            return Finding(matches, 0.0, (height, width))
        confidence = self._matcher.certainty(matches.best, matches.runner_up_score)
        return Finding(matches, confidence * (0.5 if matches.rivals else 1.0), (height, width))

    def _expected(self, frame: Frame, size: pattern.Size) -> tuple[float, float] | None:
        """Where it was found last, (x, y) px of the region in this size; None before."""
        if self._last is None:
            return None
        region, (height, width) = frame.region, size
        x = (self._last[0] * frame.image_width - region.x_offset) / region.width * width - 0.5
        y = (self._last[1] * frame.image_height - region.y_offset) / region.height * height - 0.5
        return x, y

    def _refined(self, frame: Frame, match: Alignment, size: pattern.Size) -> Alignment:
        """The match aligned at the resolution of the camera image, where that is higher."""
        if self._fine is None or frame.image is None:
            return match
        return self._fine.refine(frame.image.part(frame.region, 1), size, match)
