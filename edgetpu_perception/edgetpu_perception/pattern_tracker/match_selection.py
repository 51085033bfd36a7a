"""From candidates for the place of a patch to aligned matches and what they are worth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.pattern_tracker.correlation_locator import Candidate, WindowScores
from edgetpu_perception.pattern_tracker.expected_scores import Expectation, expect
from edgetpu_perception.pattern_tracker.patch_alignment import Aligner, Alignment

MOST_ALIGNED = 3

REACH = 2.5
"""How far, in cells, a candidate may be from the place; they are chosen farther apart than this."""

RIVAL = 1.5
"""A place is a rival when it leaves no more than this times what the best one leaves unexplained."""

EQUAL = 1.3
"""The same for places between which noise decides."""

LIMIT = (0.3, 0.5, 1.6)
"""Logarithm of how many times more than expected a match may leave unexplained: share of the template's
clarity, and the least and the most."""

LEAST_SCORE_MARGIN = 0.1
"""A place may score so much less before its alignment than the worst try of the template did."""

BELIEVABLE = 0.2
"""Certainty of a match at its limit."""

CONTRASTS = (0.3, 3.0)
"""Contrast of a match over that of the patch, least and most."""


@dataclass(frozen=True)
class Matches:
    """What was found in one image."""

    best: Alignment | None
    """The place that is the patch most likely; None: nothing like it."""
    runner_up_score: float
    """Highest score elsewhere; NaN when there is no other place."""
    rivals: tuple[Alignment, ...] = ()
    """Other places that may be the patch just as well."""


class Matcher:
    """Knows one patch: aligns candidates and says how far to believe them."""

    def __init__(self, patch: NDArray[np.float32], mask: NDArray[np.bool_], pool: int) -> None:
        """`patch`: grey levels, float32 [h, w] px; `pool`: px per cell of the candidates, each way."""
        self._pool = pool
        self._windows = WindowScores(patch, mask)
        self._center = ((patch.shape[1] - 1) / 2, (patch.shape[0] - 1) / 2)
        self._apart = 2.0 * pool
        self._aligner = Aligner(patch, mask, REACH, pool)
        self.expectation: Expectation = expect(patch, mask, self._aligner)
        share, least, most = LIMIT
        self._limit = min(max(share * self.expectation.clarity, least), most)
        self._least_score = self.expectation.least_start - LEAST_SCORE_MARGIN

    def sigma(self, noise: float) -> float:
        """See Aligner.sigma."""
        return self._aligner.sigma(noise)

    def match(
        self,
        image: NDArray[np.uint8],
        candidates: Sequence[Candidate],
        near: tuple[float, float] | None = None,
    ) -> Matches:
        """Align candidates, the most likely first, in an image of grey levels.

        Of places that differ by no more than noise the one nearest to `near` is the best.
        """
        levels = self._aligner.levels(image)
        places, left = self._align(levels, candidates)
        if not places:
            return Matches(None, math.nan)
        if 1.0 - places[0].score > self.expectation.unexplained:
            places[0] = self._aligner.clipped(levels, places[0])
        best, normal = places[0], self._normal(places[0])
        if near is not None:
            equal = (place for place in places if 1.0 - place.score <= EQUAL * normal)
            best = min(equal, key=lambda place: math.dist((place.x, place.y), near))
        others = [place for place in places if place is not best]
        scores = [place.score for place in others] + [c.score for c in left if self._far(c, best)]
        rivals = tuple(place for place in others if 1.0 - place.score <= RIVAL * normal)
        return Matches(best, max(scores, default=math.nan), rivals)

    def _align(
        self, levels: Sequence[NDArray[np.float32]], candidates: Sequence[Candidate]
    ) -> tuple[list[Alignment], list[Candidate]]:
        """Places from the highest score on, and the candidates that cannot be the patch."""
        places: list[Alignment] = []
        left: list[Candidate] = []
        hope = -1.0
        for candidate in self._in_pixels(levels[0], candidates):
            if len(places) == MOST_ALIGNED or (places and candidate.score < self._least_score):
                left.append(candidate)
                continue
            place = self._aligner.align(levels, *self._center_of(candidate), hope)
            twin = next((i for i, other in enumerate(places) if self._same(place, other)), None)
            if twin is None:
                places.append(place)
            else:
                places[twin] = max(places[twin], place)
            hope = max(hope, 1.0 - RIVAL * self._normal(place))
        return sorted(places, reverse=True), left

    def certainty(self, place: Alignment) -> float:
        """How surely a place is the patch: 1 for what is expected of it, BELIEVABLE at the limit; 0..1."""
        least, most = CONTRASTS
        if not least < place.gain < most:
            return 0.0
        surplus = math.log(max(1.0 - place.score, 1e-9) / self.expectation.unexplained)
        return min(max(1.0 - (1.0 - BELIEVABLE) * surplus / self._limit, 0.0), 1.0)

    def _normal(self, place: Alignment) -> float:
        """What a place leaves unexplained, but not less than is expected of the patch."""
        return max(1.0 - place.score, self.expectation.unexplained)

    def _in_pixels(self, brightness: NDArray[np.float32], candidates: Sequence[Candidate]) -> list[Candidate]:
        """Candidates, which are cells, as px of the image; of those around each the one that scores best."""
        if self._pool == 1:
            return list(candidates)
        last = brightness.shape[1] - self._windows.shape[1], brightness.shape[0] - self._windows.shape[0]
        refined = []
        for candidate in candidates:
            columns, rows = (
                range(
                    max(cell * self._pool - self._pool + 1, 0), min(cell * self._pool + self._pool, end + 1)
                )
                for cell, end in zip(candidate[1:], last, strict=True)
            )
            refined.append(self._windows.at(brightness, [(x, y) for y in rows for x in columns])[0])
        return sorted(refined, reverse=True)

    def _center_of(self, candidate: Candidate) -> tuple[float, float]:
        return candidate.column + self._center[0], candidate.row + self._center[1]

    def _far(self, candidate: Candidate, place: Alignment) -> bool:
        x, y = self._center_of(candidate)
        return max(abs(x - place.x), abs(y - place.y)) > 2.5 * self._apart

    def _same(self, a: Alignment, b: Alignment) -> bool:
        return max(abs(a.x - b.x), abs(a.y - b.y)) <= self._apart
