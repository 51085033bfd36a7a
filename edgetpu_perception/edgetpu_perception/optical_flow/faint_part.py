"""Tells whether faint texture, which shows no motion in any single neighbourhood, follows another motion.

Flat neighbourhoods agree with every motion to within noise. So a car on a plain road seems to take all of the
picture along, although the faint texture of the road stands still. Over all flat neighbourhoods together, the
frames correlate more at the motion that this texture has; how much more tells whether that is chance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.optical_flow.dominant_motion import (
    MAX_DEVIATION_CELLS,
    NeighbourhoodMotions,
    follow,
)
from edgetpu_perception.optical_flow.larger_part import INDEPENDENT, Pair, belonging, preference
from edgetpu_perception.optical_flow.normal_equations import NormalEquations, Symmetric, Vector
from edgetpu_perception.optical_flow.part_areas import AreaLead, PictureAreas, area_lead
from edgetpu_perception.optical_flow.shift_sigmas import NOISE_VARIANCES

STEPS = 4
"""Least-squares steps in which the motion of faint texture is settled. Uncritical from 3 on."""

MAX_CORRELATION = 0.99
"""Largest correlation that counts as evidence. Derived: frames without noise would have infinite evidence."""


@dataclass(frozen=True, eq=False)
class FaintPart:
    """The part of the picture that follows a motion better than another one, and what faint texture says."""

    step: Vector
    inverse: Symmetric
    """Inverse of the normal matrix."""
    weights: NDArray[np.float64]
    """1 for neighbourhoods that follow this motion rather than the other, else less: [neighbourhoods]."""
    evidence: float
    """Evidence of faint texture for this motion, as in ShiftScores."""
    evidence_lead: float
    """Lead of that over the evidence for the other motion."""
    area_lead: AreaLead
    """By how much the part that follows this motion is larger than that of the other."""


def faint_part(
    motions: Pair[NeighbourhoodMotions],
    normals: Pair[NormalEquations],
    other: tuple[float, float],
    roughness: float,
    areas: PictureAreas,
) -> FaintPart:
    """The part that does not follow another motion, but one near a whole shift.

    `motions`, `normals`: the same neighbourhoods near a whole shift for the other motion, and near the one
    in question. `other`: the other motion relative to its whole shift, cells. `roughness`: see Registration.
    """
    noise = min(each.noise for each in motions)
    limits = [each.limit(MAX_DEVIATION_CELLS) for each in motions]
    of_other, left = motions[0].left(*other), motions[1].left(0.0, 0.0)
    for _ in range(STEPS):
        weights = preference(left, of_other, noise) * follow(left / limits[1])
        step, inverse = normals[1].solve(weights, roughness)
        left = motions[1].left(*step[:2])
    flat = motions[0].flat * motions[1].flat
    before, after = (
        _evidence(normal, squares, flat, noise)
        for normal, squares in zip(normals, (of_other, left), strict=True)
    )
    side = preference(left, of_other, noise)
    part = belonging(side) * follow(left / limits[1])
    rest = belonging(1 - side) * follow(of_other / limits[0])
    return FaintPart(step, inverse, weights, after, after - before, area_lead(part, rest, areas))


def _evidence(
    normal: NormalEquations, left: NDArray[np.float64], flat: NDArray[np.float64], noise: float
) -> float:
    """Twice the log-likelihood ratio of a motion to unrelated frames, from flat neighbourhoods.

    `left`: squares that the motion leaves in each, [neighbourhoods]. `flat`: how far each is flat, 0..1.
    `noise`: squares that noise leaves in each.
    """
    products, powers = normal.likeness(left)
    # Each counts by how far its texture exceeds noise, but not by its contrast.
    weights = flat / (powers + noise / NOISE_VARIANCES)
    shares = weights * powers
    total = float(shares.sum())
    if total <= 0.0:
        return 0.0
    correlation = min(max(float(weights @ products) / total, 0.0), MAX_CORRELATION)
    independent = INDEPENDENT * total**2 / float(shares @ shares)
    return -independent * math.log1p(-(correlation**2))
