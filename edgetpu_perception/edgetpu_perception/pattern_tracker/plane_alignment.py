"""Subpixel position of a flat patch that an image shows tilted, in perspective.

Inverse compositional alignment (Baker and Matthews, 2004) of a homography, scored by normalised
cross-correlation. A prior, weighed by what is left unexplained, holds it near the untilted patch: it explains
little of what is not the patch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.pattern_tracker.patch_alignment import (
    GROWTH_FLOOR_PX,
    SIGMA_GAIN,
    TURN_SIGMA,
)

STRETCH_SIGMA = 0.1
"""Expected relative change of size, and of that along an axis, one standard deviation.

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
"""Least area of a patch over its own.

Derived: half of what a patch is at 78 degrees; no match is tilted by so much.
"""

MOST_PERSPECTIVE = 0.5
"""Largest relative change of scale from the centre to a corner.

Derived: ten standard deviations; from 1 on a corner would be behind the camera.
"""

MAX_STEPS = 16
"""Largest number of steps. Limits the time."""

SIGMA_FLOOR_PX = 0.005
"""Standard deviation, px, of interpolation. OpenCV's rounding of coordinates differs from px to px here.

Rows: pattern, tilted boards, inside one sigma.
"""

ALIKE_PX = 5
"""Side of a square of px in which what is left unexplained may be alike.

Derived: blur and cubic interpolation reach 2 px.
"""

Homography = NDArray[np.float64]
"""[3, 3], the last element being 1: from places of a patch to px of an image.

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


class PlaneAligner:
    """Aligns one patch, grey levels float32 [h, w], of which the px in `mask` count."""

    def __init__(self, patch: NDArray[np.float32], mask: NDArray[np.bool_], converged: float) -> None:
        """`converged`: a step that moves no corner of the patch by more px is the last."""
        height, width = patch.shape
        self._size = width, height
        x, y = (width - 1) / 2, (height - 1) / 2
        self.extent = extent = math.hypot(x, y)
        """Px from the centre of the patch to a corner."""
        self._to_places = np.array([[1.0, 0.0, -x], [0.0, 1.0, -y], [0.0, 0.0, extent]]) / extent
        self._converged = converged
        self._mask = None if mask.all() else mask.ravel().astype(np.float32)
        self._count = int(np.count_nonzero(mask))
        deviation = np.where(mask, patch - patch[mask].mean(dtype=np.float64), 0.0)
        self._norm = max(float(np.linalg.norm(deviation)), 1e-6)
        direction = deviation.ravel() / self._norm
        jacobian = self._jacobian(patch, mask, direction)
        sigmas = np.array([TURN_SIGMA, *3 * [STRETCH_SIGMA], *2 * [PERSPECTIVE_SIGMA]])
        self._prior = np.diag(np.concatenate([[0.0, 0.0], (extent * sigmas) ** -2]))
        information = jacobian.T @ jacobian
        # The small terms avoid a division by zero for a patch without structure along an axis.
        self._information = information + np.diag(np.full(8, 1e-6 + 1e-9 * np.trace(information)))
        self._tilts = np.linalg.inv(self._information)
        self._tilts[:4, :4] -= np.linalg.inv(self._information[:4, :4])
        """Quadratic form of what is explained beyond position, rotation and scale."""
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

    def upright(self, x: float, y: float, cosine: float, sine: float) -> Homography:
        """An untilted patch centred at (x, y), px; scale times cosine and sine of its rotation."""
        a, b = self.extent * cosine, self.extent * sine
        return np.array([[a, -b, x], [b, a, y], [0.0, 0.0, 1.0]])

    def gain_of_tilt(self, levels: NDArray[np.float32], match: Homography) -> float:
        """Share of what a match leaves unexplained that a tilt would explain to first order, 0..1.

        A grey level is added to what it leaves unexplained, as rounding needs no explanation.
        """
        change, gain, score = self._compare(levels, match)
        if min(gain, score) <= 0.0:
            return 0.0
        pull = change / gain
        unexplained = 1.0 / score**2 - 1.0 + self._count / self._norm**2
        return float(pull @ self._tilts @ pull) / unexplained

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
            if np.abs(step[:2]).max() + math.sqrt(step[2:] @ step[2:]) < self._converged:
                best = here if progress > 0.0 else best
                break
        return PlaneAlignment(best_score, best, *self._sigmas(levels, best, best_score))

    def _is_near(self, here: Homography, start: Homography) -> bool:
        """Whether the centre has moved little, and the patch is not seen edge-on or from behind."""
        moved = float(np.abs(here[:2, 2] - start[:2, 2]).max())
        size = float(np.linalg.det(self.local(here)))
        return moved <= REACH_PX and size > LEAST_SIZE and math.hypot(*here[2, :2]) < MOST_PERSPECTIVE

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
        """Pull towards a better place times gain, [8], gain (grey levels) and score of the patch there."""
        cv2.warpPerspective(
            levels,
            here @ self._to_places,
            self._size,
            self._window,
            flags=cv2.INTER_CUBIC | cv2.WARP_INVERSE_MAP,
            borderMode=cv2.BORDER_REPLICATE,
        )
        window = self._window.ravel()
        products = (self._rows @ window).astype(np.float64)
        gain, total = products[8:].tolist()
        seen = window if self._mask is None else window * self._mask
        power = float(seen @ window) - total * total / self._count
        return products[:8], gain, min(gain / math.sqrt(power), 1.0) if power > 1e-6 else 0.0

    def _noise(self, score: float) -> float:
        """Variance of a px of the normalised patch that is left unexplained."""
        return SIGMA_GAIN**2 * (1.0 / score**2 - 1.0) / max(self._count - 10, 1)

    def _sigmas(
        self, levels: NDArray[np.float32], here: Homography, score: float
    ) -> tuple[float, float, float]:
        """Standard deviations of x and y, px, and of the logarithm of the scale.

        From what is left unexplained, px by px, as that is alike in neighbours and largest at edges (Newey
        and West, 1987).
        """
        if score <= 0.0:
            return math.inf, math.inf, math.inf
        noise = self._noise(score)
        covariance = np.linalg.inv(self._information + noise * self._prior)
        weights = np.vstack([self.local(here) @ covariance[:2], covariance[3] / self.extent])
        _, gain, _ = self._compare(levels, here)
        *derivatives, direction, mask = self._rows
        window = self._window.ravel()
        left = (window - float(mask @ window) / self._count) * mask / gain - direction
        width, height = self._size
        influences = (weights.astype(np.float32) @ np.stack(derivatives) * left).reshape(3, height, width)
        around = ALIKE_PX - 1
        sums = [
            cv2.boxFilter(np.pad(each, around), -1, (ALIKE_PX, ALIKE_PX), normalize=False)
            for each in influences
        ]
        variances = [float(np.sum(np.square(each))) / ALIKE_PX**2 for each in sums]
        by_prior = noise**2 * np.einsum("ij,jk,ik->i", weights, self._prior, weights)
        x, y, growth = (SIGMA_GAIN**2 * np.array(variances) + by_prior).tolist()
        return (
            math.sqrt(x + SIGMA_FLOOR_PX**2),
            math.sqrt(y + SIGMA_FLOOR_PX**2),
            math.sqrt(growth + (GROWTH_FLOOR_PX / self.extent) ** 2),
        )


def scaled(homography: Homography) -> Homography:
    """The same with 1 as its last element."""
    last_is_1: Homography = homography / homography[2, 2]
    return last_is_1
