"""The sigmas of a shift: wide where regions of the picture disagree, and never below those of noise.

Residuals are first summed over blocks (a cluster-robust covariance), as neighbours are not independent;
deformation and independent motion then count like noise. If a few blocks have most of the texture, such a sum
may be small by chance. Therefore the sigmas are at least those of white noise as large as the residual. Parts
that move slowly add the change that they would make, weighted with the probability that they are larger.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.optical_flow.image_noise import ImageNoise
from edgetpu_perception.optical_flow.normal_equations import UNKNOWNS, Floats, block_sums

NOISE_VARIANCES = 8
"""Variance of a doubled difference of two images over the noise variance of one. Derived: 2**2 * 2."""


class ShiftSigmas:
    """The standard deviations of shifts between maps of one size."""

    def __init__(self, noise: float, block: int, image_noise: ImageNoise | None) -> None:
        """`noise`, `block`, `image_noise`: see Registration."""
        self._noise, self._block, self._image_noise = noise, block, image_noise

    def measure(
        self,
        covariance: NDArray[np.float64],
        influence: Floats,
        residual: Floats,
        doubt: tuple[float, float],
    ) -> tuple[float, float]:
        """Standard deviations of a refined shift along x and y, px, from its residuals and their influence.

        `covariance`: for residuals with a standard deviation of 1. `influence` is overwritten.
        `doubt`: variances to be added, px^2; see FollowedPart.
        """
        # Frames that fit better than their rounding allows do so by chance.
        least = NOISE_VARIANCES * self._noise**2 * covariance.diagonal()[:2]
        if self._image_noise is not None:
            least = np.maximum(
                least, self._image_noise.variance(influence[:, 0], residual[0], NOISE_VARIANCES)
            )
        influence *= residual
        variance = np.maximum(_spread(block_sums(influence.sum(axis=1), self._block)), least)
        variance += doubt
        dx_sigma, dy_sigma = np.sqrt(variance).tolist()
        return dx_sigma, dy_sigma


def _spread(sums: Floats) -> NDArray[np.float64]:
    """Variance of the totals of [2, blocks], widened for small numbers of blocks."""
    blocks = sums.shape[1]
    freedom = max(blocks - UNKNOWNS, 1)
    # The quantile at one sigma of Student's t (Cornish and Fisher, 1938).
    student = 1 + 1 / (2 * freedom)
    squares = np.square(sums, dtype=np.float64).sum(axis=1)
    variance: NDArray[np.float64] = squares * (blocks / freedom * student**2)
    return variance
