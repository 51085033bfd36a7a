"""Turns a robot towards a target in the image, and drives up to it until it looks as large as wanted."""

from __future__ import annotations

import math
from dataclasses import dataclass

from edgetpu_control.velocity import STANDSTILL, Velocity, VelocityHistory, VelocityLimits, VelocityRamp


@dataclass(frozen=True)
class Target:
    """Where a target is and how large it looks, measured in one image."""

    bearing: float
    """Direction in the optical frame, right positive, rad."""
    size: float = math.nan
    """Width as a share of the image's; NaN: not measured."""


@dataclass(frozen=True)
class ServoGains:
    """How the errors in the image become velocities."""

    turn: float = 2.0
    """rad/s per rad. The loop's bandwidth in rad/s."""
    turn_deadband: float = 0.01
    """rad; a smaller bearing does not turn the robot."""
    approach: float = 0.5
    """m/s per unit of ln(wanted size / size): about m/s per relative error of the distance."""
    wanted_size: float = 0.0
    """Share of the image's width at which the robot has arrived; 0: it does not drive."""
    size_deadband: float = 0.05
    """Relative error of the size within which the robot does not drive."""
    approach_angle: float = 0.35
    """rad; a target further aside is turned to before the robot drives."""


class VisualServo:
    """A proportional controller of bearing and size, with a model of its own delay.

    The bearing is that of an image taken some time ago. What the robot has turned since, by its own commands,
    is added to it; so the delay of the images does not bound the gain, only that of the robot does.
    Without a measurement for `timeout` seconds the wanted velocity is 0.
    """

    def __init__(self, gains: ServoGains, limits: VelocityLimits, timeout: float) -> None:
        """timeout: s."""
        self.gains = gains
        self.timeout = timeout
        self._ramp = VelocityRamp(limits)
        self._history = VelocityHistory()
        self._target: Target | None = None
        self._stamp = self._now = -math.inf

    @property
    def limits(self) -> VelocityLimits:
        """Of the velocities that are given."""
        return self._ramp.limits

    @limits.setter
    def limits(self, limits: VelocityLimits) -> None:
        self._ramp.limits = limits

    def measure(self, target: Target, stamp: float) -> None:
        """Take a measurement in the image of this time, s; one older than the last is ignored."""
        if stamp > self._stamp and math.isfinite(target.bearing):
            self._target, self._stamp = target, stamp

    def command(self, now: float) -> Velocity | None:
        """Return the velocity from now on, s; None while there is no target and the robot stands.

        The first call after the clock was set back forgets the target.
        """
        if now < self._now:
            self._target, self._stamp = None, -math.inf
        seconds = min(max(now - self._now, 0.0), self.timeout)
        self._now = now
        has_target = self._target is not None and now - self._stamp <= self.timeout
        if not has_target and self._ramp.velocity == STANDSTILL:
            return None
        velocity = self._ramp.step(self._wanted(now) if has_target else STANDSTILL, seconds)
        self._history.add(now, velocity)
        return velocity

    def _wanted(self, now: float) -> Velocity:
        assert self._target is not None
        gains = self.gains
        bearing = self._target.bearing + self._history.travelled(self._stamp, now).angular
        turn = -gains.turn * bearing if abs(bearing) > gains.turn_deadband else 0.0
        return Velocity(self._approach(bearing), turn)

    def _approach(self, bearing: float) -> float:
        assert self._target is not None
        gains, size = self.gains, self._target.size
        if gains.wanted_size <= 0 or not size > 0 or abs(bearing) > gains.approach_angle:
            return 0.0
        error = math.log(gains.wanted_size / size)
        return gains.approach * error if abs(error) > gains.size_deadband else 0.0
