"""Angular velocity by a measured turn, and by what the velocity was before."""

from __future__ import annotations

import numpy as np

from edgetpu_perception.heading.poses import Fix
from edgetpu_perception.heading.rotation import Matrix, Vector, trace

ACCELERATION = 1.0
"""One sigma of the angular acceleration, rad/s^2: no more is read into a view that tells rates worse."""

SURPRISE = 4.0
"""A change by more sigmas is taken as measured: what happened was not to be expected."""

_UNITY = np.eye(3)


def combined(last: Fix, velocity: Vector, covariance: Matrix, interval: float) -> tuple[Vector, Matrix]:
    """A measured angular velocity and what is to be expected after the one before, by their covariances."""
    before = last.heading
    if before is None:
        return velocity, covariance
    expected = before.velocity_covariance + (ACCELERATION * interval) ** 2 * _UNITY
    prior, change = trace(expected), velocity - before.velocity
    total = prior + trace(covariance)
    if float(change.dot(change)) > SURPRISE**2 * total:
        return velocity, covariance
    gain = prior / total
    return before.velocity + gain * change, (1.0 - gain) ** 2 * expected + gain**2 * covariance
