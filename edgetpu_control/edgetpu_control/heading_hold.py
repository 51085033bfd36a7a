"""Turns a robot to a heading that a compass measures, and keeps it there."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum, auto

from edgetpu_control.controller import Controller
from edgetpu_control.input_timeout import is_far_ahead, is_old
from edgetpu_control.velocity import STANDSTILL, Velocity
from edgetpu_control.velocity_limits import VelocityLimits, clamp

AGAINST = 1.0
"""rad by which a robot may turn against its commands, in excess of its turns along them, while a heading is
held.

A push turns it less far. With a camera that is upside down, or a motor that runs backwards, it would spin
forever."""

LARGEST_TURN = 1000.0
"""rad; 160 turns. A larger angle is a damaged number, which would make the robot turn without end."""


class HoldState(Enum):
    """What the controller does with the requested turn rate."""

    IDLE = auto()
    """Nothing is requested, and no heading is held."""
    STEERED = auto()
    """The requested turn rate is passed on."""
    HOLDING = auto()
    """The robot turns to the wanted heading."""


@dataclass(frozen=True)
class HoldGains:
    """How the error of the heading becomes an angular velocity."""

    turn: float = 3.0
    """rad/s per rad."""
    deadband: float = 0.005
    """rad; a smaller error does not turn the robot."""
    steering_deadband: float = 0.02
    """rad/s; a smaller requested angular velocity means straight on."""
    hold_when_straight: bool = True
    """Whether the heading is held while straight on is requested."""


class HeadingHold(Controller):
    """A proportional controller of the heading that allows for the delay of images and does not overshoot.

    The angle that the robot has turned since the image, by the commands, is added to the heading. The
    angular velocity is bounded so that the robot can brake before the wanted heading within its limits.
    Without a measurement for `timeout` seconds no heading is held; without a request for as long the robot
    stops.
    """

    def __init__(self, gains: HoldGains, limits: VelocityLimits, timeout: float) -> None:
        """timeout: s."""
        super().__init__(limits, timeout)
        self.gains = gains
        self._asked = STANDSTILL
        self._asked_at = self._stamp = -math.inf
        self._yaw = math.nan
        self._reference: object = None
        self.target: float | None = None
        """The wanted heading, in rad since the compass was last reset; None: none is held."""
        self.turns_against = False
        """Whether a turn against the commands ended the last hold; the next one begins on demand only."""
        self._against = 0.0
        self._is_for_straight = False
        """Whether the heading is held only while straight on is requested."""

    @property
    def state(self) -> HoldState:
        """The present mode."""
        if self.target is not None:
            return HoldState.HOLDING
        return HoldState.IDLE if self._asked == STANDSTILL else HoldState.STEERED

    def measure(self, yaw: float, reference: object, stamp: float) -> None:
        """Take the heading that an image shows.

        yaw: rad, counter-clockwise positive. stamp: of the image, s. reference: stamp at which the heading
        was zero; if it changes, a held heading is released.
        """
        if not math.isfinite(yaw) or stamp <= self._stamp:
            return
        if reference != self._reference:
            self.target, self._reference = None, reference
        if self.target is not None:
            self._compare(yaw - self._yaw, self.turned(self._stamp, stamp))
        self._yaw, self._stamp = yaw, stamp

    def _compare(self, measured: float, commanded: float) -> None:
        """Release the heading if the robot turns against its commands; both in rad since the last image."""
        common = min(abs(measured), abs(commanded))
        self._against = max(self._against + math.copysign(common, -measured * commanded), 0.0)
        if self._against > AGAINST:
            self.target, self.turns_against = None, True

    def ask(self, velocity: Velocity, now: float) -> None:
        """Take the velocity requested at the time `now`, s, if it is plausible. A turn ends a hold."""
        if not velocity.is_plausible:
            return
        self._asked, self._asked_at = velocity, now
        if abs(velocity.angular) > self.gains.steering_deadband:
            self.target = None

    def heading(self, now: float) -> float | None:
        """Return the heading in rad, extrapolated from the last measured one to `now` s; None if unknown."""
        if is_old(self._stamp, now, self.timeout):
            return None
        return self._yaw + self.turned(self._stamp, now)

    def turn_by(self, angle: float, now: float) -> bool:
        """Hold the heading that is `angle` rad further counter-clockwise.

        False, and nothing changes, if no heading is known or the whole turn exceeds LARGEST_TURN.
        """
        heading = self.heading(now)
        if heading is None:
            return False
        # Relative to the held heading, if any, so that successive turns add up.
        return self.turn_to((heading if self.target is None else self.target) + angle, now)

    def turn_to(self, yaw: float, now: float) -> bool:
        """Hold this heading, in rad since the compass was last reset; False as in `turn_by`."""
        heading = self.heading(now)
        if heading is None or not abs(yaw - heading) <= LARGEST_TURN:  # NaN is not
            return False
        self._hold(yaw)
        return True

    def _hold(self, target: float, *, is_for_straight: bool = False) -> None:
        self.target, self.turns_against, self._against = target, False, 0.0
        self._is_for_straight = is_for_straight

    def release(self) -> None:
        """Hold no heading until one, or straight on, is requested."""
        self.target = None

    def error(self, now: float) -> float:
        """Return the remaining angle in rad, counter-clockwise positive; NaN if no heading is held."""
        heading = self.heading(now)
        return math.nan if self.target is None or heading is None else self.target - heading

    def command(self, now: float) -> Velocity | None:
        """Return the velocity from now on; None while nothing is requested and the robot stands. now: s."""
        if self._is_set_back(now) or is_far_ahead(self._stamp, now, self.timeout):
            self.target, self._asked, self._stamp = None, STANDSTILL, -math.inf
        seconds = self._advance(now)
        self._forget_what_is_old(now)
        self._hold_while_straight(now)
        if self.state is HoldState.IDLE and self.velocity == STANDSTILL:
            return None
        return self._approach(Velocity(self._asked.linear, self._turning(now)), seconds)

    def _forget_what_is_old(self, now: float) -> None:
        if is_old(self._asked_at, now, self.timeout):
            self._asked = STANDSTILL
        if self.heading(now) is None:
            self.target = None

    def _hold_while_straight(self, now: float) -> None:
        """Hold the present heading once the robot is to drive straight on and no longer turns.

        It is released when the robot stands and is not to drive on.
        """
        straight = self._asked.linear != 0 and abs(self._asked.angular) <= self.gains.steering_deadband
        turning = abs(self.velocity.angular) > self.gains.steering_deadband
        wanted = self.gains.hold_when_straight and not self.turns_against
        heading = self.heading(now)
        if self.target is None and heading is not None and wanted and straight and not turning:
            self._hold(heading, is_for_straight=True)
        stands = not straight and self.velocity.linear == 0
        if self.target is not None and self._is_for_straight and (stands or not wanted):
            self.target = None

    def _turning(self, now: float) -> float:
        error = self.error(now)
        if math.isnan(error):
            return self._asked.angular
        if abs(error) <= self.gains.deadband:
            return 0.0
        # The velocity from which the robot can still brake within the remaining angle.
        fastest = math.sqrt(2 * self.limits.angular_acceleration * abs(error))
        return clamp(self.gains.turn * error, fastest)
