"""Robust least squares: the pull of each residual, which is small for parts with another motion."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.confidence_ramp import ramp

Floats = NDArray[np.float32]

OUTLIER_DEVIATIONS = (3.0, 1.1)
"""Residual, in deviations, that has a quarter of the weight (Geman and McClure): the first number if all
residuals look like noise, the second if some are far larger. When the camera is carried along, near parts
of the picture do not move like a rotation and must have almost no weight. Rows: compass, walking camera,
yaw RMSE; full turns, yaw rate RMSE per frame."""

TAIL_RANGE = (1.2, 1.6)
"""Standard deviation of residuals over the one that the quiet ones imply: up to the first value there is only
noise, from the second on some parts have another motion. About 1.1 if the camera only turns, 2 if a person
carries it. Rows: the same."""

FEW_USED = 0.25
"""Share of residuals that are used, up to which all of them are sorted. Derived: where most are 0, NumPy's
partition of 1352 takes 68 us with AVX-512 and 12 with AVX2, its sort 4 and 2."""


@dataclass(frozen=True)
class QuietResiduals:
    """The smallest residuals, which show the noise, whatever else moves."""

    share: float
    """Share of the quiet residuals among all."""
    rounding: float
    """Standard deviation that the rounding of features alone gives to residuals; 0 if it is unknown.

    A video codec repeats what hardly changes, so that many residuals are exactly 0 and the noise seems to be
    0. Residuals that rounding explains still show no other motion.
    """

    @functools.cached_property
    def deviation(self) -> float:
        """The largest quiet residual for noise with a standard deviation of 1."""
        return NormalDist().inv_cdf(0.5 + self.share / 2.0)


def robust_pull(
    residual: Floats,
    seen: Floats,
    near: bool,
    quiet: QuietResiduals,
    tolerated: Floats | np.float32,
    most_noise: float = math.inf,
) -> tuple[Floats, Floats, float, float]:
    """Pull psi(r) of each residual (Geman and McClure), its stiffness, the noise and the tail.

    `residual`: [channels, points], overwritten. `seen`: 1 for points to use, else 0: [points].
    `tolerated`: squared residual up to which there is no other motion, whatever the noise: [channels,
    points], or one for all. `most_noise`: larger noise is taken for another motion.
    `near`: whether the rotation is near the solution: the stiffness is then psi'(r), at least 0, for Newton
    steps; otherwise psi(r) / r, which converges slowly but from any start. Pull and stiffness are flat,
    [channels * points], and 0 at unused points. The tail is the standard deviation of all residuals over the
    noise.
    """
    count = int(seen.dot(seen)) * len(residual)
    seen = seen[np.newaxis]  # NumPy multiplies arrays of the same shape in half of the time
    residual *= seen
    noise, spread = _noise_and_spread(np.abs(residual).ravel(), count, quiet, most_noise)
    explained = max(noise, quiet.rounding)
    outlier = OUTLIER_DEVIATIONS[0] + (OUTLIER_DEVIATIONS[1] - OUTLIER_DEVIATIONS[0]) * ramp(
        spread / (explained + 1e-3), *TAIL_RANGE
    )
    reach = residual * residual
    reach /= tolerated + np.float32((outlier * explained + 1e-3) ** 2)
    reach += 1.0
    np.reciprocal(reach, out=reach)
    stiffness = reach * reach
    stiffness *= seen
    pull = stiffness * residual
    if near:
        # psi'(r) is reach^2 (4 reach - 3), with reach = 1 / (1 + x^2).
        reach *= 4.0
        reach -= 3.0
        stiffness *= np.maximum(reach, 0.0, out=reach)
    return pull.ravel(), stiffness.ravel(), noise, spread / (noise + 1e-3)


def _noise_and_spread(
    size: Floats, count: int, quiet: QuietResiduals, most_noise: float
) -> tuple[float, float]:
    """Noise and standard deviation of residuals of these sizes, which are reordered; see `robust_pull`.

    `count`: number of residuals that are used; the others are 0.
    """
    if not count:
        return 0.0, 0.0
    # Those that are not used come first.
    index = size.size - count + int(quiet.share * count)
    if count <= FEW_USED * size.size:
        size.sort()
    else:
        size.partition(index)
    noise = min(float(size[index]) / quiet.deviation, most_noise)
    return noise, math.sqrt(float(size.dot(size)) / count)
