"""Align candidates, and choose the best match and its rivals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.pattern_tracker.correlation_locator import Candidate, WindowScores
from edgetpu_perception.pattern_tracker.expected_scores import ExpectedScores, expected_scores
from edgetpu_perception.pattern_tracker.patch_alignment import CONVERGED_PX, PatchAligner, PatchAlignment

MAX_ALIGNED = 3
"""Number of candidates that are aligned; limits the time.

Rows: pattern, 128/32, accepted, changed, within 2 px.
"""

CANDIDATE_REACH_CELLS = 2.5
"""How far, in cells, an alignment may move from its candidate.

Derived: candidates are chosen 3 cells apart.
"""

CONVERGED_TO_REFINE_PX = 0.2
"""The step after which an alignment ends if its match will be refined, px: see CONVERGED_PX.

Limits the time. Rows: pattern, whole picture, within 2 px.
"""

RIVAL_FACTOR = 1.5
"""A match competes with the best one if it leaves at most this many times as much unexplained.

Rows: pattern, accepted, repeated: ambiguous; accepted, of all patches.
"""

EQUAL_FACTOR = 1.3
"""The same for matches between which noise decides. Rows: pattern, accepted, repeated: ambiguous."""

UNEXPLAINED_LIMIT = (0.27, 0.5, 1.6)
"""Limit for the logarithm of what a match leaves unexplained over what is expected: share of the template's
clarity, and the least and largest limit. Rows: pattern, accepted, changed, present: valid and absent: not
valid."""

START_SCORE_MARGIN = 0.1
"""How much lower than the worst changed copy of the template a candidate may score before its alignment.

Rows: pattern, accepted, changed, within 2 px.
"""

MIN_CERTAINTY = 0.2
"""Certainty of a match at its UNEXPLAINED_LIMIT. Derived: the default of min_confidence."""

MIN_DISTINCTION = math.log(2.0)
"""Logarithm of what the runner-up leaves unexplained over what the match does: from this value, the match may
leave as much as UNEXPLAINED_LIMIT; at 0, no more than expected of the template.

Chance matches are many and differ little, but the pattern is there once.
Rows: pattern, 64/8, accepted, changed, absent: not valid.
"""

MAX_POSE_DEVIATION = 5.0
"""Largest rotation and change of scale of a match, in standard deviations of those expected.

Derived: 20 degrees or 22 %, four times what is promised. Beyond that, an alignment deforms a patch to fit.
"""

GAIN_SIGMA = math.log(2.0)
"""Expected logarithm of the change of contrast, one standard deviation: a match with another contrast may
leave less unexplained. A faint template resembles edges of any contrast.

Rows: pattern, 64/8, accepted, changed, absent: not valid.
"""

POSE_SCALE = 2.0
"""The same for rotation and scale, in standard deviations of those expected: rotated and scaled to fit, other
things look like a small patch.

Derived: 5 degrees and 5 %, which a pattern may turn and grow, are 1.7.
"""

CHANGE_COST = 0.2
"""What a change of contrast, rotation and scale of one standard deviation adds to the logarithm of what a
match leaves unexplained; it grows with the square of the change.

Rows: pattern, 64/8, accepted, changed, absent: not valid and within 2 px.
"""

OTHER_SCALE_COST = 0.2
"""What is added for a match at a scale at which the pattern was not seen last. There are many such scales,
and two of five chance matches had one.

Rows: the same; pattern, scaled, within 2 px.
"""

CONTRAST_RANGE = (0.3, 3.0)
"""Smallest and largest contrast of a match over that of the patch.

