"""Finds the motion that most of the picture's area follows, which is not the mean motion.

For each neighbourhood of a few cells, a quadratic form of its gradients tells how well a shift explains it.
Each neighbourhood counts once, whatever its contrast, so that a bright person does not outvote a dim wall.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.optical_flow.normal_equations import PAIRS, Floats, NormalEquations

MAX_DEVIATION_CELLS = 0.12
"""Deviation from the motion in cells above which a neighbourhood no longer follows it.

Rows: flow, static camera, rmse. With smaller limits, slants and rotations look like other motions.
"""

NARROWER_DEVIATIONS = (MAX_DEVIATION_CELLS / 2, MAX_DEVIATION_CELLS / 4)
"""Deviations tried in turn while most of the texture still follows the motion, cells.

Derived: halved down to the deviation by image noise. Rows: flow, a slow object of 20 % of the area, median.
"""

NOISE_FACTOR = 2.0
"""Largest squared residual of a neighbourhood that follows the motion, over that of the best ones.

Derived: sums of 36 cells and 3 channels vary by a fifth; two of them leave room for the rest. Uncritical.
"""

UNEXPLAINED_FACTOR = 1.5
"""Squared residual of a common shift over that of each neighbourhood's own shift, if all of it is noise.

Given by the suite's features: the BEST_SHARE quantiles of both, measured with white image noise.
"""

BEST_SHARE = 0.3
"""Quantile of the neighbourhoods' least residuals that is taken for noise. Derived: most of the picture moves
as one, and some of it is flat."""

VISIBLE_SHIFT_CELLS = 1.0
"""Shift in cells whose residual tells whether a neighbourhood has texture.

Rows: flow, an object of 17 % before a faint background, valid.
"""

TEXTURE_RANGE = (2.0, 8.0)
"""Residual of a shift by VISIBLE_SHIFT_CELLS over the largest that noise leaves: flat up to the first,
texture from the second on. Flat parts of unrelated pictures agree. Rows: flow, two photographs, not valid;
static camera, valid."""

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

ROUNDING_LEFT = 4.0
"""Squared residual that rounding leaves, over the variance of rounding. Derived: 2 * 2**2 for the doubled
difference of two frames, halved, as least squares explain a share."""

_STEP_CELLS = 0.15
"""Distance between the shifts that are tried along an axis, cells.

Derived: no shift is farther than MAX_DEVIATION_CELLS from one that is tried.
"""

_AXIS = np.arange(-REACH_CELLS, REACH_CELLS + _STEP_CELLS / 2, _STEP_CELLS)
"""Shifts tried along an axis. Given by REACH_CELLS."""

_SHIFTS = np.stack([axis.ravel() for axis in np.meshgrid(_AXIS, _AXIS)], axis=1)
"""All shifts tried, [n, 2]. Given by _AXIS."""

_FORM = [PAIRS.index(pair) for pair in ((0, 0), (0, 1), (1, 1), (0, 3), (1, 3), (3, 3))]
"""Indices of the sums that make up the quadratic form. Given by the form."""

_OF_CONTRAST = [PAIRS.index(pair) for pair in ((0, 2), (1, 2), (2, 2), (2, 3))]
"""Indices of the sums by which a change of contrast alters the form. Given by the form."""

_NEAR = np.stack([axis.ravel() for axis in np.meshgrid(np.arange(-4.0, 5.0), np.arange(-4.0, 5.0))], axis=1)
"""Shifts tried near another one, in units of the deviation, [n, 2].

Derived: parts within twice the deviation from a step between their motions are no farther from that step.
"""


def chance_of_another(following: float, neighbourhoods: float) -> float:
    """Probability, 0..1, that most of the texture follows another motion.

    `following`: share of the texture that follows this motion. `neighbourhoods`: number of those in which it
    was measured; if neither motion has the larger area, each is equally likely to follow either.
    """
    return 0.5 * math.erfc((2 * following - 1) * math.sqrt(neighbourhoods / 2))


def _monomials(x: Any, y: Any) -> NDArray[np.float64]:
    """Monomials of a shift; times a neighbourhood's form, they are the squares left: [6] or, of n, [6, n]."""
    return np.array([x * x, 2 * x * y, y * y, -2 * x, -2 * y, x * 0 + 1])


_MONOMIALS: Floats = _monomials(*_SHIFTS.T).T.astype(np.float32)
"""Monomials of all shifts tried, [n, 6]; single precision, as least squares only start from the result."""

_NEAR_MONOMIALS: Floats = _monomials(*_NEAR.T).T.astype(np.float32)
"""Monomials of the shifts tried near another one, [n, 6]."""


