"""A motion that changes across the picture as a polynomial of the position, and its median."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.optical_flow.normal_equations import Floats

PLACES = 256
"""Number of places over which a median is taken. Uncritical from 64 on."""

_FROM_MIDDLE = np.arange(PLACES) - (PLACES - 1) / 2
"""Numbers of the places, counted from their middle. Given by PLACES."""

_ACROSS = _FROM_MIDDLE / PLACES
"""Horizontal positions of the places, -0.5 to 0.5. Derived: no two share a column or row, so that a motion
which changes along one axis only has a different value at each."""

_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
"""Vertical step from each place to the next, as a share of the height; it wraps around at the edge.

Given by the golden ratio, which divides most evenly.
"""

_DOWN = _FROM_MIDDLE * _GOLDEN - np.rint(_FROM_MIDDLE * _GOLDEN)
"""Vertical positions of the places; like the horizontal ones symmetric about the middle. Given by _GOLDEN."""

MEDIAN_SHARE = 0.2
"""Share of the places that determine the median: those whose motions are nearest to it. Uncritical from 0.1
to 0.4."""

MOST_NOT_FOLLOWING = 0.9
"""Upper limit of `MotionField.not_following` when ranks beside the median are chosen.

Uncritical: a smooth motion that only a tenth of the picture follows is not used.
"""


def monomials(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Monomials of each position, as in the polynomials of dx and dy, [2, 5, ..]."""
    one, both = np.ones_like(x), x * y
    return np.array(((one, x, y, x * x, both), (one, x, y, both, y * y)))


@dataclass(frozen=True, eq=False)
class MotionField:
    """Motion in cells at every position in a picture."""

    unit: float
    """Length of a cell in the unit of positions, which are measured from the middle of the picture."""
    coefficients: NDArray[np.float64]
    """Coefficients of `monomials` in dx and dy: [2, 5]."""
    covariances: NDArray[np.float64]
    """Covariances of the coefficients, for dx and for dy: [2, 5, 5]."""
    measured_at: NDArray[np.float64]
    """Means of the monomials where dx and dy were measured: [2, 5]."""
    not_following: float
    """Share of the picture that does not follow this motion, 0..1."""

    def along(self, rows: int, columns: int) -> NDArray[np.float64]:
        """Motion of each cell of rows x columns in the middle of the picture: [2, rows, columns]."""
        y, x = (self.unit * (np.arange(cells) - (cells - 1) / 2) for cells in (rows, columns))
        places = monomials(np.tile(x, rows), np.repeat(y, columns))
        return self._motion(places).reshape(2, rows, columns)

    def median(self, height: int, width: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Median of dx and of dy over a picture of height x width cells, and their variances: [2] each.

        A median is less certain than the motion where it was measured: other places determine it, and parts
        that do not follow may be slower or faster. The variances are those of the difference between the two.
        """
        places = monomials(self.unit * width * _ACROSS, self.unit * height * _DOWN)
        middle = PLACES // 2
        not_following = min(self.not_following, MOST_NOT_FOLLOWING)
        beside, near = (round(share * middle) for share in (not_following, MEDIAN_SHARE))
        medians, variances = np.empty(2), np.empty(2)
        for axis, motion in enumerate(self._motion(places)):
            order = motion.argsort()
            ranked = motion[order].tolist()
            slower, medians[axis], faster = (
                (ranked[rank - 1] + ranked[rank]) / 2 for rank in (middle - beside, middle, middle + beside)
            )
            way = places[axis][:, order[middle - near : middle + near]].mean(axis=1) - self.measured_at[axis]
            # A value anywhere between two bounds has a variance of a twelfth of their squared distance.
            variances[axis] = way @ self.covariances[axis] @ way + (faster - slower) ** 2 / 12
        return medians, variances

    def _motion(self, places: NDArray[np.float64]) -> NDArray[np.float64]:
        """Motion at places with these monomials, [2, 5, n]: [2, n]."""
        return np.asarray((self.coefficients[:, np.newaxis] @ places)[:, 0])


def remove(equations: Floats, field: MotionField, shift: NDArray[np.float64]) -> None:
    """Subtract what a motion explains, except for a shift, from the residual of the equations, in place.

    `equations`: [4, channels, rows, columns]. `shift`: [2], cells.
    """
    rows, columns = equations.shape[2:]
    for term, along, stays in zip(equations[:2], field.along(rows, columns), shift, strict=True):
        equations[3] -= (along - stays).astype(np.float32) * term
