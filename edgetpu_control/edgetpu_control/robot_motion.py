"""The speed of a robot and the distance it has driven, from odometry or from the velocities it was sent."""

from __future__ import annotations

import math
from dataclasses import replace

from edgetpu_control.velocity import Velocity, VelocityHistory

_WIDTH_IN_SIGMAS = math.sqrt(12)
"""Width of a uniform distribution over its standard deviation."""


class RobotMotion:
    """The motion of a robot as a range between two possible motions.

    Without odometry, one is the motion of a robot that obeys at once, the other that of a robot that obeys as
    late and brakes as slowly as it may. With odometry both are the measured motion. Times are in s, one clock
    for all.
    """

    def __init__(self) -> None:
        self._prompt, self._braking = VelocityHistory(), VelocityHistory()
        """Velocities of the two motions; those of the second apply `_lag` later."""
        self._lag = 0.0
        """Seconds after which the second robot obeys."""

    def measured(self, velocity: Velocity, now: float) -> None:
        """Take the velocity that odometry measured."""
        self._lag = 0.0
        self._prompt.add(now, velocity)
        self._braking.add(now, velocity)

    def given(
        self, velocity: Velocity, now: float, *, measured_at: float, reaction_time: float, deceleration: float
    ) -> None:
        """Take the velocity that the robot was given.

        measured_at: when odometry came last. The robot reacts at any time within `reaction_time` (s), and
        brakes with its deceleration (m/s^2) or harder.
        """
        self._lag = reaction_time
        since, before = self._braking.latest
        if since == measured_at:  # when it did not brake yet
            since = now
        braked = deceleration * max(now - since, 0.0)
        linear = velocity.linear
        if before.linear > 0:
            linear = max(linear, before.linear - braked)
        elif before.linear < 0:  # it brakes before it drives forward
            linear = min(linear, before.linear + braked)
        self._prompt.add(now, velocity)
        self._braking.add(now, replace(velocity, linear=linear))

    def speed(self, since: float, until: float) -> tuple[float, float]:
        """Return the speed between two times in m/s, and its standard deviation."""
        # Of all velocities in between: a robot that brakes and speeds up again is slower than at both ends.
        ranges = [each.linear_range(since - self._lag, until) for each in (self._prompt, self._braking)]
        least, greatest = min(low for low, _ in ranges), max(high for _, high in ranges)
        return (least + greatest) / 2, (greatest - least) / _WIDTH_IN_SIGMAS

    def driven(self, since: float, until: float) -> tuple[float, float]:
        """Return the distance driven between two times in m, and its standard deviation."""
        one = self._prompt.travelled(since, until).linear
        other = self._braking.travelled(since - self._lag, until - self._lag).linear
        return (one + other) / 2, abs(one - other) / _WIDTH_IN_SIGMAS

    def turned(self, since: float, until: float) -> float:
        """Return the angle in rad by which the robot has certainly turned between two times."""
        return self._prompt.travelled(since - self._lag, until - self._lag).angular