Rows: pattern, accepted, changed, absent: not valid.
"""


@dataclass(frozen=True)
class Matches:
    """Matches of the patch in one image."""

    best: PatchAlignment | None
    """The most likely match; None if there is none."""
    runner_up_score: float
    """Highest score elsewhere; NaN if there is no other candidate."""
    rivals: tuple[PatchAlignment, ...] = ()
    """Other matches that may be the patch as well."""


class Matcher:
    """Aligns candidates for one patch and rates them."""

    def __init__(
        self, patch: NDArray[np.float32], mask: NDArray[np.bool_], pool: int, refined: bool = False
    ) -> None:
        """`patch`: grey levels, float32 [h, w] px; `pool`: px per cell of the candidates, each way.

        `refined`: the best match will be refined elsewhere, and may be slightly off.
        """
        self._pool = pool
        self._windows = WindowScores(patch, mask)
        self._center = ((patch.shape[1] - 1) / 2, (patch.shape[0] - 1) / 2)
        self._apart = 2.0 * pool
        self._aligner = PatchAligner(
            patch,
            mask,
            CANDIDATE_REACH_CELLS,
            pool,
            converged=CONVERGED_TO_REFINE_PX if refined else CONVERGED_PX,
        )
        self.expected: ExpectedScores = expected_scores(patch, mask, self._aligner)
        share, least, most = UNEXPLAINED_LIMIT
        self._surplus_limit = min(max(share * self.expected.clarity, least), most)
        self._min_start_score = self.expected.min_start_score - START_SCORE_MARGIN

    def sigma(self, noise: float) -> float:
        """Standard deviation of the position in px for a noise in grey levels: see PatchAligner.sigma."""
        return self._aligner.sigma(noise)

    def match(
        self,
        image: NDArray[np.uint8],
        candidates: Sequence[Candidate],
        near: tuple[float, float] | None = None,
    ) -> Matches:
        """Align candidates, the highest score first, in an image [H, W].

        Among matches that differ by no more than noise the one nearest to `near` (x, y), px, is the best.
        """
        levels = self._aligner.levels(image)
        matches, left = self._align(levels, candidates)
        if not matches:
            return Matches(None, math.nan)
        if 1.0 - matches[0].score > self.expected.unexplained:
            matches[0] = self._aligner.clipped(levels, matches[0])
        best, unexplained = matches[0], self._unexplained(matches[0])
        if near is not None:
            equal = (match for match in matches if 1.0 - match.score <= EQUAL_FACTOR * unexplained)
            best = min(equal, key=lambda match: math.dist((match.x, match.y), near))
        others = [match for match in matches if match is not best]
        scores = [match.score for match in others] + [c.score for c in left if self._is_elsewhere(c, best)]
        rivals = tuple(match for match in others if 1.0 - match.score <= RIVAL_FACTOR * unexplained)
        return Matches(best, min(max(scores, default=math.nan), 1.0), rivals)  # rounding may exceed 1

    def _align(
        self, levels: Sequence[NDArray[np.float32]], candidates: Sequence[Candidate]
    ) -> tuple[list[PatchAlignment], list[Candidate]]:
        """Matches, the highest score first, and the candidates that were not aligned."""
        matches: list[PatchAlignment] = []
        left: list[Candidate] = []
        score_to_beat = -1.0
        for candidate in self._in_pixels(levels[0], candidates):
            if len(matches) == MAX_ALIGNED or (matches and candidate.score < self._min_start_score):
                left.append(candidate)
                continue
            match = self._aligner.align(levels, *self._center_of(candidate), score_to_beat)
            twin = next((i for i, other in enumerate(matches) if self._coincide(match, other)), None)
            if twin is None:
                matches.append(match)
            else:
                matches[twin] = max(matches[twin], match)
            score_to_beat = max(score_to_beat, 1.0 - RIVAL_FACTOR * self._unexplained(match))
        return sorted(matches, reverse=True), left

    def is_promising(self, match: PatchAlignment) -> bool:
        """Whether a match may be the patch at another scale: as a candidate, it would be aligned."""
        least, most = CONTRAST_RANGE
        return match.score >= self._min_start_score and least < match.gain < most

    def certainty(
        self, match: PatchAlignment, runner_up_score: float = math.nan, *, other_scale: bool = False
    ) -> float:
        """Certainty 0..1 that a match is the patch: 1 at the expected score, MIN_CERTAINTY at the limit.

        `runner_up_score`: the highest score elsewhere in the image; NaN if there is no other candidate.
        `other_scale`: whether the pattern was not seen at the scale of this image last.
        """
        least, most = CONTRAST_RANGE
        if not least < match.gain < most or match.pose_deviation > MAX_POSE_DEVIATION:
            return 0.0
        change = math.hypot(math.log(match.gain) / GAIN_SIGMA, match.pose_deviation / POSE_SCALE)
        surplus = math.log(max(1.0 - match.score, 1e-9) / self.expected.unexplained)
        surplus += CHANGE_COST * change**2 + OTHER_SCALE_COST * other_scale
        if surplus <= 0.0:
            return 1.0
        limit = self._surplus_limit
        if not math.isnan(runner_up_score):
            distinction = math.log(max(1.0 - runner_up_score, 1e-9) / self._unexplained(match))
            # The best of many chance matches resembles the next best one more than the patch.
            limit = max(min(limit * distinction / MIN_DISTINCTION, limit, distinction), 1e-6)
        return max(1.0 - (1.0 - MIN_CERTAINTY) * surplus / limit, 0.0)

    def _unexplained(self, match: PatchAlignment) -> float:
        """1 - score of a match, but at least what is expected of the patch."""
        return max(1.0 - match.score, self.expected.unexplained)

    def _in_pixels(self, brightness: NDArray[np.float32], candidates: Sequence[Candidate]) -> list[Candidate]:
        """Convert candidates from cells to px of the image: the px around each with the highest score."""
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

    def _is_elsewhere(self, candidate: Candidate, match: PatchAlignment) -> bool:
        x, y = self._center_of(candidate)
        return max(abs(x - match.x), abs(y - match.y)) > 2.5 * self._apart

    def _coincide(self, a: PatchAlignment, b: PatchAlignment) -> bool:
        return max(abs(a.x - b.x), abs(a.y - b.y)) <= self._apart
