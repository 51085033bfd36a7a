"""Finds the motion that most of the picture's area follows, which is not the mean motion.

For each neighbourhood of a few cells, a quadratic form of its gradients tells how well a shift explains it.
Each neighbourhood counts once, whatever its contrast, so that a bright person does not outvote a dim wall.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.optical_flow.normal_equations import NormalEquations, Vector

MAX_DEVIATION_CELLS = 0.12
"""Deviation from the motion, cells, from which on a neighbourhood does not follow it.

Rows: flow, static camera, rmse. Smaller ones take slants and rotations for other motions.
"""

NOISE_FACTOR = 2.0
"""Largest residual of a neighbourhood that follows the motion, over that of the best ones, in squares.

Derived: sums of 36 cells and 3 channels vary by a fifth; two of them leave room for the rest. Uncritical.
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


def all_follow(equations: NormalEquations, step: Vector, noise: float) -> bool:
    """Whether nearly every neighbourhood follows the motion of a least-squares step.

    `noise`: standard deviation of a feature from rounding.
    """
    left = equations.left_by(step)
    limit = _limit(equations.slope, left, noise * noise * equations.features)
    return float(np.mean(_follow(left / (NOISE_RESERVE * limit)))) >= NEARLY_ALL


def _monomials(x: Any, y: Any) -> NDArray[np.float64]:
    """Factors of a neighbourhood's sums in the remaining squares of a shift: [6], or [6, n] of n shifts."""
    return np.array([x * x, 2 * x * y, y * y, -2 * x, -2 * y, x * 0 + 1])


_MONOMIALS = _monomials(*_SHIFTS.T).T
"""Those of all shifts tried, [n, 6]."""


class NeighbourhoodMotions:
    """How well each neighbourhood is explained by any shift near a whole one."""

    def __init__(self, equations: NormalEquations, contrast: float, noise: float) -> None:
        """`equations`: those of the whole shift. `contrast`: that of its step. `noise`: see `all_follow`."""
        xx, xy, xc, bx, yy, yc, by, cc, bc, square = equations.sums
        # Without the difference that the change of contrast explains.
        bx, by = bx - contrast * xc, by - contrast * yc
        square = square - contrast * (2 * bc - contrast * cc)
        slope = equations.slope
        determinant = np.maximum(xx * yy - xy * xy, 1e-3 * np.square(slope) + 1e-12)
        least = np.maximum(square - (yy * bx * bx - 2 * xy * bx * by + xx * by * by) / determinant, 0.0)
        limit = _limit(slope, least, noise * noise * equations.features)
        self._forms = np.stack((xx, xy, yy, bx, by, square)) / limit
        visible = VISIBLE_SHIFT_CELLS**2 * slope / limit
        flat, textured = TEXTURE_RANGE
        self._textured = np.clip((visible - flat) / (textured - flat), 0.0, 1.0)

    def dominant(self) -> tuple[float, float]:
        """The shift, cells, that the largest part of the textured area follows."""
        followed = _follow(_MONOMIALS @ self._forms) @ self._textured
        dx, dy = _SHIFTS[int(followed.argmax())].tolist()
        return dx, dy

    def weights(self, dx: float, dy: float) -> NDArray[np.float64]:
        """1 for neighbourhoods that follow a shift, cells, less for the others: [neighbourhoods]."""
        return _follow(_monomials(dx, dy) @ self._forms)

    def share(self, weights: NDArray[np.float64]) -> float:
        """Share of the picture that has texture and follows the shift with these `weights`: 0..1."""
        return float(np.mean(weights * self._textured))


def _follow(left: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 for neighbourhoods whose remaining squares, over the limit, are at most 1; else less. In place."""
    np.maximum(left, 1.0, out=left)
    np.square(left, out=left)
    return np.reciprocal(left, out=left)


def _limit(slope: NDArray[np.float64], left: NDArray[np.float64], rounding: float) -> NDArray[np.float64]:
    """Largest sum of squares that a neighbourhood which follows the motion may leave."""
    best = int(BEST_SHARE * len(left))
    common = NOISE_FACTOR * float(np.partition(left, best)[best])
    # Rounding of the difference of two frames, doubled: 2 * 2**2, halved as the least squares take a share.
    limit: NDArray[np.float64] = common + MAX_DEVIATION_CELLS**2 * slope + 4.0 * rounding
    return limit