class NeighbourhoodMotions:
    """How well any shift near a whole one explains each neighbourhood.

    The sum of squares that a shift leaves in a neighbourhood is a quadratic form of the shift.
    """

    def __init__(self, equations: NormalEquations, contrast: float, noise: float) -> None:
        """`equations`: those of the whole shift. `contrast`: change of contrast in its least-squares step.

        `noise`: standard deviation of a feature from rounding.
        """
        sums = equations.sums
        self._squares = sums.take(_FORM, axis=0)
        xx, xy, yy, bx, by, square = self._squares
        # Without the difference that the change of contrast explains.
        xc, yc, cc, cr = sums.take(_OF_CONTRAST, axis=0)
        bx -= contrast * xc
        by -= contrast * yc
        square -= contrast * (2 * cr - contrast * cc)
        self._slope = slope = xx + yy
        self._rounding = noise * noise * equations.features
        # What each neighbourhood's own best shift leaves.
        determinant = np.maximum(xx * yy - xy * xy, 1e-3 * (slope * slope) + 1e-12)
        least = square - (bx * (yy * bx - (xy + xy) * by) + xx * (by * by)) / determinant
        best = int(BEST_SHARE * len(least))
        least.partition(best)
        self._unexplained = max(float(least[best]), 0.0)
        self.noise = max(self._unexplained, ROUNDING_LEFT * self._rounding)
        """Sum of squares that noise leaves in a neighbourhood on average."""
        self.common = self._noise_left(NOISE_FACTOR)
        """Largest sum of squares that noise leaves in a neighbourhood."""
        visible = VISIBLE_SHIFT_CELLS**2 * slope / self.limit(MAX_DEVIATION_CELLS)
        flat, textured = TEXTURE_RANGE
        share = (visible - flat) / (textured - flat)
        self._textured: NDArray[np.float64] = np.minimum(np.maximum(share, 0.0), 1.0)
        """0 for flat neighbourhoods, 1 for those with texture, [neighbourhoods]."""

    def _noise_left(self, factor: float) -> float:
        """A multiple of the squares that noise leaves, measured at each neighbourhood's own shift.

        A common step between two motions leaves much everywhere.
        """
        return factor * self._unexplained + ROUNDING_LEFT * self._rounding

    def limit(self, deviation: float) -> NDArray[np.float64]:
        """Largest sum of squares left in a neighbourhood by a deviation in cells, [neighbourhoods]."""
        limit: NDArray[np.float64] = self.common + deviation**2 * self._slope
        return limit

    def left(self, dx: float, dy: float) -> NDArray[np.float64]:
        """Sum of squares that a shift in cells leaves in each neighbourhood, [neighbourhoods]."""
        left: NDArray[np.float64] = _monomials(dx, dy).dot(self._squares)
        return np.maximum(left, 0.0, out=left)

    def rival(
        self, dx: float, dy: float, areas: NDArray[np.float64], *, near: bool
    ) -> tuple[tuple[float, float], float]:
        """The shift in cells that explains the largest area better than (`dx`, `dy`), and that area, 0..1.

        `areas`: share of the picture that each neighbourhood stands for, [neighbourhoods]. `near`: try only
        nearby shifts, in steps of the narrowest deviation.
        """
        before = self.left(dx, dy)
        # As a share of what is left, since every step towards a far motion gains more than noise.
        worth = areas / (before + self.noise)
        unit = NARROWER_DEVIATIONS[-1] if near else MAX_DEVIATION_CELLS
        best, area = _largest_gain(_NEAR_MONOMIALS, _about(dx, dy, unit).dot(self._squares), before, worth)
        x, y = _NEAR[best].tolist()
        rival = dx + unit * x, dy + unit * y
        if not near:
            far, far_area = _largest_gain(_MONOMIALS, self._squares, before, worth)
            if far_area > area:
                (x, y), area = _SHIFTS[far].tolist(), far_area
                rival = x, y
        return rival, area

    def textured(self, areas: NDArray[np.float64]) -> float:
        """Share of the picture that has texture, 0..1.

        `areas`: share of the picture that each neighbourhood stands for, [neighbourhoods].
        """
        return float(self._textured @ areas)

    @property
    def rather_textured(self) -> float:
        """Share of the neighbourhoods that are textured rather than flat, 0..1."""
        return int(np.count_nonzero(self._textured > 0.5)) / len(self._textured)

    @property
    def flat(self) -> NDArray[np.float64]:
        """1 for flat neighbourhoods, 0 for those with texture, [neighbourhoods]."""
        flat: NDArray[np.float64] = 1.0 - self._textured
        return flat

    def kept_deviation(self, dx: float, dy: float) -> float:
        """Deviation in cells within which nearly every neighbourhood follows a least-squares step.

        The narrowest one, MAX_DEVIATION_CELLS, or infinity if some neighbourhoods move independently.
        """
        left = _monomials(dx, dy).dot(self._squares)
        common = NOISE_RESERVE * self._noise_left(NOISE_FACTOR * UNEXPLAINED_FACTOR)
        for deviation in (NARROWER_DEVIATIONS[-1], MAX_DEVIATION_CELLS):
            limit = common + (NOISE_RESERVE * deviation**2) * self._slope
            if float(follow(left / limit).sum()) >= NEARLY_ALL * len(left):
                return deviation
        return math.inf

    def within(self, deviation: float, side: NDArray[np.float64] | None = None) -> Followers:
        """The neighbourhoods, which follow a motion if they deviate from it by less than `deviation` cells.

        `side`: how far each one counts, 0..1, [neighbourhoods]; None if all do.
        """
        texture = self._textured if side is None else self._textured * side
        return Followers(self._squares / self.limit(deviation), texture, side)


