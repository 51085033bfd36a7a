"""Settles which part of the picture is measured: what follows the dominant motion."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.optical_flow.dominant_motion import (
    MAX_DEVIATION_CELLS,
    NARROWER_DEVIATIONS,
    NeighbourhoodMotions,
    chance_of_another,
    kept_deviation,
)
from edgetpu_perception.optical_flow.linear_motion import linear_motion, remove
from edgetpu_perception.optical_flow.normal_equations import Floats, NormalEquations, Symmetric, Vector

REWEIGHTED_STEPS = 5
"""Least-squares steps in which the part that follows the motion is settled. Uncritical from 3 on."""

MAJORITY = 0.5
"""Share of the texture that has to keep a narrower deviation. Derived: that of most of it."""


@dataclass(frozen=True)
class FollowedPart:
    """The part of the picture that follows a motion, and the least squares over it."""

    normal: NormalEquations
    step: Vector
    inverse: Symmetric
    """Inverse of the normal matrix."""
    weights: NDArray[np.float64] | None = None
    """1 for neighbourhoods that follow, else less, [neighbourhoods]; None if all have the same."""
    share: float = 1.0
    """Share of the picture that has texture and follows, 0..1; 1 if nothing moves independently."""
    doubt: tuple[float, float] = (0.0, 0.0)
    """Variances of dx and dy because slowly moving parts may be the larger ones, cells^2."""


class PartFinder:
    """Finds the part of the picture that follows the motion of most of its area."""

    def __init__(self, noise: float, roughness: float) -> None:
        """`noise`, `roughness`: see Registration."""
        self._noise, self._roughness = noise, roughness

    def everything(self, normal: NormalEquations) -> FollowedPart:
        """All of the picture."""
        return FollowedPart(normal, *normal.solve(np.ones(normal.sums.shape[1]), self._roughness))

    def find(self, equations: Floats, *, of_most: bool, rival: bool) -> FollowedPart:
        """The part that follows; see Registration.refine for the options.

        `equations`: those of a whole shift; what a linear motion explains is taken from them.
        """
        part = self.everything(NormalEquations(equations))
        kept = kept_deviation(part.normal, part.step, self._noise)
        if of_most or kept > MAX_DEVIATION_CELLS:
            part = self._dominant(part)
            if rival:
                return part
            if self._change_removed(equations, part):
                part = self.everything(NormalEquations(equations))
                kept = kept_deviation(part.normal, part.step, self._noise)
                return self._dominant(part) if of_most or kept > MAX_DEVIATION_CELLS else part
        elif kept <= NARROWER_DEVIATIONS[-1]:
            return part
        return self._narrowed(part)

    def _dominant(self, everything: FollowedPart) -> FollowedPart:
        motions = NeighbourhoodMotions(everything.normal, everything.step[2], self._noise)
        part = replace(everything, weights=motions.weights(*motions.dominant()))
        part = self._settled(part, motions)
        assert part.weights is not None
        return replace(part, share=motions.share(part.weights))

    def _narrowed(self, part: FollowedPart) -> FollowedPart:
        """Leave out what moves nearly alike, while most of the texture keeps a narrower deviation."""
        motions = NeighbourhoodMotions(part.normal, part.step[2], self._noise)
        dx_doubt = dy_doubt = 0.0
        for deviation in NARROWER_DEVIATIONS:
            narrow = motions.narrowed(deviation)
            start = replace(part, weights=narrow.weights(*narrow.dominant_near(*part.step[:2], deviation)))
            closer = self._settled(start, narrow)
            assert closer.weights is not None
            following = narrow.share_of_texture(closer.weights)
            chance = chance_of_another(following, len(closer.weights))
            dx_doubt += chance * (closer.step[0] - part.step[0]) ** 2
            dy_doubt += chance * (closer.step[1] - part.step[1]) ** 2
            if following < MAJORITY:
                break
            part = closer
        return replace(part, doubt=(dx_doubt, dy_doubt))

    def _settled(self, part: FollowedPart, motions: NeighbourhoodMotions) -> FollowedPart:
        """Solve and weigh in turn, from the weights of a part on."""
        weights = part.weights
        assert weights is not None
        for _ in range(REWEIGHTED_STEPS):
            step, _ = part.normal.solve(weights, self._roughness)
            weights = motions.weights(*step[:2])
        step, inverse = part.normal.solve(weights, self._roughness)
        return replace(part, step=step, inverse=inverse, weights=weights)

    def _change_removed(self, equations: Floats, part: FollowedPart) -> bool:
        """Take a linear motion from `equations` if most of what else would deviate follows it."""
        assert part.weights is not None
        change, following = linear_motion(part.normal, self._noise)
        follows = 1 - following < (1 - float(np.mean(part.weights))) / 2
        if follows:
            remove(equations, change)
        return follows
