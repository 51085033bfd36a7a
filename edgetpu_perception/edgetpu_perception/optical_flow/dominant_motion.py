"""Finds the motion that most of the picture's area follows, which is not the mean motion.

For each neighbourhood of a few cells, a quadratic form of its gradients tells how well a shift explains it.
Each neighbourhood counts once, whatever its contrast, so that a bright person does not outvote a dim wall.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.optical_flow.normal_equations import NormalEquations, Vector

MAX_DEVIATION_CELLS = 0.12
"""Deviation from the motion, cells, from which on a neighbourhood does not follow it.

Rows: flow, static camera, rmse. Smaller ones take slants and rotations for other motions.
"""

NARROWER_DEVIATIONS = (MAX_DEVIATION_CELLS / 2, MAX_DEVIATION_CELLS / 4)
"""Deviations tried in turn while most of the texture still follows the motion, cells.

Derived: halves, down to that of image noise. Rows: flow, a slow object of 20 % of the area, median.
"""

NOISE_FACTOR = 2.0
"""Largest residual of a neighbourhood that follows the motion, over that of the best ones, in squares.

Derived: sums of 36 cells and 3 channels vary by a fifth; two of them leave room for the rest. Uncritical.
"""

UNEXPLAINED_FACTOR = 1.5
"""Residual that a common shift leaves over that of each neighbourhood's own one, for noise alone, in squares.

Measured: quantiles of BEST_SHARE for white image noise through the suite's features.
"""

BEST_SHARE = 0.3
"""Quantile of the least residuals that is taken as that of noise. Derived: most of the picture moves as one,
and some of it is flat."""

VISIBLE_SHIFT_CELLS = 0.5
"""Shift, cells, by whose residual the texture of a neighbourhood is judged. Uncritical."""

TEXTURE_RANGE = (2.0, 8.0)
"""Residual of that shift over the largest one that noise leaves: flat up to the first, texture from the
second on. Flat parts of two unrelated pictures agree. Rows: flow, two photographs, not valid; static camera,
valid."""

NOISE_RESERVE = 1.5
"""Factor on the largest residual before an independent motion is searched for. Rows: the same as
NEARLY_ALL."""

NEARLY_ALL = 0.95
"""Share of the neighbourhoods that follow a motion if nothing moves independently; noise makes some deviate.

Rows: flow, gain 20 %, offset 20, noise 4, inside one sigma; static camera, rmse.
"""

REACH_CELLS = 1.2
"""Distance from a whole shift within which the dominant motion is looked for.

Derived: a peak of the correlation is right to 1 cell.
"""

_STEP_CELLS = 0.1
"""Distance of the shifts that are tried, cells. Derived: below MAX_DEVIATION_CELLS."""

_AXIS = np.arange(-REACH_CELLS, REACH_CELLS + _STEP_CELLS / 2, _STEP_CELLS)
"""Shifts tried along an axis. Given by REACH_CELLS."""

_SHIFTS = np.stack([axis.ravel() for axis in np.meshgrid(_AXIS, _AXIS)], axis=1)
"""All shifts tried, [n, 2]. Given by _AXIS."""


_NEAR = np.stack([axis.ravel() for axis in np.meshgrid(np.arange(-4.0, 5.0), np.arange(-4.0, 5.0))], axis=1)
"""Shifts tried near another one, deviations, [n, 2].

Derived: parts that keep twice the deviation from a step between their motions are no farther from it.
"""


def kept_deviation(equations: NormalEquations, step: Vector, noise: float) -> float:
    """Deviation from a least-squares step, cells, that nearly every neighbourhood keeps.

    The narrowest one, MAX_DEVIATION_CELLS, or infinity if some neighbourhoods move independently. `noise`:
    standard deviation of a feature from rounding.
    """
    left = equations.left_by(step)
    rounding = noise * noise * equations.features
    common = common_residual(UNEXPLAINED_FACTOR * unexplained(equations, step[2]), rounding)
    for deviation in (NARROWER_DEVIATIONS[-1], MAX_DEVIATION_CELLS):
        limit = NOISE_RESERVE * (common + deviation**2 * equations.slope)
        if float(np.mean(follow(left / limit))) >= NEARLY_ALL:
            return deviation
    return math.inf


def unexplained(equations: NormalEquations, contrast: float) -> NDArray[np.float64]:
    """Sum of squares that each neighbourhood's own best shift leaves, [neighbourhoods].

    A step between two motions leaves much in every neighbourhood; this is what noise alone leaves.
    """
    xx, xy, xc, bx, yy, yc, by, cc, bc, square = equations.sums
    # Without the difference that the change of contrast explains.
    bx, by = bx - contrast * xc, by - contrast * yc
    square = square - contrast * (2 * bc - contrast * cc)
    determinant = np.maximum(xx * yy - xy * xy, 1e-3 * np.square(equations.slope) + 1e-12)
    least: NDArray[np.float64] = square - (yy * bx * bx - 2 * xy * bx * by + xx * by * by) / determinant
    return np.maximum(least, 0.0, out=least)


def chance_of_another(following: float, neighbourhoods: int) -> float:
    """Probability, 0..1, that most of the texture follows another motion.

    `following`: share of the texture that follows this one, seen in a number of `neighbourhoods`, each of
    which is as likely to follow the one or the other if neither has the larger area.
    """
    return 0.5 * math.erfc((2 * following - 1) * math.sqrt(neighbourhoods / 2))


def _monomials(x: Any, y: Any) -> NDArray[np.float64]:
    """Factors of a neighbourhood's sums in the remaining squares of a shift: [6], or [6, n] of n shifts."""
    return np.array([x * x, 2 * x * y, y * y, -2 * x, -2 * y, x * 0 + 1])


