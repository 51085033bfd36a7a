"""Follows irregular commands with velocities at a fixed rate, within limits."""

from __future__ import annotations

import math

from edgetpu_control.controller import Controller
from edgetpu_control.input_timeout import is_recent
from edgetpu_control.velocity import FASTEST, STANDSTILL, Velocity
from edgetpu_control.velocity_limits import VelocityLimits
from edgetpu_driver.errors import InputError


class VelocityFollower(Controller):
    """Approaches the last command within limits; brakes to a standstill when none has come for `timeout`."""

    def __init__(self, limits: VelocityLimits, timeout: float) -> None:
        """timeout: s, positive."""
        super().__init__(limits, timeout)
        self._wanted = STANDSTILL
        self._commanded_at = -math.inf
        self._moving = False

    def command(self, velocity: Velocity, now: float) -> None:
        """Follow this velocity until it is older than `timeout`; InputError, and no effect, if not plausible.

        now: its time, s.
        """
        if not velocity.is_plausible:
            raise InputError(f"expected a velocity of at most {FASTEST:g}; got {velocity}")
        self._wanted, self._commanded_at = velocity, now

    def step(self, now: float) -> Velocity | None:
        """Return the velocity from now on; None once the robot stands and no command is recent. now: s."""
        recent = is_recent(self._commanded_at, now, self.timeout)
        if not recent and not self._moving:
            self._advance(now)
            return None
        velocity = self._approach(self._wanted if recent else STANDSTILL, self._advance(now))
        self._moving = recent or velocity != STANDSTILL
        return velocity
