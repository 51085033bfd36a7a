"""Chooses among all whole shifts the motion that most of the picture's area follows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.confidence_ramp import ramp
from edgetpu_perception.optical_flow.dominant_motion import MAX_DEVIATION_CELLS, REACH_CELLS
from edgetpu_perception.optical_flow.faint_part import FaintPart
from edgetpu_perception.optical_flow.flow_features import FlowFeatures
from edgetpu_perception.optical_flow.followed_part import MAJORITY
from edgetpu_perception.optical_flow.repeating_texture import ShiftIndex, aliases
from edgetpu_perception.optical_flow.shift_registration import (
    MAX_STEP_CELLS,
    Shift,
    ShiftScores,
    Texture,
    highest,
)

CORRELATION_RANGE = (0.4, 0.6)
"""Correlation of the features at the shift: unrelated frames up to the first, full confidence from the second
on. Rows: flow, two photographs and two places of a photograph, not valid; any shift to 4, valid;
gabor_64x64_p4: shifts to 1.5, valid."""

EVIDENCE_LEAD_RANGE = (20.0, 60.0)
"""Lead of the best shift's evidence over the next best: no confidence up to the first, full confidence from
the second on. Rows: flow, shift beyond the range, not valid; any shift to 4, valid; gabor_64x64_p4:
any shift to 4, valid."""

PEAK_RADIUS_PX = 4
"""Radius of a correlation peak, px of the model's input; shifts nearer to the best one do not compete with
it. Derived: the features vary over 3 px and more."""

AGREEMENT_RANGE = (0.95, 0.985)
"""Correlation of the part that follows a motion: by chance up to the first, certain from the second on.

Rows: flow, two photographs, not valid; an object of 17 % of the area, valid.
"""

CORRELATION_OF_MOST_RANGE = (0.22, 0.4)
"""Correlation of the whole picture at the motion of most of it, lowered by independently moving parts: by
chance up to the first, certain from the second on. Rows: flow, two photographs, not valid; static camera,
valid."""

FOLLOWING_LEAD_RANGE = (0.2, 0.4)
"""Lead of the share that follows the dominant motion over that of another one: no confidence up to the first,
full confidence from the second on. Rows: flow, an object of 17 % of the area, valid."""

DISTANT_CELLS = 1.0
"""Distance in cells between two motions along an axis from which each has a whole shift of its own near it.

