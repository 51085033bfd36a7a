"""Tells which of two motions has the larger part of the picture.

Each neighbourhood is assigned to the motion that explains it better, whatever its contrast. `part_areas` then
gives the areas of both parts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.optical_flow.dominant_motion import (
    MAX_DEVIATION_CELLS,
    REACH_CELLS,
    VISIBLE_SHIFT_CELLS,
    NeighbourhoodMotions,
    follow,
)
from edgetpu_perception.optical_flow.normal_equations import NEIGHBOURHOOD_CELLS, NormalEquations, Vector
from edgetpu_perception.optical_flow.part_areas import AreaLead, PictureAreas, area_lead

STEPS = 4
"""Least-squares steps in which the two motions are settled. Uncritical from 3 on."""

INDEPENDENT = 0.1 * NEIGHBOURHOOD_CELLS**2
"""Independent features of a neighbourhood. Derived: a tenth of its cells, as in BandPass.independent."""

LEAST_AREA = 0.1
"""Smallest part that moves by itself, as a share of the textured area. Derived: the neighbourhoods that
deviate by noise (1 - NEARLY_ALL in dominant_motion.py), and twice as many."""

LEAST_FOLLOWING = 0.5
"""Smallest share of a part that follows the part's motion. Derived: most of it; any shift explains some
neighbourhoods that neither motion does."""

LEAST_COHERENCE = 0.25
"""Smallest spatial autocorrelation (Moran, 1950) of two parts. Derived: three standard deviations of that of
81 random values."""

BY_CHANCE = 2.0
"""Standard deviations up to which two measurements of one motion differ by chance. Derived: 95 % of them."""


Item = TypeVar("Item")

Pair = tuple[Item, Item]
"""One item for each of two motions."""


@dataclass(frozen=True)
class LargerPart:
    """The larger one of two parts that move apart."""

    step: Vector
    side: NDArray[np.float64]
    """Probability that each neighbourhood follows this motion, not the other one: [neighbourhoods]."""
    doubt: tuple[float, float]
    """Variances of dx and dy because the other part may be the larger one, cells^2."""


def settled_pair(
    motions: NeighbourhoodMotions,
    normal: NormalEquations,
    roughness: float,
    motion: tuple[float, float],
    rival: tuple[float, float],
) -> Pair[Vector]:
    """Two motions, each settled over the part that it explains better.

    `motion`, `rival`: where they start, cells. `roughness`: see Registration.
    """
    limit = motions.limit(MAX_DEVIATION_CELLS)
    steps: Pair[Vector] = (*motion, 0.0), (*rival, 0.0)
    for _ in range(STEPS):
        left, other = (motions.left(*step[:2]) for step in steps)
        side = preference(left, other, motions.noise)
        first, _ = normal.solve(side * follow(left / limit), roughness)
        second, _ = normal.solve((1 - side) * follow(other / limit), roughness)
        steps = first, second
    return steps


def larger_part(
    motions: NeighbourhoodMotions,
    normal: NormalEquations,
    steps: Pair[Vector],
    areas: PictureAreas,
    least_distance: float,
) -> LargerPart | None:
    """The larger part of the two that follow settled motions.

    `steps`: the motions, cells. `least_distance`: between them, cells. None if there are not two parts.
    """
    if max(abs(along) for step in steps for along in step[:2]) > REACH_CELLS:
        return None
    distinct = math.dist(steps[0][:2], steps[1][:2]) >= least_distance
    parts = _two_parts((motions, motions), normal, steps, areas) if distinct else None
    if parts is None or float(parts.first @ areas.nearest) < LEAST_AREA * motions.textured(areas.nearest):
        return None
    lead, side = area_lead(parts.first, parts.second, areas), parts.side
    if lead.lead < 0.0:
        lead, steps, side = lead.of_other, steps[::-1], 1 - side
    dx, dy = (lead.chance * (steps[0][axis] - steps[1][axis]) ** 2 for axis in (0, 1))
    return LargerPart(steps[0], side, (dx, dy))


def left_by_two(motions: NeighbourhoodMotions, steps: Pair[Vector]) -> NDArray[np.float64]:
    """Sum of squares that the better of two motions, cells, leaves in each neighbourhood."""
    first, second = (motions.left(*step[:2]) for step in steps)
    return np.minimum(first, second)


def lead_of_first(
    motions: Pair[NeighbourhoodMotions], normal: NormalEquations, steps: Pair[Vector], areas: PictureAreas
) -> AreaLead | None:
    """By how much the part that follows the first of two motions is larger.

    `motions`: the same neighbourhoods near a whole shift for each motion. `steps`: the motions relative to
    these whole shifts, cells. `normal`: equations of either. None if the second motion has no part.
    """
    parts = _two_parts(motions, normal, steps, areas)
    return area_lead(parts.first, parts.second, areas) if parts is not None else None


def pull_of_contrast(
    motions: NeighbourhoodMotions, normal: NormalEquations, roughness: float, motion: tuple[float, float]
) -> tuple[float, float]:
    """Variances of dx and dy, cells^2, as parts with contrast may not move like most of the picture.

    Least squares weight neighbourhoods by their contrast. With equal weights the result is less precise, but
    it is the motion of most of the picture, even if no single neighbourhood shows how it moves. A difference
    between both results that exceeds noise is in doubt (Hausman, 1978). `roughness`: see Registration.
    `motion`: cells.
    """
    limit = motions.limit(VISIBLE_SHIFT_CELLS)
    # Neighbourhoods that clearly move differently do not count.
    following = follow(motions.left(*motion) / motions.limit(MAX_DEVIATION_CELLS))
    weights = following * np.sqrt(float(limit.mean()) / limit)
    step, inverse = normal.solve(weights, roughness)
    noise = (BY_CHANCE**2 * normal.variance(step, inverse, weights)).tolist()
    dx, dy = ((step[axis] - motion[axis]) ** 2 for axis in (0, 1))
    return dx if dx > noise[0] else 0.0, dy if dy > noise[1] else 0.0


@dataclass(frozen=True, eq=False)
class _TwoParts:
    """Two parts that move apart."""

    side: NDArray[np.float64]
    """Probability that each neighbourhood follows the first motion, not the second: [neighbourhoods]."""
    first: NDArray[np.float64]
    """How far each neighbourhood belongs to the first part, 0..1, [neighbourhoods]."""
    second: NDArray[np.float64]


def _two_parts(
    motions: Pair[NeighbourhoodMotions], normal: NormalEquations, steps: Pair[Vector], areas: PictureAreas
) -> _TwoParts | None:
    """The parts that follow each of two motions; None if the second motion has no part."""
    left = [each.left(*step[:2]) for each, step in zip(motions, steps, strict=True)]
    side = preference(left[0], left[1], min(each.noise for each in motions))
    parts = belonging(side), belonging(1 - side)
    first, second = (
        part * follow(squares / each.limit(MAX_DEVIATION_CELLS))
        for part, squares, each in zip(parts, left, motions, strict=True)
    )
    share = float(second @ areas.nearest)
    if (
        share < LEAST_AREA * max(each.textured(areas.nearest) for each in motions)
        or share < LEAST_FOLLOWING * float(parts[1] @ areas.nearest)
        or _coherence(side, normal) < LEAST_COHERENCE
    ):
        return None
    return _TwoParts(side, first, second)


def preference(left: NDArray[np.float64], other: NDArray[np.float64], noise: float) -> NDArray[np.float64]:
    """Probability that each neighbourhood follows one motion rather than another, from the squares left."""
    likelihood = (other - left) * (INDEPENDENT / (4 * noise))
    side: NDArray[np.float64] = 0.5 + 0.5 * np.tanh(likelihood)
    return side


def belonging(side: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far each neighbourhood belongs to a part, 0..1, from the probability that it follows its motion.

    A neighbourhood that both motions explain equally well belongs to neither part.
    """
    belongs: NDArray[np.float64] = np.maximum(2 * side - 1, 0.0)
    return belongs


def _coherence(side: NDArray[np.float64], normal: NormalEquations) -> float:
    """Spatial autocorrelation: 0 if the parts are scattered, up to 1 if each is connected."""
    grid = (side - side.mean()).reshape(normal.down, -1)
    products = float((grid[1:] * grid[:-1]).sum() + (grid[:, 1:] * grid[:, :-1]).sum())
    neighbours = grid[1:].size + grid[:, 1:].size
    squares = float(np.square(grid).mean())
    # No division by zero if the side is the same everywhere.
    return float(products / (neighbours * max(squares, 1e-12)))
