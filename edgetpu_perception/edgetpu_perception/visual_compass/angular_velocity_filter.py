"""Filtered angular velocity, from a measured turn and the previous velocity."""

from __future__ import annotations

import numpy as np

from edgetpu_perception.visual_compass.heading_filter_state import TrackedPose
from edgetpu_perception.visual_compass.rotations import Matrix, Vector, trace

ACCELERATION_SIGMA = 1.0
"""Standard deviation of the angular acceleration, rad/s^2, of a camera that turns evenly.

Rows: compass, full turns and lens distortion, yaw rate RMSE per frame.
"""

MAX_CHANGE_SIGMAS = 4.0
"""Change of velocity, in standard deviations, from which on the measured velocity is used unfiltered.

Rows: none; test_a_sudden_start_is_followed. Uncritical.
"""

ACCELERATION_MEMORY_S = 0.1
"""Time, s, over which the additional variance of the acceleration is averaged.

Rows: compass, turns past a blank wall, yaw error past the wall.
"""

_IDENTITY = np.eye(3)


def filtered_velocity(
    last: TrackedPose, velocity: Vector, covariance: Matrix, interval: float
) -> tuple[Vector, Matrix, float]:
    """Combine a measured angular velocity, rad/s, with the one expected after the last, by covariances.

    Returns velocity, covariance and the variance of the acceleration beyond ACCELERATION_SIGMA, (rad/s^2)^2:
    how much larger recent changes were than explained. Without it the velocity would lag behind, most so at
    high frame rates.
    """
    before = last.heading
    if before is None:
        return velocity, covariance, 0.0
    expected = before.velocity_covariance + (ACCELERATION_SIGMA * interval) ** 2 * _IDENTITY
    prior, own, change = trace(expected), trace(covariance), velocity - before.velocity
    square, explained = float(change.dot(change)), prior + own
    if square > MAX_CHANGE_SIGMAS**2 * explained:
        return velocity, covariance, before.acceleration_variance
    weight = min(interval / ACCELERATION_MEMORY_S, 1.0)
    acceleration_variance = before.acceleration_variance + weight * (
        (square - explained) / interval**2 - before.acceleration_variance
    )
    if acceleration_variance > 0.0 and square > 0.0:
        added = acceleration_variance * interval**2
        prior += added
        expected += added / square * change * change[:, np.newaxis]
    gain = prior / (prior + own)
    return (
        before.velocity + gain * change,
        (1.0 - gain) ** 2 * expected + gain**2 * covariance,
        acceleration_variance,
    )
