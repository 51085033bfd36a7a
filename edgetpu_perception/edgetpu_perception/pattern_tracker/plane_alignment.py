"""Subpixel position of a flat patch that an image shows tilted, in perspective.

Inverse compositional alignment (Baker and Matthews, 2004) of a homography, scored by normalised
cross-correlation. A prior, weighted by the unexplained part, holds the homography near the untilted patch, so
that it cannot fit much that is not the patch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.graphs.pattern_tracker_correlation import without_mean
from edgetpu_perception.pattern_tracker.patch_alignment import (
    GROWTH_FLOOR_PX,
    ROUNDING_PX,
    TURN_SIGMA,
)
from edgetpu_perception.pattern_tracker.window_score import window_score

STRETCH_SIGMA = 0.1
"""Expected relative change of size, and stretch along an axis, one standard deviation.

Derived: a patch tilted by 35 degrees is 18 % shorter along an axis, or 9 % smaller and stretched by 9 %.
"""

PERSPECTIVE_SIGMA = 0.05
"""Expected relative change of scale from the centre to a corner, one standard deviation.

Derived: half of that of a patch with a diagonal of 200 px at a focal length of 600 px, tilted by 35 degrees.
"""

REACH_PX = 3.0
"""How far the centre may move along an axis, px.

Derived: upright alignments of patches that are tilted by up to 45 degrees are up to 2 px off.
"""

LEAST_SIZE = 0.1
"""Least area of a patch in an image over its own area.

Derived: half of the area at a tilt of 78 degrees, which no match has.
"""

MOST_PERSPECTIVE = 0.5
"""Largest relative change of scale from the centre to a corner.

Derived: ten standard deviations; from 1 on a corner would be behind the camera.
"""

MAX_STEPS = 16
"""Largest number of steps. Limits the time."""

SQUARES = 16
"""Number of squares of px, within each of which residuals may be correlated.

Derived: with fewer squares, the eight parameters would fit most of their displacements. Light and blur change
little within a square.
"""

LARGEST_LAST_STEP_PX = 0.5
"""Largest step after the last comparison, px at a corner.

Derived: as steps converge quadratically, the error that is left after it is far below that by noise.
"""

Homography = NDArray[np.float64]
"""[3, 3], the last element being 1: from coordinates on a patch to px of an image.

