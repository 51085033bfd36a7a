"""Areas of two parts of the picture, from the degree to which each neighbourhood belongs to them.

Three things are unknown: the border of the picture, which has no features; parts without texture; and exactly
where an outline runs, as it shows in features on both sides.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.optical_flow.normal_equations import NEIGHBOURHOOD_CELLS, neighbourhood_sides

FEATURE_RADIUS_CELLS = 2.0
"""Distance from an outline at which it still shows in features. Derived: the root mean square distance of the
weights of the suite's filter from its middle."""

OUTLINE_FACTOR = math.pi / 4
"""Length of an outline over that of its staircase along rows and columns. Derived: the mean over all
directions."""

_AREAS_KEPT = 32
"""Number of overlap sizes whose areas are cached. Uncritical: motion changes the sizes little from image to
image."""


@dataclass(frozen=True, eq=False)
class PictureAreas:
    """Share of the picture that each neighbourhood stands for, [neighbourhoods].

    The neighbourhoods divide an overlap in the middle of the picture.
    """

    nearest: NDArray[np.float64]
    """Neighbourhoods at the edge also stand for the area outside that is nearest to them."""
    continued: NDArray[np.float64]
    """The same, but a change towards the edge continues outside."""
    edge: NDArray[np.bool_]
    """Whether each neighbourhood is at the edge."""
    down: int
    """Number of neighbourhoods from the top to the bottom."""
    side: float
    """Side of a neighbourhood over that of a square picture of the same area."""
    side_cells: int
    """Side of a neighbourhood, cells."""


@functools.lru_cache(maxsize=_AREAS_KEPT)
def picture_areas(
    rows: int, columns: int, height: int, width: int, side: int = NEIGHBOURHOOD_CELLS
) -> PictureAreas:
    """The areas for an overlap of rows x columns cells in the middle of a picture of height x width cells.

    `side`: side of a neighbourhood, cells.
    """
    axes = [_along(rows, height, side), _along(columns, width, side)]
    nearest, continued = (np.outer(down, across) for down, across in zip(*axes, strict=True))
    edge = np.zeros(nearest.shape, bool)
    edge[[0, -1]] = edge[:, [0, -1]] = True
    cells = float(nearest.sum())
    return PictureAreas(
        nearest.ravel() / cells,
        continued.ravel() / cells,
        edge.ravel(),
        len(nearest),
        side / math.sqrt(cells),
        side,
    )


def _along(cells: int, all_cells: int, side: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Cells of the picture along an axis that each neighbourhood stands for, nearest and continued."""
    sides = neighbourhood_sides(cells, side)
    border = (all_cells - cells) / 2
    nearest = sides.copy()
    nearest[[0, -1]] += border
    continued = nearest.copy()
    if len(sides) > 1:
        # A change is known over the distance of two neighbourhoods, and goes on over the same distance.
        known, start = (sides[0] + sides[1]) / 2, sides[0] / 2
        near = min(border, known - start)
        change = near * (start + near / 2) / known + border - near
        continued[[0, -1]] += change
        continued[1] -= change
        continued[-2] -= change
    return nearest, continued


@dataclass(frozen=True)
class AreaLead:
    """By how much one part is larger than another, as a share of the picture."""

    lead: float
    sigma: float

    @property
    def chance(self) -> float:
        """Probability, 0..1, that the other part is the larger one."""
        return 0.5 * math.erfc(self.lead / max(math.sqrt(2) * self.sigma, 1e-9))

    @property
    def of_other(self) -> AreaLead:
        """By how much the other part is larger."""
        return AreaLead(-self.lead, self.sigma)


def area_lead(first: NDArray[np.float64], second: NDArray[np.float64], areas: PictureAreas) -> AreaLead:
    """How much larger the first part is.

    `first`, `second`: how far each neighbourhood belongs to one or the other part, 0..1, [neighbourhoods].

    An outline moves with the part in front, and so do the features on both sides of it, so that this part
    looks larger. The part in front is the one that is seen less at the edge of the view, as what is behind
    surrounds it.
    """
    difference = first - second
    nearest, continued = float(difference @ areas.nearest), float(difference @ areas.continued)
    seen = float((first + second) @ areas.nearest)
    outline = 2 * FEATURE_RADIUS_CELLS / areas.side_cells * _outline(difference, areas)
    sampling = float(np.square(areas.nearest).sum()) * seen * seen
    # A value anywhere between two opposite bounds has a variance of a third of their square.
    between = (1 - seen) ** 2 + outline**2 + (continued - nearest) ** 2
    lead = continued + outline * _behind(difference, areas)
    return AreaLead(lead, math.sqrt(sampling + between / 3))


def _outline(difference: NDArray[np.float64], areas: PictureAreas) -> float:
    """Area of a strip, a neighbourhood wide, along the outline between two parts: share of the picture."""
    grid = difference.reshape(areas.down, -1)
    steps = float(np.abs(np.diff(grid, axis=0)).sum() + np.abs(np.diff(grid, axis=1)).sum()) / 2
    return OUTLINE_FACTOR * steps * areas.side**2


def _behind(difference: NDArray[np.float64], areas: PictureAreas) -> float:
    """Whether the first part is behind the second one, from 1 if it surely is to -1 if the second one is."""
    edge = difference[areas.edge]
    seen = max(float(np.abs(edge).sum()), 1e-9)
    return math.erf(float(edge.sum()) / seen * math.sqrt(len(edge) / 2))
