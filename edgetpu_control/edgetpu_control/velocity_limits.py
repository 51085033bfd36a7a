"""Limits of a robot's velocity and acceleration, so that its commands change gradually."""

from __future__ import annotations

import math
from dataclasses import dataclass

from edgetpu_control.velocity import STANDSTILL, Velocity
from edgetpu_driver.errors import InputError


@dataclass(frozen=True)
class VelocityLimits:
    """Greatest magnitude of a velocity and of its change; all are positive."""

    linear: float
    """m/s."""
    angular: float
    """rad/s."""
    linear_acceleration: float
    """m/s^2."""
    angular_acceleration: float
    """rad/s^2."""

    def __post_init__(self) -> None:
        """InputError for a limit that is not a positive number."""
        for name, value in vars(self).items():
            if not (math.isfinite(value) and value > 0):
                raise InputError(f"{name}: expected a positive number; got {value}")


@dataclass(frozen=True)
class Deadband:
    """Magnitudes below which a requested velocity counts as 0; neither is negative."""

    linear: float = 0.0
    """m/s."""
    angular: float = 0.0
    """rad/s."""

    def applied(self, velocity: Velocity) -> Velocity:
        """Return the velocity with small components set to 0."""
        return Velocity(
            0.0 if abs(velocity.linear) < self.linear else velocity.linear,
            0.0 if abs(velocity.angular) < self.angular else velocity.angular,
        )


class VelocityRamp:
    """Approaches requested velocities no faster than limits allow."""

    def __init__(self) -> None:
        self.velocity = STANDSTILL
        """The present one."""

    def step(self, wanted: Velocity, limits: VelocityLimits, seconds: float) -> Velocity:
        """Return the velocity after approaching the wanted one for `seconds`."""
        self.velocity = Velocity(
            _step(self.velocity.linear, wanted.linear, limits.linear, limits.linear_acceleration * seconds),
            _step(
                self.velocity.angular, wanted.angular, limits.angular, limits.angular_acceleration * seconds
            ),
        )
        return self.velocity

    def speed_up(self, wanted: Velocity, limits: VelocityLimits, seconds: float) -> Velocity:
        """Return the velocity after `seconds`; a lower one than the present is reached at once."""
        wanted = Velocity(clamp(wanted.linear, limits.linear), clamp(wanted.angular, limits.angular))
        self.velocity = Velocity(
            _kept(self.velocity.linear, wanted.linear), _kept(self.velocity.angular, wanted.angular)
        )
        return self.step(wanted, limits, seconds)


def _kept(present: float, wanted: float) -> float:
    """Return what is left of a velocity after braking at once to a wanted one, or to 0 before a reversal."""
    return math.copysign(min(abs(present), abs(wanted)), present) if present * wanted > 0 else 0.0


def _step(present: float, wanted: float, limit: float, change: float) -> float:
    wanted = clamp(wanted, limit)
    return present + clamp(wanted - present, change)


def clamp(value: float, limit: float) -> float:
    """Return the nearest value of at most this magnitude."""
    return max(-limit, min(limit, value))
