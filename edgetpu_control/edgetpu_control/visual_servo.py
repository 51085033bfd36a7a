"""Turns a robot towards a target in the image and drives to it until it looks as large as wanted."""

from __future__ import annotations

import math
from dataclasses import dataclass

from edgetpu_control.controller import Controller
from edgetpu_control.input_timeout import is_far_ahead, is_old
from edgetpu_control.velocity import STANDSTILL, Velocity
from edgetpu_control.velocity_limits import VelocityLimits, clamp


@dataclass(frozen=True)
class Target:
    """Where a target is and how large it looks, measured in one image."""

    bearing: float
    """Direction in the optical frame, right positive, rad."""
    size: float = math.nan
    """Width as a share of the image's; NaN: not measured."""


POSITION_SHARE, MOTION_SHARE = 0.4, 0.03
"""Gains of an alpha-beta filter, for the bearing and for its change from one image to the next.

Within ten images, the filter follows a target that starts to move. Chosen by `make drive`."""

SHORTEST = 0.005
"""Least time between two images, s: the fastest cameras take 200 images per second. Stamps nearer to each
other, as after a stall, would make any change of the bearing look fast."""


class _TargetDirection:
    """The bearing of a moving target, as seen by a robot that turns."""

    def __init__(self, bearing: float, stamp: float) -> None:
        self.bearing, self.stamp = bearing, stamp
        self.rate = 0.0
        """Change of the bearing by the target's own motion, rad/s, right positive."""

    def update(self, bearing: float, turned: float, stamp: float, fastest: float) -> None:
        """Take the bearing in an image, rad, right positive.

        turned: angle of the robot since the image before, rad, left positive. fastest: rate of targets that
        are followed, rad/s.
        """
        seconds = stamp - self.stamp
        expected = self.bearing + turned + self.rate * seconds
        self.bearing = expected + POSITION_SHARE * (bearing - expected)
        change = MOTION_SHARE * (bearing - expected) / max(seconds, SHORTEST)
        self.rate = clamp(self.rate + change, fastest)
        self.stamp = stamp


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
    """rad; the robot turns towards a target further aside before it drives."""
    search_speed: float = 0.0
    """rad/s; rate at which the robot turns while the images show no target; 0: it does not move."""


class VisualServo(Controller):
    """A proportional controller of bearing and size that allows for the delay of the images.

    The bearing is that of an image taken some time ago. The angles that the robot, by the commands, and the
    target have moved since then are added to it. So the robot's lag limits the gain, not the delay of the
    images, and a target that moves evenly is followed without lag. Without a measurement for `timeout`
    seconds the wanted velocity is 0.
    """

    def __init__(self, gains: ServoGains, limits: VelocityLimits, timeout: float) -> None:
        """timeout: s."""
        super().__init__(limits, timeout)
        self.gains = gains
        self._size = math.nan
        self._direction: _TargetDirection | None = None
        self._side = 1.0
        """1 if the target was last seen on the left, -1: on the right."""
        self._looked_at = -math.inf

    def look(self, stamp: float) -> None:
        """Note that the image stamped `stamp` s was searched for the target, whether it was found or not."""
        self._looked_at = max(self._looked_at, stamp)

    def measure(self, target: Target, stamp: float) -> None:
        """Take a measurement in the image with this stamp, s.

        It is ignored if it is older than the last one, or if its bearing is not within -pi to pi.
        """
        known = self._direction
        if not abs(target.bearing) <= math.pi or (known is not None and stamp <= known.stamp):
            return
        self._size = target.size
        if known is None or is_old(known.stamp, stamp, self.timeout):
            self._direction = _TargetDirection(target.bearing, stamp)
        else:
            # A target that is faster than the robot can turn is not followed.
            known.update(target.bearing, self.turned(known.stamp, stamp), stamp, self.limits.angular)
        self._side = math.copysign(1.0, -target.bearing)
        self.look(stamp)

    def command(self, now: float) -> Velocity | None:
        """Return the velocity from now on; None while there is no target and the robot stands. now: s.

        The target is forgotten after the clock was set back, and if a stamp is far ahead of the clock.
        """
        newest = max(self._looked_at, self._direction.stamp if self._direction else -math.inf)
        if self._is_set_back(now) or is_far_ahead(newest, now, self.timeout):
            self._direction, self._looked_at = None, -math.inf
        seconds = self._advance(now)
        direction = self._direction
        if direction is not None and not is_old(direction.stamp, now, self.timeout):
            return self._approach(self._wanted(direction), seconds)
        search = self._search()
        if search == self.velocity == STANDSTILL:
            return None
        return self._approach(search, seconds)

    def _search(self) -> Velocity:
        """Return the velocity without a target: while images arrive, a turn to where it was last seen."""
        if is_old(self._looked_at, self._now, self.timeout):
            return STANDSTILL
        return Velocity(0.0, self._side * self.gains.search_speed)

    def _wanted(self, direction: _TargetDirection) -> Velocity:
        gains = self.gains
        since = self._now - direction.stamp
        turned = self.turned(direction.stamp, self._now)
        bearing = direction.bearing + turned + direction.rate * since
        turn = -gains.turn * bearing if abs(bearing) > gains.turn_deadband else 0.0
        return Velocity(self._speed(bearing), turn - direction.rate)

    def _speed(self, bearing: float) -> float:
        gains, size = self.gains, self._size
        if gains.wanted_size <= 0 or not 0 < size < math.inf or abs(bearing) > gains.approach_angle:
            return 0.0
        error = math.log(gains.wanted_size) - math.log(size)  # their ratio may be beyond a float's range
        return gains.approach * error if abs(error) > gains.size_deadband else 0.0