@dataclass(frozen=True, eq=False)
class Followers:
    """Neighbourhoods that follow a shift if they deviate from it by less than a limit."""

    forms: NDArray[np.float64]
    """Quadratic forms of the squares left, over their limit, [6, neighbourhoods]."""
    texture: NDArray[np.float64]
    """0 for flat neighbourhoods, 1 for those with texture, [neighbourhoods]."""
    side: NDArray[np.float64] | None = None
    """How far each neighbourhood counts, 0..1, [neighbourhoods]; None if all do."""

    def dominant(self) -> tuple[float, float]:
        """The shift in cells that the largest part of the textured area follows."""
        dx, dy = _SHIFTS[self._most_followed(_MONOMIALS, self.forms)].tolist()
        return dx, dy

    def dominant_near(self, dx: float, dy: float, deviation: float) -> tuple[float, float]:
        """The shift in cells near another one that the largest part of the textured area follows.

        `deviation`: distance between the shifts that are tried, cells.
        """
        near = self._most_followed(_NEAR_MONOMIALS, _about(dx, dy, deviation).dot(self.forms))
        x, y = _NEAR[near].tolist()
        return dx + deviation * x, dy + deviation * y

    def _most_followed(self, monomials: Floats, forms: NDArray[np.float64]) -> int:
        """Index of the shift that the largest part of the textured area follows."""
        followed = follow(monomials.dot(forms.astype(np.float32)))
        return int(followed.dot(self.texture.astype(np.float32)).argmax())

    def weights(self, dx: float, dy: float) -> NDArray[np.float64]:
        """1 for neighbourhoods that follow a shift in cells, less for the others: [neighbourhoods]."""
        weights: NDArray[np.float64] = follow(_monomials(dx, dy).dot(self.forms))
        return weights if self.side is None else weights * self.side

    def share(self, weights: NDArray[np.float64], areas: NDArray[np.float64]) -> float:
        """Share of the picture that has texture and follows the shift: 0..1.

        `weights`: of the neighbourhoods, [n]. `areas`: share of the picture that each stands for, [n].
        """
        return float((weights * self.texture) @ areas)

    def share_of_texture(self, weights: NDArray[np.float64]) -> float:
        """Share of the texture that follows the shift, 0..1. `weights`: of the neighbourhoods, [n]."""
        return float(weights @ self.texture) / max(float(self.texture.sum()), 1.0)


def _largest_gain(
    monomials: Floats, forms: NDArray[np.float64], before: NDArray[np.float64], worth: NDArray[np.float64]
) -> tuple[int, float]:
    """Index of the shift with the largest gain over another one, and that gain.

    `before`: squares that the other shift leaves. `worth`: weight of each of these. Both: [neighbourhoods].
    """
    most, left = before.astype(np.float32), monomials.dot(forms.astype(np.float32))
    # Not the maximum of each gain and 0, for which NumPy takes twice as long.
    gain = np.subtract(most, np.minimum(left, most, out=left), out=left)
    gains = gain.dot(worth.astype(np.float32))
    best = int(gains.argmax())
    return best, float(gains[best])


def _about(dx: float, dy: float, unit: float) -> NDArray[np.float64]:
    """Matrix that turns forms of shifts in cells into those of their offset from one, in a unit: [6, 6]."""
    area = unit * unit
    return np.array(
        (
            (area, 0.0, 0.0, 0.0, 0.0, 0.0),
            (0.0, area, 0.0, 0.0, 0.0, 0.0),
            (0.0, 0.0, area, 0.0, 0.0, 0.0),
            (-unit * dx, -unit * dy, 0.0, unit, 0.0, 0.0),
            (0.0, -unit * dx, -unit * dy, 0.0, unit, 0.0),
            (dx * dx, 2 * dx * dy, dy * dy, -2 * dx, -2 * dy, 1.0),
        )
    )


def follow(left: NDArray[Any]) -> NDArray[Any]:
    """Weights of neighbourhoods, [n], in place of `left`: 1 where that is at most 1, else 1 over its square.

    `left`: sum of squares that the motion leaves in each, over the largest that noise leaves.
    """
    np.maximum(left, 1.0, out=left)
    np.square(left, out=left)
    np.reciprocal(left, out=left)
    return left
