"""Angular velocity by a measured turn, and by what the velocity was before."""

from __future__ import annotations

import numpy as np

from edgetpu_perception.visual_compass.heading_filter_state import Fix
from edgetpu_perception.visual_compass.rotations import Matrix, Vector, trace

ACCELERATION = 1.0
"""One sigma of the angular acceleration, rad/s^2, of a camera that turns evenly."""

SURPRISE = 4.0
"""A change by more sigmas is taken as measured: what happened was not to be expected."""

MEMORY = 0.1
"""Seconds over which the changes are averaged that tell how much more a camera accelerates."""

_UNITY = np.eye(3)


def combined(
    last: Fix, velocity: Vector, covariance: Matrix, interval: float
) -> tuple[Vector, Matrix, float]:
    """A measured angular velocity and what is to be expected after the one before, by their covariances.

    The third number is the variance of the acceleration beyond ACCELERATION, (rad/s^2)^2: by how much changes
    have been larger lately than explained. Without it the velocity would lag behind, the more so the more
    images come per second.
    """
    before = last.heading
    if before is None:
        return velocity, covariance, 0.0
    expected = before.velocity_covariance + (ACCELERATION * interval) ** 2 * _UNITY
    prior, own, change = trace(expected), trace(covariance), velocity - before.velocity
    square, explained = float(change.dot(change)), prior + own
    if square > SURPRISE**2 * explained:
        return velocity, covariance, before.unrest
    weight = min(interval / MEMORY, 1.0)
    unrest = before.unrest + weight * ((square - explained) / interval**2 - before.unrest)
    if unrest > 0.0 and square > 0.0:
        added = unrest * interval**2
        prior += added
        expected += added / square * change * change[:, np.newaxis]
    gain = prior / (prior + own)
    return before.velocity + gain * change, (1.0 - gain) ** 2 * expected + gain**2 * covariance, unrest
