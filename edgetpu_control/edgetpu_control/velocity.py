"""Velocities of a robot that drives and turns, and how fast they may change."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from edgetpu_driver.errors import InputError

FASTEST = 1000.0
"""m/s and rad/s. Far beyond any robot; a faster velocity is an error of its sender."""
LONGEST_HISTORY = 5.0
"""Seconds for which velocities are kept; older results come only after a failure, and are ignored."""


@dataclass(frozen=True)
class Velocity:
    """Velocity in the frame of the robot's base (REP-103: x forward, z up)."""

    linear: float = 0.0
    """Along x, m/s."""
    angular: float = 0.0
    """About z, counter-clockwise positive, rad/s."""

    @property
    def is_plausible(self) -> bool:
        """Whether both are numbers of at most FASTEST, so that sums and squares of them stay finite."""
        return abs(self.linear) <= FASTEST and abs(self.angular) <= FASTEST


STANDSTILL = Velocity()


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


class VelocityHistory:
    """The velocities of the last seconds, which give the robot's motion since an image was taken."""

    def __init__(self) -> None:
        self._entries: deque[tuple[float, Velocity]] = deque()

    def add(self, now: float, velocity: Velocity) -> None:
        """Note the velocity from now on. now: s; a time before the last one clears what is known."""
        entries = self._entries
        if entries and now < entries[-1][0]:  # the clock was set back
            entries.clear()
        entries.append((now, velocity))
        while len(entries) > 1 and entries[1][0] <= now - LONGEST_HISTORY:
            entries.popleft()

    @property
    def latest(self) -> tuple[float, Velocity]:
        """Time in s since which the latest velocity holds, and this velocity; -inf and standstill if none."""
        return self._entries[-1] if self._entries else (-math.inf, STANDSTILL)

    def at(self, time: float) -> Velocity:
        """Return the velocity at this time; standstill before the first one."""
        return next((velocity for start, velocity in reversed(self._entries) if start <= time), STANDSTILL)

    def travelled(self, since: float, until: float) -> Velocity:
        """Return the integral of both velocities: m driven and rad turned."""
        linear = angular = 0.0
        end = until
        for start, velocity in reversed(self._entries):
            seconds = max(end - max(start, since), 0.0)
            linear += velocity.linear * seconds
            angular += velocity.angular * seconds
            end = min(end, start)
            if start <= since:
                break
        return Velocity(linear, angular)
