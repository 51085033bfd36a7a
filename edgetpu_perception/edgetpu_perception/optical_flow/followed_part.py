"""Finds the part of the picture whose motion is measured: the one that follows the dominant motion."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.optical_flow.dominant_motion import (
    MAX_DEVIATION_CELLS,
    NARROWER_DEVIATIONS,
    REACH_CELLS,
    Followers,
    NeighbourhoodMotions,
    chance_of_another,
)
from edgetpu_perception.optical_flow.faint_part import FaintPart, faint_part
from edgetpu_perception.optical_flow.larger_part import (
    Pair,
    larger_part,
    lead_of_first,
    left_by_two,
    pull_of_contrast,
    settled_pair,
)
from edgetpu_perception.optical_flow.motion_field import remove
from edgetpu_perception.optical_flow.normal_equations import (
    Floats,
    NormalEquations,
    Symmetric,
    Vector,
)
from edgetpu_perception.optical_flow.part_areas import AreaLead, PictureAreas, picture_areas
from edgetpu_perception.optical_flow.smooth_motion import DEVIATION_CELLS, smooth_motion

REWEIGHTED_STEPS = 3
"""Least-squares steps in which the part that follows the motion is settled. Uncritical from 3 on."""

MAJORITY = 0.5
"""Share of the texture that must stay within a narrower deviation. Derived: most of it."""

RIVAL_AREA = 0.085
"""Share of the picture that another motion has to explain better before the two compete.

Rows: flow, any shift to 4, inside one sigma (by noise, one of all shifts tried explains 8 % better); a slow
object of 20 % of the area, rms.
"""

SMOOTH_SHARE = 0.6
"""Largest area that deviates from a smooth motion, as a share of the area that deviates from one shift.

Areas that neither a smooth motion nor two shifts explain do not count: they are objects. Rows: flow, static
camera, rms; camera that drives through rooms, median; an object of 17 %, camera of 60 to 110 deg that turns,
median.
"""

FARTHEST_CELLS = 2 * REACH_CELLS
"""Largest smooth motion from a whole shift, cells.

