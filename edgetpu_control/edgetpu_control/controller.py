"""The base class of velocity controllers: limits, a ramp, and a history of the commands."""

from __future__ import annotations

import math

from edgetpu_control.velocity import Velocity, VelocityHistory
from edgetpu_control.velocity_limits import VelocityLimits, VelocityRamp


class Controller:
    """Approaches the velocity that a subclass requests, within limits, and tracks the robot's turns."""

    def __init__(self, limits: VelocityLimits, timeout: float) -> None:
        """timeout: s after which measurements are too old to be used."""
        self.limits = limits
        self.timeout = timeout
        self._ramp = VelocityRamp()
        self._history = VelocityHistory()
        self._now = -math.inf

    @property
    def velocity(self) -> Velocity:
        """The velocity that was returned last."""
        return self._ramp.velocity

    def turned(self, since: float, until: float) -> float:
        """Return the angle in rad, left positive, that the robot turned between two times in s."""
        return self._history.travelled(since, until).angular

    def _is_set_back(self, now: float) -> bool:
        """Whether the clock was set back by more than a mere correction, `timeout`."""
        return now < self._now - self.timeout

    def _advance(self, now: float) -> float:
        """Note the time; return the seconds since the last call, at most `timeout`."""
        seconds = min(max(now - self._now, 0.0), self.timeout)
        self._now = now
        return seconds

    def _approach(self, wanted: Velocity, seconds: float) -> Velocity:
        """Return, and store, the velocity after approaching the wanted one for `seconds`."""
        velocity = self._ramp.step(wanted, self.limits, seconds)
        self._history.add(self._now, velocity)
        return velocity
