"""Angular velocity from measured turns: Kalman filters for different accelerations, weighted by success.

Two successive turns share a view, whose noise adds to one turn what it subtracts from the other. A filter of
velocities that takes turns for independent is too cautious in a steady turn. The state of the filters is
therefore the orientation, with its velocity and acceleration.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.visual_compass.rotations import Matrix, Vector

ACCELERATION_SIGMAS = (0.2, 3.0, 60.0)
"""Standard deviation of the angular acceleration in rad/s^2 for each filter: a steady turn, a swing, a
jolt. Rows: compass, swings at 100 Hz, yaw rate RMSE."""

ACCELERATION_MEMORY_S = 0.3
"""Time in s over which an acceleration persists. Rows: compass, swings at 100 Hz, yaw rate RMSE."""

MOTION_MEMORY_S = 0.5
"""Time in s over which the kind of motion persists.

Rows: compass, full turns, yaw rate RMSE per frame; drone, yaw rate RMSE.
"""

FIRST_VELOCITY_SIGMA = 3.0
"""Standard deviation of the angular velocity before the first turn, rad/s.

Derived: faster than a robot turns.
"""

LONGEST_INTERVAL_S = 10 * MOTION_MEMORY_S
"""Time in s between two views above which the earlier motion says nothing about the present one.

Derived: beyond 30 s the differences in the covariances are smaller than the rounding of what is subtracted.
"""

_FILTERS = len(ACCELERATION_SIGMAS)

Floats = NDArray[np.float64]
Covariance = tuple[float, float, float, float, float, float]
"""Elements (0, 0), (0, 1), (0, 2), (1, 1), (1, 2) and (2, 2) of a symmetric 3x3 matrix."""


@dataclass(frozen=True)
class Motion:
    """Estimates of all filters. Numbers for each filter are Python floats: for so few, NumPy is slower."""

    states: Floats
    """Orientation relative to the last measured one (rad), velocity (rad/s) and acceleration (rad/s^2) about
    the optical axes: [3, filters, axes]."""
    covariances: tuple[Covariance, ...]
    """Of the states of each filter about the best known axis; about the others larger, as is their noise."""
    weights: tuple[float, ...]
    """Probability of each filter."""
    velocity: Vector
    """Mean angular velocity since the view before, rad/s: [axes]."""

    @classmethod
    def unknown(cls, noise: Matrix, velocity: Vector | None = None) -> Motion:
        """The motion before the first turn; `noise`: see `after`; `velocity`: the most likely one, rad/s."""
        covariances = tuple(
            (_share_of_a_view(noise), 0.0, 0.0, FIRST_VELOCITY_SIGMA**2, 0.0, sigma**2)
            for sigma in ACCELERATION_SIGMAS
        )
        velocity = np.zeros(3) if velocity is None else velocity
        states = np.zeros((3, _FILTERS, 3))
        states[1] = velocity
        return cls(states, covariances, (1.0 / _FILTERS,) * _FILTERS, velocity)

    def covariance(self, noise: Matrix) -> Matrix:
        """Covariance of the velocity, rad^2/s^2; the part within the filters is proportional to `noise`."""
        apart = self.states[1] - self.velocity
        own = sum([w * each[3] for w, each in zip(self.weights, self.covariances, strict=True)])
        covariance: Matrix = noise * (own / (2.0 * _share_of_a_view(noise)))
        covariance += (apart.T * self.weights).dot(apart)
        return covariance

    def after(self, turn: Vector, noise: Matrix, interval: float) -> Motion:
        """The motion after a turn in rad over `interval` s; `noise`: covariance of the turn, rad^2."""
        if interval > LONGEST_INTERVAL_S:
            return Motion.unknown(noise, turn / interval)
        persists = math.exp(-interval / ACCELERATION_MEMORY_S)
        change = 1.0 - math.exp(-interval / MOTION_MEMORY_S)
        step = np.array(((1.0, interval, interval * interval), (0.0, 1.0, interval), (0.0, 0.0, persists)))
        states = step.dot(self.states.reshape(3, -1)).reshape(3, _FILTERS, 3)
        surprise = turn - states[0]
        variance = _share_of_a_view(noise)
        squares = (surprise * surprise).dot(2.0 * variance / noise.diagonal()).tolist()
        covariances, gains, weights = [], [], []
        for sigma, before, weight, square in zip(
            ACCELERATION_SIGMAS, self.covariances, self.weights, squares, strict=True
        ):
            ahead = _predicted(before, sigma, interval, persists)
            covariance, gain = _updated(ahead, variance)
            covariances.append(covariance)
            gains.append(gain)
            expected = ahead[0] + variance
            likelihood = math.exp(max(-0.5 * square / expected, -600.0)) / (expected * math.sqrt(expected))
            # The kind of motion may have changed since.
            weights.append((weight * (1.0 - change) + change / _FILTERS) * likelihood)
        states += np.array(gains).T[..., np.newaxis] * surprise
        states[0] -= turn
        total = sum(weights)
        probabilities = tuple([weight / total for weight in weights])
        return Motion(states, tuple(covariances), probabilities, np.dot(probabilities, states[1]))


def _share_of_a_view(noise: Matrix) -> float:
    """Variance in rad^2 that each of its two views adds to a turn about the best known axis.

    With the variance of another axis the filters would follow turns about the best known one too late.
    """
    (x, _, _), (_, y, _), (_, _, z) = noise.tolist()
    return float(min(x, y, z)) / 2.0


def _predicted(covariance: Covariance, sigma: float, t: float, persists: float) -> Covariance:
    """Covariance at the next view, after t seconds, with accelerations of this standard deviation."""
    pp, pv, pa, vv, va, aa = covariance
    # The orientation changes by the new velocity, the velocity by the old acceleration.
    pv, vv, va = pv + t * pa, vv + t * (2.0 * va + t * aa), va + t * aa
    pa, pp, pv = pa + t * va, pp + t * (2.0 * pv + t * vv), pv + t * vv
    kept = persists * persists
    return pp, pv, persists * pa, vv, persists * va, kept * aa + (1.0 - kept) * sigma * sigma


def _updated(covariance: Covariance, variance: float) -> tuple[Covariance, tuple[float, float, float]]:
    """Covariance and gains after the orientation was measured with this variance."""
    pp, pv, pa, vv, va, aa = covariance
    p, v, a = pp / (pp + variance), pv / (pp + variance), pa / (pp + variance)
    rest = 1.0 - p
    return (rest * pp, rest * pv, rest * pa, vv - v * pv, va - v * pa, aa - a * pa), (p, v, a)