Derived: derivatives show a motion of about a cell. What fits unrelated pictures is several cells away, turns
with a wide lens stay below 1.3. Rows: flow, shift beyond the range, not valid.
"""

STEADY_CONTRAST = 0.1
"""Largest change of contrast that does not look like a motion. Derived: it leaves as large a residual as a
deviation by MAX_DEVIATION_CELLS."""


@dataclass(frozen=True)
class FollowedPart:
    """The part of the picture that follows a motion, and the least squares over it."""

    normal: NormalEquations
    step: Vector
    inverse: Symmetric
    """Inverse of the normal matrix."""
    weights: NDArray[np.float64] | None = None
    """1 for neighbourhoods that follow, else less, [neighbourhoods]; None if all are 1."""
    share: float = 1.0
    """Share of the picture that has texture and follows, 0..1; 1 if nothing moves independently."""
    textured: float = 1.0
    """Share of the picture that has texture, 0..1."""
    doubt: tuple[float, float] = (0.0, 0.0)
    """Variances of dx and dy because slowly moving parts may be the larger ones, cells^2."""

    def doubted(self, dx: float, dy: float) -> FollowedPart:
        """The part with further variances of dx and dy, cells^2."""
        return replace(self, doubt=(self.doubt[0] + dx, self.doubt[1] + dy)) if dx or dy else self


class PartFinder:
    """Finds the part of the picture that follows the motion of most of its area."""

    def __init__(self, noise: float, roughness: float, height: int, width: int, neighbourhood: int) -> None:
        """`noise`, `roughness`, `neighbourhood`: see Registration.

        `height`, `width`: size of the whole picture, cells.
        """
        self._noise, self._roughness, self._neighbourhood = noise, roughness, neighbourhood
        self._height, self._width = height, width

    def everything(self, equations: Floats) -> FollowedPart:
        """All of the picture as one part, from the equations of a whole shift."""
        return self._everything(NormalEquations(equations, self._neighbourhood))

    def _everything(self, normal: NormalEquations) -> FollowedPart:
        return FollowedPart(normal, *normal.solve(None, self._roughness))

    def rival(self, equations: Floats) -> FollowedPart:
        """The part that follows the dominant motion near a whole shift, without refinement."""
        part = self.everything(equations)
        return self._dominant(part, self._motions(part))

    def lead(self, equations: Pair[Floats], steps: Pair[Vector]) -> AreaLead | None:
        """By how much the part that follows the first of two motions is larger.

        None if nothing follows the second.

        `equations`: those of a whole shift near each motion, of the same size. `steps`: the motions relative
        to these whole shifts, cells.
        """
        first, second = (self.everything(each) for each in equations)
        motions = self._motions(first), self._motions(second)
        return lead_of_first(motions, first.normal, steps, self._areas(first.normal))

    def non_followers(self, equations: Floats, step: Vector, *, keep_flat: bool) -> Floats:
        """1 for cells that do not follow a step from a whole shift, less for the others: [rows, columns].

        `keep_flat`: flat parts, which follow any step, count as non-followers.
        """
        part = self.everything(equations)
        followers = self._motions(part).within(MAX_DEVIATION_CELLS)
        weights = followers.weights(*step[:2])
        return part.normal.spread(1.0 - (weights * followers.texture if keep_flat else weights))

    def faint(self, equations: Pair[Floats], other: tuple[float, float]) -> tuple[FollowedPart, FaintPart]:
        """The part that follows a motion near a whole shift rather than another motion.

        `equations`: those of a whole shift near the other motion, and those of the one in question, of the
        same size. `other`: the other motion relative to its whole shift, cells.
        """
        first, second = (self.everything(each) for each in equations)
        motions = self._motions(first), self._motions(second)
        areas = self._areas(second.normal)
        faint = faint_part(motions, (first.normal, second.normal), other, self._roughness, areas)
        part = replace(second, step=faint.step, inverse=faint.inverse, weights=faint.weights)
        return self._with_shares(part, motions[1].within(MAX_DEVIATION_CELLS)), faint

    def find(self, equations: Floats, *, of_most: bool) -> FollowedPart:
        """The part that follows; see Registration.refine for `of_most`.

        `equations`: those of a whole shift. If a smooth motion explains the picture, it is subtracted from
        them, except for its median.
        """
        part = self.everything(equations)
        motions = self._motions(part)
        kept = math.inf if of_most else motions.kept_deviation(*part.step[:2])
        near = kept <= NARROWER_DEVIATIONS[-1]
        if kept <= MAX_DEVIATION_CELLS:
            part = replace(part, textured=motions.rather_textured)
        else:
            part = self._dominant(part, motions)
            motions = self._motions(part)
        rival, area = motions.rival(*part.step[:2], self._areas(part.normal).nearest, near=near)
        if area < RIVAL_AREA:
            return self._larger(part, motions, None, near=near)
        two = settled_pair(motions, part.normal, self._roughness, part.step[:2], rival)
        doubt = self._change_removed(equations, part, motions, two)
        if doubt is None:
            return self._larger(part, motions, two, near=near)
        part = self._everything(part.normal.with_residual(equations))
        motions = self._motions(part)
        if not of_most and motions.kept_deviation(*part.step[:2]) <= MAX_DEVIATION_CELLS:
            return replace(part, textured=motions.rather_textured).doubted(*doubt)
        return self._dominant(part, motions).doubted(*doubt)

    def _motions(self, part: FollowedPart) -> NeighbourhoodMotions:
        contrast = part.step[2]
        if part.weights is None and abs(contrast) > STEADY_CONTRAST:
            # Least squares over parts that move apart take their difference for a change of contrast.
            median = part.normal.median_contrast()
            contrast = contrast if median is None else median
        return NeighbourhoodMotions(part.normal, contrast, self._noise)

    def _dominant(self, everything: FollowedPart, motions: NeighbourhoodMotions) -> FollowedPart:
        followers = motions.within(MAX_DEVIATION_CELLS)
        part = self._settled(everything, followers, followers.dominant())
        return self._with_shares(part, followers)

    def _with_shares(self, part: FollowedPart, followers: Followers) -> FollowedPart:
        """The part, with the shares of the picture that follow and that have texture."""
        areas = self._areas(part.normal).nearest
        following = followers.share(followers.weights(*part.step[:2]), areas)
        return replace(part, share=following, textured=float(followers.texture @ areas))

    def _larger(
        self,
        part: FollowedPart,
        motions: NeighbourhoodMotions,
        two: Pair[Vector] | None,
        *,
        near: bool,
    ) -> FollowedPart:
        """The larger part if two parts move apart, without neighbourhoods that move nearly alike.

        `two`: two settled motions, cells; None if no other motion explains enough of the picture. `near`:
        nearly all of the picture keeps the narrowest deviation from the motion of the part.
        """
        larger = None
        if two is not None:
            # Motions closer than this count as one in the part that follows.
            least_distance = 0.0 if part.weights is None else MAX_DEVIATION_CELLS
            larger = larger_part(motions, part.normal, two, self._areas(part.normal), least_distance)
        if larger is None:
            part = part if near else self._narrowed(part, motions)
            return part.doubted(*pull_of_contrast(motions, part.normal, self._roughness, part.step[:2]))
        followers = motions.within(MAX_DEVIATION_CELLS, larger.side)
        start = self._settled(part, followers, larger.step[:2])
        if part.weights is not None:
            start = self._with_shares(start, motions.within(MAX_DEVIATION_CELLS))
        return self._narrowed(start, motions, larger.side).doubted(*larger.doubt)

    def _areas(self, normal: NormalEquations) -> PictureAreas:
        return picture_areas(normal.rows, normal.columns, self._height, self._width, normal.side)

    def _narrowed(
        self, part: FollowedPart, motions: NeighbourhoodMotions, side: NDArray[np.float64] | None = None
    ) -> FollowedPart:
        """Leave out what moves nearly alike, while most of the texture stays within a narrower deviation.

        `side`: how far each neighbourhood counts, 0..1, [neighbourhoods]; None if all do.
        """
        dx_doubt = dy_doubt = 0.0
        for deviation in NARROWER_DEVIATIONS:
            narrow = motions.within(deviation, side)
            closer = self._settled_near(part, narrow, deviation)
            assert closer.weights is not None
            following = narrow.share_of_texture(closer.weights)
            chance = chance_of_another(following, len(closer.weights))
            dx_doubt += chance * (closer.step[0] - part.step[0]) ** 2
            dy_doubt += chance * (closer.step[1] - part.step[1]) ** 2
            if following < MAJORITY:
                break
            part = closer
        return part.doubted(dx_doubt, dy_doubt)

    def _settled_near(self, part: FollowedPart, followers: Followers, deviation: float) -> FollowedPart:
        """The part that follows the dominant motion near that of a part, within a deviation in cells."""
        return self._settled(part, followers, followers.dominant_near(*part.step[:2], deviation))

    def _settled(self, part: FollowedPart, followers: Followers, motion: tuple[float, float]) -> FollowedPart:
        """Weight and solve in turn, starting at a motion in cells."""
        for _ in range(REWEIGHTED_STEPS + 1):
            weights = followers.weights(*motion)
            step, inverse = part.normal.solve(weights, self._roughness)
            motion = step[:2]
        return replace(part, step=step, inverse=inverse, weights=weights)

    def _change_removed(
        self,
        equations: Floats,
        part: FollowedPart,
        motions: NeighbourhoodMotions,
        two: Pair[Vector],
    ) -> tuple[float, float] | None:
        """Subtract a smooth motion from `equations` if it explains the picture better than two motions do.

        Return the variances of dx and dy that this adds, cells^2; None if it does not explain it better.
        `two`: these motions, settled, cells.
        """
        smooth = smooth_motion(part.normal, motions.common)
        limit = motions.limit(MAX_DEVIATION_CELLS)
        by_smooth, by_two = (
            np.minimum(left / limit, 1.0) for left in (smooth.left, left_by_two(motions, two))
        )
        if smooth.farthest > FARTHEST_CELLS or float(by_smooth.sum()) >= float(by_two.sum()):
            return None
        alike = self._settled_near(part, motions.within(DEVIATION_CELLS), DEVIATION_CELLS).weights
        assert alike is not None
        # What neither explains is an object that moves by itself.
        explained = 1 - np.minimum(by_smooth, by_two)
        if explained @ (1 - smooth.followers) > SMOOTH_SHARE * (explained @ (1 - alike)):
            return None
        field = smooth.field()
        median, (dx, dy) = field.median(self._height, self._width)
        remove(equations, field, median)
        return float(dx), float(dy)