Derived: nearer motions are compared near a whole shift half-way, which is within REACH_CELLS of both.
"""

CHANCE_RANGE = (0.5, 0.2)
"""Probability that a distant motion has the larger area: no confidence above the first, full confidence below
the second. Rows: flow, an object of 17 % before a faint background, valid; an object of 39 % of the area,
valid beyond three sigma."""

FOLLOWING_RANGE = (0.02, 0.1)
"""Share of the picture that has texture and follows a motion: by chance up to the first, trusted from the
second on. Rows: flow, two places of a photograph, not valid."""

ALIAS_LEAD_RANGE = (0.05, 0.1)
"""Lead of the share that follows the motion over the share at another shift of a repeating texture: noise up
to the first, certain from the second on. Derived: the neighbourhoods that deviate by noise (1 - NEARLY_ALL in
dominant_motion.py), and twice as many."""

MAX_ALIASES = 4
"""Number of other shifts of a repeating texture that are compared by share. Derived: neighbours in a grid."""

FAINT_TEXTURE = 0.7
"""Share of the picture that has texture below which faint texture may decide. Rows: flow, an object of 17 %
before a barely visible background, valid beyond three sigma. With 0.5, such an object often seems to be most
of the picture, as its outline shows on both sides."""

KNOWN_MOTION_LEAD = 6.0
"""Least lead of the evidence of faint texture for standstill or the previous motion. Derived: twice the
logarithm of odds of 20 to 1. Any other motion is the best of all shifts, see EVIDENCE_LEAD_RANGE."""

Motion = tuple[float, float]
"""Shift of the content along x and y, cells."""


@dataclass(frozen=True)
class Match:
    """A whole shift, and the refined shift."""

    index: ShiftIndex
    shift: Shift

    @property
    def score(self) -> float:
        """Share of the picture that follows the motion, 0..1; 0 if the frames do not agree there."""
        return self.shift.following * ramp(self.shift.agreement, *AGREEMENT_RANGE)

    @property
    def of_texture(self) -> float:
        """Share of the texture that follows the motion, 0..1."""
        return self.shift.following / max(self.shift.textured, self.shift.following, 1e-6)

    def distance(self, other: Match) -> float:
        """Distance of the two motions, cells."""
        return math.hypot(self.shift.dx - other.shift.dx, self.shift.dy - other.shift.dy)

    def distance_along_axis(self, motion: Motion) -> float:
        """Distance from a motion along the axis where it is larger, cells."""
        return max(abs(self.shift.dx - motion[0]), abs(self.shift.dy - motion[1]))

    def differs(self, other: Match) -> bool:
        """Whether no part can follow both motions."""
        return self.distance(other) > 2 * MAX_DEVIATION_CELLS

    def doubted(self, other: Match, chance: float) -> Match:
        """The match, if another motion has the larger area with a probability `chance`."""
        dx, dy = self.shift.dx - other.shift.dx, self.shift.dy - other.shift.dy
        doubt = max(self.shift.doubt[0], chance * dx**2), max(self.shift.doubt[1], chance * dy**2)
        return Match(self.index, replace(self.shift, doubt=doubt))


class ShiftChoice:
    """Chooses the motion from one frame to the next; remembers the last one."""

    def __init__(self, features: FlowFeatures) -> None:
        self._search = features.search
        self._independent = features.independent
        self._peak = max(round(PEAK_RADIUS_PX / features.cell), 2)
        self.surface: ShiftScores | None = None
        """Scores of all whole shifts in the last comparison; None if there was none."""
        self._last_index = self._still
        self._textures: tuple[Texture, Texture]

    def reset(self) -> None:
        """Forget the last motion."""
        self.surface = None
        self._last_index = self._still

    @property
    def _still(self) -> ShiftIndex:
        return self._search.reach_y, self._search.reach_x

    def choose(
        self, first: Texture, second: Texture, expected: Motion | None = None
    ) -> tuple[ShiftIndex, Shift, float]:
        """Index of a whole shift in `surface`, the refined shift, and confidence, 0..1, by agreement.

        `expected`: the motion if it goes on as before, cells; None if that is unknown. It decides between
        the shifts of a repeating texture. Independent motion is searched for if the picture as a whole does
        not follow the best shift.
        """
        self._textures = first, second
        scores = self.surface = self._search.compare(first, second)
        best = self._refined(highest(scores.evidence))
        if min(best.shift.following, best.shift.textured) < MAJORITY:
            scores, best = self._by_area(scores, best)
        best, others, certainty = self._of_repeated(scores, best, expected)
        evident, related = best, self._agreement(scores, best, others)
        best, clarity = self._of_most(scores, best, others, related)
        if self._search.sees_parts and _is_faint(best.shift):
            best, clarity = self._against_faint(best, clarity, related)
            if clarity < related and evident.differs(best):
                # The evident motion may be that of an object, and what is behind it too faint to be trusted.
                behind = self._against_faint(evident, 0.0, related)
                best, clarity = max((best, clarity), behind, key=lambda found: found[1])
        self._last_index = best.index
        return best.index, best.shift, clarity * certainty

    def _refined(self, index: ShiftIndex, *, of_most: bool = False) -> Match:
        return Match(index, self._search.refine(*self._textures, *self._whole(index), of_most=of_most))

    def _nearest_index(self, match: Match) -> ShiftIndex:
        """The index in ShiftScores of the whole shift that is nearest to a motion."""
        dx, dy = self._search.nearest(match.shift)
        return self._search.reach_y + dy, self._search.reach_x + dx

    def _whole(self, index: ShiftIndex) -> tuple[int, int]:
        """The whole shift, dx and dy, at an index in ShiftScores."""
        return index[1] - self._search.reach_x, index[0] - self._search.reach_y

    def _by_area(self, scores: ShiftScores, best: Match) -> tuple[ShiftScores, Match]:
        """Scores and best shift by area, not contrast, if that shift is certain and another one."""
        first, second = (self._search.equalised(texture) for texture in self._textures)
        by_area = self._search.compare(first, second)
        index = highest(by_area.evidence)
        if index == best.index or self._lead(by_area.evidence, [index]) < EVIDENCE_LEAD_RANGE[0]:
            return scores, best
        other = self._refined(index)
        return (by_area, other) if other.differs(best) else (scores, best)

    def _of_repeated(
        self, scores: ShiftScores, best: Match, expected: Motion | None
    ) -> tuple[Match, list[ShiftIndex], float]:
        """The best shift of a repeating texture, its other shifts, and the certainty of the choice, 0..1.

        The evidence decides, then the parts that do not repeat, then the previous motion.
        """
        least, enough = EVIDENCE_LEAD_RANGE
        leads = self._aliases(scores, best.index)
        index = min(leads, key=leads.__getitem__, default=best.index)
        if leads.get(index, 0.0) < 0.0:
            leads = self._aliases(scores, index) | {best.index: -leads[index]}
        else:
            index = best.index
        known = [index, *leads]
        likely = [other for other in leads if leads[other] < enough]
        certainty = ramp(min(leads.values()), least, enough) if likely else 1.0
        if certainty < 1.0:
            nearest = sorted(likely, key=lambda other: math.dist(other, index))[:MAX_ALIASES]
            first, second = self._by_share([index, *nearest])
            decided = ramp(first.of_texture - second.of_texture, *ALIAS_LEAD_RANGE)
            if decided > certainty:
                index, certainty = first.index, decided
            elif expected is not None and (near := self._as_before(expected, [index, *likely])) is not None:
                index, certainty = near, 1.0
        others = [other for other in known if other != index]
        return best if index == best.index else self._refined(index), others, certainty

    def _as_before(self, expected: Motion, indices: Sequence[ShiftIndex]) -> ShiftIndex | None:
        """The whole shift that continues the motion, unless another one does so almost as well."""
        away = {index: math.dist(self._whole(index), expected) for index in indices}
        next_one, after = sorted(away, key=away.__getitem__)[:2]
        # Nearer than a quarter of the way from one to the other.
        return next_one if 3 * away[next_one] < away[after] else None

    def _aliases(self, scores: ShiftScores, index: ShiftIndex) -> dict[ShiftIndex, float]:
        """Leads over the other shifts at which the same texture repeats."""
        if not self._search.sees_parts:
            return {}
        return aliases(scores, index, self._independent, EVIDENCE_LEAD_RANGE[1])

    def _by_share(self, indices: Sequence[ShiftIndex]) -> tuple[Match, Match]:
        """The two whole shifts whose motion the largest shares of the texture follow."""
        rivals = [Match(index, self._search.rival(*self._textures, *self._whole(index))) for index in indices]
        rivals.sort(key=lambda rival: -rival.of_texture)
        return rivals[0], rivals[1]

    def _lead(self, evidence: NDArray[np.float32], indices: Sequence[ShiftIndex]) -> float:
        """Lead of the first index over the next best that is farther than a peak's radius from them."""
        next_best = float(_without(evidence, indices, self._peak).max())
        return self._independent * (float(evidence[indices[0]]) - next_best)

    def _agreement(self, scores: ShiftScores, best: Match, others: list[ShiftIndex]) -> float:
        """Confidence, 0..1, that the frames agree at the best shift, and at no distant one but `others`."""
        lead = ramp(self._lead(scores.evidence, [best.index, *others]), *EVIDENCE_LEAD_RANGE)
        return ramp(float(scores.correlation[best.index]), *CORRELATION_RANGE) * lead

    def _of_most(
        self, scores: ShiftScores, best: Match, others: list[ShiftIndex], clarity: float
    ) -> tuple[Match, float]:
        """The motion that most of the area follows, and confidence, 0..1, by agreement.

        `others`: other shifts at which the same texture repeats. `clarity`: of the best shift, `_agreement`.
        """
        parts = best.shift.following < 1.0
        if not self._search.sees_parts or (clarity == 1.0 and not parts):
            return best, clarity
        # If only a part of the picture follows, the shift has already been refined to that part.
        best = best if parts else self._refined(best.index, of_most=True)
        if best.distance_along_axis(self._whole(best.index)) > REACH_CELLS:
            best = self._refined(self._nearest_index(best), of_most=True)
        match, ahead, chance = self._dominant(best, others)
        of_most = ramp(ahead, *FOLLOWING_LEAD_RANGE)
        of_most *= ramp(float(scores.correlation[match.index]), *CORRELATION_OF_MOST_RANGE)
        trusted = 0.0 if match.differs(best) else clarity * ramp(match.shift.following, *FOLLOWING_RANGE)
        return match, max(of_most, trusted) * _sure(chance)

    def _dominant(self, best: Match, others: list[ShiftIndex]) -> tuple[Match, float, float]:
        """The motion that most of the area follows, its lead over distant candidates, and its doubt.

        The lead is in the share that follows; the doubt is the probability that another area is larger. The
        candidates are the best motion, and those of the parts that do not follow it.
        """
        first, second = self._textures
        rest = self._search.without(first, second, best.shift)
        rivals = self._rivals(rest, best, others)
        match, doubt, chance = self._larger(best, rivals)
        if match is not best:
            index = self._nearest_index(match)
            match = Match(index, self._search.refine(rest, second, *self._whole(index), of_most=True))
        far = (other.score for other in (best, *rivals) if match.distance(other) > self._peak)
        ahead = match.score - max(far, default=0.0)
        return Match(match.index, replace(match.shift, doubt=doubt)), ahead, chance

    def _rivals(self, rest: Texture, best: Match, others: list[ShiftIndex]) -> list[Match]:
        """Motions of the first frame's `rest`, which does not follow the best one.

        Candidates are the motion of most of its contrast, standstill, and the previous motion.
        """
        second = self._textures[1]
        rivals: list[Match] = []
        known = list(others)
        near_best = self._nearest_index(best)
        for index in (self._search.strongest(rest, second), self._still, self._last_index):
            if any(abs(index[0] - row) <= 1 and abs(index[1] - column) <= 1 for row, column in known):
                continue
            whole = self._whole(index)
            rival = Match(index, self._search.rival(rest, second, *whole))
            seen = rival.shift.following > FOLLOWING_RANGE[0]
            found = seen and rival.distance_along_axis(whole) <= MAX_STEP_CELLS
            if found and all(rival.differs(other) for other in (best, *rivals)):
                rivals.append(rival)
            known += [index, near_best]
        return rivals

    def _larger(self, best: Match, rivals: Sequence[Match]) -> tuple[Match, tuple[float, float], float]:
        """The motion with the largest area, and the doubt that distant ones leave.

        The doubt is the variances of dx and dy, cells^2, and the probability that another area is larger.
        """
        match, doubt, chance = best, (0.0, 0.0), 0.0
        for rival in rivals:
            if match.distance_along_axis((rival.shift.dx, rival.shift.dy)) < DISTANT_CELLS:
                continue
            lead = self._search.lead(*self._textures, match.shift, rival.shift)
            if lead is None:
                continue
            other = rival
            if lead.lead < 0.0:
                lead, match, other = lead.of_other, rival, match
                doubt, chance = (0.0, 0.0), 0.0
            dx, dy = match.shift.dx - other.shift.dx, match.shift.dy - other.shift.dy
            doubt = max(doubt[0], lead.chance * dx**2), max(doubt[1], lead.chance * dy**2)
            chance = max(chance, lead.chance)
        return match, doubt, chance

    def _against_faint(self, match: Match, clarity: float, related: float) -> tuple[Match, float]:
        """The motion, or that of faint texture if it has the larger area; and confidence, 0..1.

        `related`: confidence, 0..1, that the frames show the same. Faint texture alone does not tell.
        """
        rivals = list(self._faint_rivals(match))
        larger = [(rival, part) for rival, part in rivals if part.area_lead.lead > 0.0]
        if larger:
            rival, part = max(larger, key=lambda found: found[1].evidence)
            chance = part.area_lead.chance
            certainty = related * ramp(part.evidence, *EVIDENCE_LEAD_RANGE) * _sure(chance)
            return rival.doubted(match, chance), certainty
        for rival, part in rivals:
            chance = part.area_lead.of_other.chance
            match, clarity = match.doubted(rival, chance), clarity * _sure(chance)
        return match, clarity

    def _faint_rivals(self, match: Match) -> Iterator[tuple[Match, FaintPart]]:
        """Other motions that faint texture clearly follows."""
        for index, least in self._faint_candidates(match).items():
            rival, part = self._faint_rival(match, index)
            if rival.distance_along_axis(self._whole(index)) > REACH_CELLS:
                rival, part = self._faint_rival(match, self._nearest_index(rival))
            near = rival.distance_along_axis(self._whole(rival.index)) <= MAX_STEP_CELLS
            distant = match.distance_along_axis((rival.shift.dx, rival.shift.dy)) >= DISTANT_CELLS
            if near and distant and part.evidence_lead >= least:
                yield rival, part

    def _faint_rival(self, match: Match, index: ShiftIndex) -> tuple[Match, FaintPart]:
        """The motion of what does not follow the match, near the whole shift at an index."""
        shift, part = self._search.faint(*self._textures, match.shift, *self._whole(index))
        return Match(index, shift), part

    def _faint_candidates(self, match: Match) -> dict[ShiftIndex, float]:
        """Whole shifts that faint texture may follow instead, each with the least lead of its evidence.

        Candidates are the shift of most of the rest, the previous motion, and standstill.
        """
        candidates: dict[ShiftIndex, float] = {}
        if match.distance_along_axis((0.0, 0.0)) >= DISTANT_CELLS:
            rest = self._search.without(*self._textures, match.shift, keep_flat=True)
            first, second = (self._search.equalised(each) for each in (rest, self._textures[1]))
            evidence = self._search.compare(first, second).evidence
            if self._lead(evidence, [index := highest(evidence)]) >= EVIDENCE_LEAD_RANGE[0]:
                candidates[index] = EVIDENCE_LEAD_RANGE[0]
            candidates[self._still] = KNOWN_MOTION_LEAD
        if match.distance_along_axis(self._whole(self._last_index)) >= DISTANT_CELLS:
            candidates[self._last_index] = KNOWN_MOTION_LEAD
        return candidates


def _is_faint(shift: Shift) -> bool:
    """Whether so little of the picture has texture, or follows the shift, that faint texture may decide."""
    return shift.following < MAJORITY or shift.textured < FAINT_TEXTURE


def _sure(chance: float) -> float:
    """Confidence, 0..1, from the probability that another area is larger."""
    return ramp(-chance, -CHANCE_RANGE[0], -CHANCE_RANGE[1])


def _without(
    evidence: NDArray[np.float32], indices: Sequence[ShiftIndex], radius: int
) -> NDArray[np.float32]:
    """The evidence farther than `radius` cells along an axis from all indices; 0 elsewhere."""
    rest = evidence.copy()
    for row, column in indices:
        rest[max(row - radius, 0) : row + radius + 1, max(column - radius, 0) : column + radius + 1] = 0.0
    return rest