_MONOMIALS = _monomials(*_SHIFTS.T).T
"""Those of all shifts tried, [n, 6]."""


class NeighbourhoodMotions:
    """How well each neighbourhood is explained by any shift near a whole one."""

    def __init__(self, equations: NormalEquations, contrast: float, noise: float) -> None:
        """`equations`: those of the whole shift. `contrast`: that of its step.

        `noise`: see `kept_deviation`.
        """
        xx, xy, xc, bx, yy, yc, by, cc, bc, square = equations.sums
        bx, by = bx - contrast * xc, by - contrast * yc
        square = square - contrast * (2 * bc - contrast * cc)
        rounding = noise * noise * equations.features
        self._slope = equations.slope
        self._common = common_residual(unexplained(equations, contrast), rounding)
        limit = self._common + MAX_DEVIATION_CELLS**2 * self._slope
        self._sums = np.stack((xx, xy, yy, bx, by, square))
        self._forms = self._sums / limit
        visible = VISIBLE_SHIFT_CELLS**2 * self._slope / limit
        flat, textured = TEXTURE_RANGE
        self._textured = np.clip((visible - flat) / (textured - flat), 0.0, 1.0)

    def narrowed(self, deviation: float) -> NeighbourhoodMotions:
        """The same neighbourhoods, which follow a motion if they deviate less, cells."""
        narrow = copy.copy(self)
        narrow._forms = self._sums / (self._common + deviation**2 * self._slope)
        return narrow

    def dominant(self) -> tuple[float, float]:
        """The shift, cells, that the largest part of the textured area follows."""
        followed = follow(_MONOMIALS @ self._forms) @ self._textured
        dx, dy = _SHIFTS[int(followed.argmax())].tolist()
        return dx, dy

    def dominant_near(self, dx: float, dy: float, deviation: float) -> tuple[float, float]:
        """The shift, cells, that the largest part of the textured area follows near another shift.

        `deviation`: distance of the shifts that are tried, cells.
        """
        shifts = np.array((dx, dy)) + deviation * _NEAR
        followed = follow(_monomials(*shifts.T).T @ self._forms) @ self._textured
        x, y = shifts[int(followed.argmax())].tolist()
        return x, y

    def weights(self, dx: float, dy: float) -> NDArray[np.float64]:
        """1 for neighbourhoods that follow a shift, cells, less for the others: [neighbourhoods]."""
        return follow(_monomials(dx, dy) @ self._forms)

    def share(self, weights: NDArray[np.float64]) -> float:
        """Share of the picture that has texture and follows the shift with these `weights`: 0..1."""
        return float(np.mean(weights * self._textured))

    def share_of_texture(self, weights: NDArray[np.float64]) -> float:
        """Share of the texture that follows the shift with these `weights`: 0..1."""
        return float(weights @ self._textured / max(self._textured.sum(), 1.0))


def follow(left: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 for neighbourhoods whose remaining squares, over the limit, are at most 1; else less. In place."""
    np.maximum(left, 1.0, out=left)
    np.square(left, out=left)
    return np.reciprocal(left, out=left)


def common_residual(unexplained: NDArray[np.float64], rounding: float) -> float:
    """Largest sum of squares that noise leaves in a neighbourhood.

    `rounding`: variance of a neighbourhood's features from rounding.
    """
    best = int(BEST_SHARE * len(unexplained))
    # Rounding of the difference of two frames, doubled: 2 * 2**2, halved as the least squares take a share.
    return NOISE_FACTOR * float(np.partition(unexplained, best)[best]) + 4.0 * rounding