The centre of the patch is at (0, 0), its corners at a distance of 1.
"""


class PlaneAlignment(NamedTuple):
    """A patch in an image."""

    score: float
    """Normalised cross-correlation there, -1..1."""
    to_image: Homography
    x_sigma: float
    """Standard deviations of the centre, px of the image ..."""
    y_sigma: float
    growth_sigma: float
    """... and of the logarithm of the scale."""


class HiddenTilt(NamedTuple):
    """How a tilt would change a match without one."""

    gain: float
    """Share of the unexplained part of the match that a tilt would explain, 0..1."""
    x: float
    """How far a tilt would move the centre left or right, beyond noise, px of the image, 0 or more ..."""
    y: float
    """... and up or down."""


class PlaneAligner:
    """Aligns one patch, grey levels float32 [h, w], of which the px in `mask` count."""

    def __init__(self, patch: NDArray[np.float32], mask: NDArray[np.bool_], converged: float) -> None:
        """`converged`: a step that moves no corner of the patch by more than this is the last, px."""
        height, width = patch.shape
        self._size = width, height
        x, y = (width - 1) / 2, (height - 1) / 2
        self.extent = extent = math.hypot(x, y)
        """Px from the centre of the patch to a corner."""
        self._to_coordinates = np.array([[1.0, 0.0, -x], [0.0, 1.0, -y], [0.0, 0.0, extent]]) / extent
        self._converged = converged
        self._mask = None if mask.all() else mask.ravel().astype(np.float32)
        self._count = int(np.count_nonzero(mask))
        deviation = without_mean(patch, mask)
        self._norm = max(float(np.linalg.norm(deviation)), 1e-6)
        direction = deviation.ravel() / self._norm
        jacobian = self._jacobian(patch, mask, direction)
        sigmas = np.array([TURN_SIGMA, *3 * [STRETCH_SIGMA], *2 * [PERSPECTIVE_SIGMA]])
        self._prior = np.diag(np.concatenate([[0.0, 0.0], (extent * sigmas) ** -2]))
        information = jacobian.T @ jacobian
        # The small terms avoid a division by zero for a patch without structure along an axis.
        self._information = information + np.diag(np.full(8, 1e-6 + 1e-9 * np.trace(information)))
        self._inverse = np.linalg.inv(self._information)
        self._known, self._tilts, self._compensation = self._independent_tilts()
        self._rows = np.vstack([jacobian.T, direction, mask.ravel()]).astype(np.float32)
        self._window = np.empty((height, width), np.float32)

    def _jacobian(
        self, patch: NDArray[np.float32], mask: NDArray[np.bool_], direction: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Derivatives of the normalised patch, [h * w, 8], each per px that a corner moves.

        With respect to x, y, rotation, scale, stretch along x and along the diagonal, and perspective along
        x and y, without their parts that change only brightness and contrast.
        """
        down, right = np.gradient(patch.astype(np.float64))
        y, x = np.indices(patch.shape, dtype=np.float64)
        x, y = (x - x.mean()) / self.extent, (y - y.mean()) / self.extent
        outwards = right * x + down * y
        derivatives = (
            right,
            down,
            down * x - right * y,
            outwards,
            right * x - down * y,
            right * y + down * x,
            -x * outwards,
            -y * outwards,
        )
        columns = np.stack(derivatives, axis=-1)[mask] / self._norm
        columns -= columns.mean(axis=0)
        columns -= np.outer(direction[mask.ravel()], direction[mask.ravel()] @ columns)
        jacobian = np.zeros((mask.size, 8))
        jacobian[mask.ravel()] = columns
        return jacobian

    def _independent_tilts(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Four tilts that are independent of each other, each with a prior of 1.

        Returns the information about each, [4], if position, rotation and scale are unknown; weights with
        which pulls give the tilts without the effect of these, [8, 4]; and how far the centre moves to make
        up for each tilt, in coordinates on the patch, [2, 4].
        """
        upright, between = self._information[:4, :4], self._information[:4, 4:]
        made_up = np.linalg.solve(upright, between)
        sigmas = np.diag(np.diag(self._prior)[4:] ** -0.5)
        known, axes = np.linalg.eigh(sigmas @ (self._information[4:, 4:] - between.T @ made_up) @ sigmas)
        tilts = sigmas @ axes
        return known, np.vstack([-made_up @ tilts, tilts]), made_up[:2] @ tilts / self.extent

    def upright(self, x: float, y: float, cosine: float, sine: float) -> Homography:
        """An untilted patch centred at (x, y), px; scale times cosine and sine of its rotation."""
        a, b = self.extent * cosine, self.extent * sine
        return np.array([[a, -b, x], [b, a, y], [0.0, 0.0, 1.0]])

    @property
    def compared(self) -> NDArray[np.float32]:
        """What the image that was compared last showed of the patch, [h, w]; a buffer."""
        return self._window

    def window(self, levels: NDArray[np.float32], here: Homography) -> NDArray[np.float32]:
        """What an image [H, W] shows of the patch, [h, w]."""
        self._compare(levels, here)
        return self._window.copy()

    def hidden_tilt(self, levels: NDArray[np.float32], match: Homography) -> HiddenTilt:
        """How a tilt would change an untilted match, to first order.

        One grey level of noise is added to the unexplained part, as a tilt need not explain rounding.
        """
        change, gain, score = self._compare(levels, match)
        if min(gain, score) <= 0.0:
            return HiddenTilt(0.0, 0.0, 0.0)
        pull, noise = change / gain, self._noise(score)
        unexplained = 1.0 / score**2 - 1.0 + self._count / self._norm**2
        tilt, weight = pull @ self._tilts, self._known + noise
        centre = match[:2, :2] @ self._compensation
        moved = (centre @ (tilt / weight)).tolist()
        by_noise = (noise * np.square(centre) @ (self._known / np.square(weight))).tolist()
        x, y = (math.sqrt(max(a * a - b, 0.0)) for a, b in zip(moved, by_noise, strict=True))
        return HiddenTilt(float(tilt @ (tilt / self._known)) / unexplained, x, y)

    def align(self, levels: NDArray[np.float32], starts: Sequence[Homography]) -> PlaneAlignment:
        """Gauss-Newton steps from the best start in an image [H, W]; one that lowers the score is halved.

        `levels`: grey levels minus a constant near the mean of the patch.
        """
        start = max(starts, key=lambda each: self._compare(levels, each)[2])
        here, best, best_score = start, start, -1.0
        step: NDArray[np.floating] = np.zeros(8)
        for count in range(MAX_STEPS):
            change, gain, score = self._compare(levels, here)
            progress = score - best_score
            if min(progress, gain, score) > 0.0:
                best, best_score = here, score
                prior = self._noise(score) * self._prior
                pull = change / gain + prior @ self._deviation(here)
                step = np.linalg.solve(self._information + prior, pull)
            elif count == 0:
                break
            else:
                step = 0.5 * step
            here = self._moved(best, step)
            if not self._is_near(here, start):
                break
            if _largest_move(step) < self._converged:
                best = here if progress > 0.0 else best
                break
        return self._settled(levels, best, best_score, start)

    def _is_near(self, here: Homography, start: Homography) -> bool:
        """Whether the centre has moved little, and the patch is not seen edge-on or from behind."""
        moved = float(np.abs(here[:2, 2] - start[:2, 2]).max())
        (a, b), (c, d) = self.local(here).tolist()
        in_front = a * d - b * c > LEAST_SIZE and math.hypot(*here[2, :2]) < MOST_PERSPECTIVE
        return moved <= REACH_PX and in_front

    def _moved(self, here: Homography, step: NDArray[np.floating]) -> Homography:
        """The homography after the inverse of a change of the patch."""
        x, y, turn, growth, stretch, shear, along_x, along_y = (step / self.extent).tolist()
        inverse = -np.array(
            [[growth + stretch, shear - turn, x], [shear + turn, growth - stretch, y], [along_x, along_y, 0]]
        )
        return scaled(here @ (np.eye(3) + inverse + inverse @ inverse))

    def local(self, here: Homography) -> NDArray[np.float64]:
        """Derivatives [2, 2] of px of the image with respect to px of the patch, at its centre."""
        derivatives: NDArray[np.float64] = (here[:2, :2] - np.outer(here[:2, 2], here[2, :2])) / self.extent
        return derivatives

    def _deviation(self, here: Homography) -> NDArray[np.float64]:
        """Change of the patch as in `_jacobian`, px at a corner, with 0 for x and y."""
        (a, b), (c, d) = self.local(here).tolist()
        turned = complex(a + d, c - b) / 2
        stretched = complex(a - d, b + c) / 2 / turned
        turn, growth = math.atan2(turned.imag, turned.real), math.log(abs(turned))
        return self.extent * np.array(
            [0.0, 0.0, turn, growth, stretched.real, stretched.imag, here[2, 0], here[2, 1]]
        )

    def _compare(
        self, levels: NDArray[np.float32], here: Homography
    ) -> tuple[NDArray[np.float64], float, float]:
        """Pull towards a better position times gain, [8], gain (grey levels) and score of the patch there."""
        cv2.warpPerspective(
            levels,
            here @ self._to_coordinates,
            self._size,
            self._window,
            flags=cv2.INTER_CUBIC | cv2.WARP_INVERSE_MAP,
            borderMode=cv2.BORDER_REPLICATE,
        )
        window = self._window.ravel()
        products = (self._rows @ window).astype(np.float64)
        gain, total = products[8:].tolist()
        return products[:8], gain, window_score(window, self._mask, gain, total, self._count)

    def _noise(self, score: float) -> float:
        """Variance of a px of the normalised patch that is left unexplained."""
        return (1.0 / score**2 - 1.0) / max(self._count - 10, 1)

    def _settled(
        self, levels: NDArray[np.float32], here: Homography, score: float, start: Homography
    ) -> PlaneAlignment:
        """The last step, and sigmas from the residuals of all px.

        Residuals of neighbours are correlated, and largest at edges, so they are summed over squares (Newey
        and West, 1987). They also weight the prior.
        """
        if score <= 0.0:
            return PlaneAlignment(score, here, math.inf, math.inf, math.inf)
        change, gain, _ = self._compare(levels, here)
        spread, least_spread = self._spreads(gain)
        noise = max(float(np.sum(self._inverse * spread)) / 8, self._noise(score))
        prior = noise * self._prior
        covariance = np.linalg.inv(self._information + prior)
        step = covariance @ (change / gain + prior @ self._deviation(here))
        moved = self._moved(here, step)
        if _largest_move(step) < LARGEST_LAST_STEP_PX and self._is_near(moved, start):
            here = moved
        to_image = np.eye(3, 8)
        to_image[:2, :2], to_image[2, 2:4] = self.local(here), (0.0, 1.0 / self.extent)
        weights = to_image @ covariance
        variances = np.maximum(
            *(np.einsum("ij,jk,ik->i", weights, each, weights) for each in (spread, least_spread))
        ) + noise * np.einsum("ij,jk,ik->i", weights, prior, weights)
        floors = [*2 * [ROUNDING_PX / math.sqrt(self._count)], GROWTH_FLOOR_PX / self.extent]
        x, y, growth = np.sqrt(variances + np.square(floors)).tolist()
        return PlaneAlignment(score, here, x, y, growth)

    def _spreads(self, gain: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Covariance [8, 8] of the pull at the window that was compared last, and its lower limit.

        `fitted` is needed as the eight parameters fit as many of the squares' displacements along two axes.
        """
        direction, mask = self._rows[8:]
        window, (width, height) = self._window.ravel(), self._size
        left = (window - float(mask @ window) / self._count) * mask / gain - direction
        pulls = (self._rows[:8] * left).reshape(8, height, width)
        side = max(round(math.sqrt(self._count / SQUARES)), 2)
        squares = self._count / side**2
        large, small = _products_in_squares(pulls, (side, side // 2))
        fitted = 2 * squares / max(2 * squares - 8, 1.0)
        # Neighbours up to half a square apart count in full in twice the large sums less the small ones, so
        # that residuals on both sides of an edge cancel out (Politis and Romano, 1995).
        return fitted * (2.0 * large - small), fitted * large / 2


def _largest_move(step: NDArray[np.floating]) -> float:
    """How far a step moves a corner of the patch at most, px."""
    return float(np.abs(step[:2]).max()) + math.sqrt(step[2:] @ step[2:])


def _products_in_squares(pulls: NDArray[np.float32], sides: Sequence[int]) -> list[NDArray[np.float64]]:
    """Products of the sums of `pulls`, [n, h, w], over squares at all positions: [n, n], per px of a square.

    One array for each of `sides`.
    """
    count, height, width = pulls.shape
    room = max(sides) - 1
    # All in one picture, far enough apart that no square reaches two of them.
    padded = np.zeros((count, height + 2 * room, width + 2 * room), np.float32)
    padded[:, room : room + height, room : room + width] = pulls
    picture, products = padded.reshape(-1, width + 2 * room), []
    for side in sides:
        sums = cv2.boxFilter(picture, -1, (side, side), normalize=False).reshape(count, -1)
        products.append((sums @ sums.T).astype(np.float64) / side**2)
    return products


def scaled(homography: Homography) -> Homography:
    """The same homography with 1 as its last element."""
    last_is_1: Homography = homography / homography[2, 2]
    return last_is_1
