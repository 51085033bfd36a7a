"""Searches images for one template, which may look smaller or larger there than where it was cut out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.algorithm import Frame
from edgetpu_perception.graphs import pattern_tracker_correlation as pattern
from edgetpu_perception.pattern_tracker.correlation_locator import Candidate, CorrelationLocator, Locator
from edgetpu_perception.pattern_tracker.fine_alignment import Confirmation, FineAligner
from edgetpu_perception.pattern_tracker.match_selection import (
    MAX_POSE_DEVIATION,
    MIN_CERTAINTY,
    Matcher,
    Matches,
)
from edgetpu_perception.pattern_tracker.patch_alignment import GROWTH_SIGMA, TURN_SIGMA
from edgetpu_perception.pattern_tracker.plane_alignment import Homography
from edgetpu_perception.pattern_tracker.scale_search import ScaleSearch, scale_of


@dataclass(frozen=True)
class Finding:
    """The matches in an image that was resized to one size."""

    matches: Matches
    confidence: float
    """Confidence that the best match is the template, 0..1."""
    size: pattern.Size
    """Height and width of the resized image; positions are in its px."""

    def is_valid(self, min_confidence: float) -> bool:
        """Whether there is a match with at least this confidence."""
        return self.confidence > 0.0 and self.confidence >= min_confidence


class TemplateSearch:
    """Finds one template in images, with what is known from previous images.

    The model's responses are for the template's own scale. Other scales are searched on the host: in every
    image the scale at which the template was found last; while it is not found, one scale after another; and
    if a match fits only when stretched, the scale that it was stretched to.
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
        """Finds candidates in the outputs of the model that runs."""
        self._matcher, self._correlator = matcher, correlator
        self._fine, self._scales, self._pool = fine, scales, pool
        self._last: tuple[float, float] | None = None
        """Where the template was found last, as shares of the whole image's width and height."""
        self._tilted: Homography | None = None
        """The `to_image` of the last Confirmation; None once the template is lost."""

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
        tried: list[Finding] = []
        for found in self._findings(frame, grey, outputs):
            if found.is_valid(min_confidence):
                refined = self._refined(frame, found)
                if refined is not None:
                    return self._placed(frame, refined)
                found = replace(found, confidence=0.0)
            tried.append(found)
            if self._tilted is not None and len(tried) == 1:  # first try where it was confirmed last
                confirmed = self._confirmed(frame, tried, min_confidence)
                if confirmed is not None:
                    return self._placed(frame, confirmed)
        confirmed = self._confirmed(frame, tried, min_confidence)
        if confirmed is not None:
            return self._placed(frame, confirmed)
        self._scales.lost()
        self._tilted = None
        return next(found for found in tried if found.size == grey.shape)

    def _placed(self, frame: Frame, found: Finding) -> Finding:
        """Keep the position and scale of a finding for the next images; returns the finding."""
        best, (height, width), region = found.matches.best, found.size, frame.region
        assert best is not None
        self._last = (
            (region.x_offset + (best.x + 0.5) / width * region.width) / frame.image_width,
            (region.y_offset + (best.y + 0.5) / height * region.height) / frame.image_height,
        )
        self._scales.found(best.search_scale * scale_of(found.size, self._scales.search), frame)
        return found

    def _findings(
        self, frame: Frame, grey: NDArray[np.uint8], outputs: Mapping[str, NDArray[Any]]
    ) -> Iterator[Finding]:
        """Matches at one scale after another, the likely ones first."""
        tracked = self._scales.tracked(frame)
        if tracked is not None:
            yield self._find_on_host(frame, tracked, other_scale=False)
        candidates = self.locator.find(pattern.cells(grey, self._pool), outputs)
        found = self._rated(frame, grey, candidates, other_scale=tracked is not None)
        yield found
        if tracked is not None:
            return
        for in_turn in (False, True, False):
            size = self._scales.next(frame) if in_turn else self._suggested(frame, found)
            if size is not None:
                found = self._find_on_host(frame, size, other_scale=True)
                yield found

    def _confirmed(self, frame: Frame, tried: Sequence[Finding], min_confidence: float) -> Finding | None:
        """The best of several doubtful findings, if the camera image shows that it is the template.

        A tilted template is recognised better in the camera's px than in those of the model.
        """
        found = max(tried, key=self._promise)
        matches = found.matches
        if self._fine is None or frame.image is None or matches.best is None:
            return None
        part = frame.image.part(frame.region, 1)
        doubtful = (matches.best, *matches.rivals) if self._matcher.is_promising(matches.best) else ()
        confirmed = [self._fine.confirm(part, found.size, match) for match in doubtful]
        if self._tilted is not None and not any(confirmed):
            confirmed = [self._fine.confirm(part, found.size, matches.best, self._tilted)]
        known = [each for each in confirmed if each and self._is_looked_for(frame, found.size, each)]
        if not known:
            return None
        best, *rivals = sorted(known, key=lambda each: -each.share)
        self._tilted = best.to_image
        matches = Matches(best.match, matches.runner_up_score, tuple(each.match for each in rivals))
        certainty = MIN_CERTAINTY + (1.0 - MIN_CERTAINTY) * best.surplus
        finding = Finding(matches, certainty * (0.5 if rivals else 1.0), found.size)
        return finding if finding.is_valid(min_confidence) else None

    def _is_looked_for(self, frame: Frame, size: pattern.Size, confirmed: Confirmation) -> bool:
        """Whether rotation and scale, apart from those of the tilt, are within the limits of matches."""
        scale = confirmed.frontal_scale * scale_of(size, self._scales.search)
        growth = self._scales.excess(scale, frame)
        return math.hypot(confirmed.turn / TURN_SIGMA, growth / GROWTH_SIGMA) <= MAX_POSE_DEVIATION

    def _promise(self, found: Finding) -> tuple[bool, float]:
        """A sort key: larger if a finding is more likely to be the template."""
        best = found.matches.best
        return (False, -1.0) if best is None else (self._matcher.is_promising(best), best.score)

    def _suggested(self, frame: Frame, found: Finding) -> pattern.Size | None:
        """Size of an image in which a match that was stretched to fit would have the template's own size."""
        best = found.matches.best
        if best is None or not self._matcher.is_promising(best):
            return None
        size = self._scales.size(best.scale * scale_of(found.size, self._scales.search), frame)
        return None if size == found.size else size

    def _find_on_host(self, frame: Frame, size: pattern.Size, *, other_scale: bool) -> Finding:
        grey = self._scales.resized(frame, size)
        candidates = self._correlator.find_without_model(pattern.cells(grey, self._pool))
        return self._rated(frame, grey, candidates, other_scale=other_scale)

    def _rated(
        self,
        frame: Frame,
        grey: NDArray[np.uint8],
        candidates: Sequence[Candidate],
        *,
        other_scale: bool,
    ) -> Finding:
        height, width = grey.shape
        matches = self._matcher.match(grey, candidates, self._expected(frame, (height, width)))
        if matches.best is None:
            return Finding(matches, 0.0, (height, width))
        best, other = matches.best, matches.runner_up_score
        confidence = self._matcher.certainty(best, other, other_scale=other_scale)
        return Finding(matches, confidence * (0.5 if matches.rivals else 1.0), (height, width))

    def _expected(self, frame: Frame, size: pattern.Size) -> tuple[float, float] | None:
        """Where the template was found last, (x, y) px of the region in this size; None if nowhere yet."""
        if self._last is None:
            return None
        region, (height, width) = frame.region, size
        x = (self._last[0] * frame.image_width - region.x_offset) / region.width * width - 0.5
        y = (self._last[1] * frame.image_height - region.y_offset) / region.height * height - 0.5
        return x, y

    def _refined(self, frame: Frame, found: Finding) -> Finding | None:
        """Align the best match at the resolution of the camera image, if that is higher.

        Returns None if the camera image shows something other than the template.
        """
        best = found.matches.best
        if self._fine is None or frame.image is None or best is None:
            return found
        best = self._fine.refine(frame.image.part(frame.region, 1), found.size, best)
        return None if best is None else replace(found, matches=replace(found.matches, best=best))
