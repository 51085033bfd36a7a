"""Limits the forward speed of a robot so that it stops before anything that grows in the camera's image."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum

from edgetpu_control.clear_distance import ClearDistance
from edgetpu_control.distance_filter import SLOWEST, Contact, DistanceFilter
from edgetpu_control.input_timeout import is_old, is_recent
from edgetpu_control.robot_motion import RobotMotion
from edgetpu_control.velocity import LONGEST_HISTORY, STANDSTILL, Velocity
from edgetpu_control.velocity_limits import Deadband, VelocityLimits, VelocityRamp
from edgetpu_driver.errors import InputError

MEASURED_OVER = 0.2
"""Seconds before an image over which a growth is measured; chosen on the simulated robot (`make drive`)."""

LEAST_UNMEASURED_SPEED = 2 * SLOWEST
"""Speed in m/s at which a robot may always drive while the distance ahead is unknown: slower, it would never
measure that distance."""

_RUNAWAY = 2.0
"""Multiple of the limits above which odometry is wrong: the robot is told to stay within the limits, and
overshoots less."""


class Restriction(Enum):
    """Why the guard returns a lower speed than the requested one."""

    NONE = "free"
    NO_COMMAND = "no velocity is requested"
    BLIND = "no valid time to contact"
    NO_ODOMETRY = "no odometry"
    UNMEASURED = "the distance ahead is not yet measured"
    DISTANCE = "the distance to the obstacle ahead"
    APPROACHED = "something approaches"
    DETECTION = "a detected object is near"


@dataclass(frozen=True)
class GuardSettings:
    """How the robot brakes, and which distances it keeps."""

    gap: float = 0.3
    """m; the least distance between the robot's hull and an obstacle."""
    camera_to_hull: float = 0.0
    """m from the camera forward to the foremost part of the robot."""
    deceleration: float = 0.5
    """m/s^2; braking of the robot."""
    reaction_time: float = 0.15
    """s from a command to the robot's reaction to it."""
    sigmas: float = 1.0
    """Standard deviations that are subtracted from the measured distance."""
    hysteresis: float = 0.1
    """m; free distance ahead that a stopped robot needs to drive on."""
    contact_time: float = 2.0
    """s; a stationary robot does not start while something approaches that would touch it within this
    time."""
    blind_speed: float = 0.0
    """m/s; limit without a valid time to contact."""
    release_angle: float = 0.5
    """rad; after a turn by this angle the distance is forgotten."""
    slow_size: float = 0.4
    """Height of a detected object, as a share of the image's, from which the robot is slowed down."""
    stop_size: float = 0.7
    """Height at which it is stopped; it drives on below 0.9 of it."""

    def __post_init__(self) -> None:
        """InputError for sizes of detections in the wrong order."""
        if not 0 < self.slow_size < self.stop_size:
            raise InputError(
                f"slow_size, stop_size: expected 0 < slow_size < stop_size; "
                f"got {self.slow_size:g} and {self.stop_size:g}"
            )


SIZE_RELEASE = 0.9
"""Share of `stop_size` below which a robot that a detection stopped drives on; exceeds the noise of boxes."""


class _Input(Enum):
    """The inputs of the guard, which arrive at different times."""

    REQUEST = "a requested velocity"
    IMAGE = "a measured growth"
    APPROACH = "growth seen by a robot at rest, of a moving object"
    DETECTION = "the height of the largest detected object"
    ODOMETRY = "a measured velocity"


@dataclass(frozen=True)
class _Detection:
    """The largest detected object, and whether it stopped the robot."""

    height: float = 0.0
    """As a share of the image's; 0: there is none."""
    stops: bool = False
    """Whether the robot stands because of it."""

    def judged(self, stop_size: float) -> _Detection:
        """The same object with `stops` decided anew: once true, until the object is clearly smaller."""
        return replace(self, stops=self.height >= stop_size * (SIZE_RELEASE if self.stops else 1))


class ContactGuard:
    """Passes on a velocity with its forward speed limited so that the robot can stop in time.

    What lies ahead limits neither turning nor driving backwards. The robot speeds up no faster than limits
    allow, and brakes at once. Without a velocity for `timeout` seconds the speed is 0; without a valid
    measurement, or odometry where it is used, it is at most `blind_speed`. Until an image was measured while
    the robot drives, it is at most `unmeasured_speed`, and one too slow to measure anything is 0.
    """

    def __init__(
        self,
        settings: GuardSettings,
        limits: VelocityLimits,
        timeout: float,
        *,
        detections: bool = False,
        odometry: bool = False,
    ) -> None:
        """timeout: s. detections, odometry: whether the robot may only drive while these arrive as well."""
        self.settings = settings
        self.limits = limits
        self.deadband = Deadband()
        self.timeout = timeout
        self.restriction = Restriction.NO_COMMAND
        self.distance = DistanceFilter()
        """Distance of the obstacle from the camera; see DistanceFilter."""
        self._clear = ClearDistance()
        """Distance from the camera that is certainly free, while no obstacle is known."""
        self._delay = 0.0
        """Seconds from the stamp of the last image to its measurement."""
        self._needs_detections, self._needs_odometry = detections, odometry
        self._ramp = VelocityRamp()
        """At the velocity that was returned last."""
        self._motion = RobotMotion()
        self._asked = STANDSTILL
        self._detection = _Detection()
        self._latest = dict.fromkeys(_Input, -math.inf)
        """When each input came last, s; of images, detections and odometry, the stamp."""
        self._given_at = -math.inf
        self._now = -math.inf
        """Time up to which the distance driven has been subtracted, s."""
        self._turned = 0.0
        """Angle turned since something last approached, rad."""
        self._stopped = False
        """Whether the robot stands because of the distance."""

    def ask(self, velocity: Velocity, now: float) -> None:
        """Take the velocity requested at the time `now`, s; an implausible one is ignored."""
        if velocity.is_plausible:
            self._asked, self._latest[_Input.REQUEST] = velocity, now

    def drive(self, velocity: Velocity, now: float) -> bool:
        """Take the velocity that odometry measured at the time `now`; False if it is far beyond the limits.

        One that is older than the last is ignored, too.
        """
        linear, angular = _RUNAWAY * self.limits.linear, _RUNAWAY * self.limits.angular
        if not (abs(velocity.linear) <= linear and abs(velocity.angular) <= angular):  # NaN is neither
            return False
        if 0 < self._latest[_Input.ODOMETRY] - now <= self.timeout:
            return True
        self._latest[_Input.ODOMETRY] = now
        self._motion.measured(velocity, now)
        return True

    def follow(self, velocity: Velocity, now: float) -> None:
        """Take the velocity that the robot was given; it counts while there is no recent odometry."""
        if self._is_recent(_Input.ODOMETRY, now) or not velocity.is_plausible:
            return
        self._motion.given(
            velocity,
            now,
            measured_at=self._latest[_Input.ODOMETRY],
            reaction_time=self.settings.reaction_time,
            deceleration=self.settings.deceleration,
        )

    def measure(self, contact: Contact, stamp: float, now: float) -> None:
        """Take the measurement of an image. stamp: of the image, s; one ahead of the clock counts as now."""
        stamp = min(stamp, now)
        if not contact.is_plausible or stamp <= self._latest[_Input.IMAGE]:
            return
        self._advance(now)
        self._latest[_Input.IMAGE] = stamp
        speed, sigma = self._motion.speed(stamp - MEASURED_OVER, stamp)
        self._delay = now - stamp
        free = self.distance.measure(contact, stamp, speed, sigma, self._motion.driven(stamp, now)[0])
        self._clear.measure(free)
        # Growth seen by a robot at rest comes from a moving object.
        if contact.approaching and speed < SLOWEST and self._contact_is_near(contact):
            self._latest[_Input.APPROACH] = stamp
        if contact.approaching and math.isfinite(self.distance.distance):
            self._turned = 0.0

    def detect(self, height: float, stamp: float, now: float) -> None:
        """Take the height, as a share of the image's, of the largest detected object; 0: there is none.

        NaN is no measurement. stamp: of the image, s; one ahead of the clock counts as now.
        """
        stamp = min(stamp, now)
        if height >= 0 and stamp > self._latest[_Input.DETECTION]:
            self._detection = replace(self._detection, height=height)
            self._latest[_Input.DETECTION] = stamp

    def release(self) -> None:
        """Forget the obstacle; for callers who know that it is gone."""
        self.distance.forget()
        self._latest[_Input.APPROACH] = -math.inf
        self._stopped = False

    def command(self, now: float) -> Velocity | None:
        """Return the velocity from `now` s on; None while none is requested, after one standstill."""
        seconds = min(max(now - self._given_at, 0.0), self.timeout)
        self._given_at = now
        self._advance(now)
        if not is_recent(self._latest[_Input.REQUEST], now, self.timeout):
            given = self.restriction is Restriction.NO_COMMAND
            self.restriction, self._asked = Restriction.NO_COMMAND, STANDSTILL
            self._ramp.velocity = STANDSTILL
            return None if given else STANDSTILL
        limit, self.restriction = self._limit(now)
        linear = min(self._asked.linear, limit)
        if max(self.settings.blind_speed, 0.0) < linear < SLOWEST and self._is_unmeasured:
            linear, self.restriction = 0.0, Restriction.UNMEASURED  # so slow, it would never measure a wall
        if linear == self._asked.linear:
            self.restriction = Restriction.NONE
        wanted = self.deadband.applied(replace(self._asked, linear=linear))
        return self._ramp.speed_up(wanted, self.limits, seconds)

    def _advance(self, now: float) -> None:
        """Subtract the distance driven since the last call."""
        passed = now - self._now
        if passed < -self.timeout or LONGEST_HISTORY < passed < math.inf:  # the clock was set
            requested = {_Input.REQUEST: self._latest[_Input.REQUEST]}
            self._latest = dict.fromkeys(_Input, -math.inf) | requested
            self.distance.forget()
            self._clear.forget()
        elif passed < 0:  # a correction of the clock: the robot is where it was
            self._latest = {each: min(at, now) for each, at in self._latest.items()}
        elif math.isfinite(self._now):
            driven, sigma = self._motion.driven(self._now, now)
            turned, largest = self._motion.turned(self._now, now), self.settings.release_angle
            self.distance.drive(driven, sigma, passed)
            self._clear.drive(driven + sigma, turned, passed, largest)
            self._turned += turned
            if abs(self._turned) > largest:
                self.release()
                self._turned = 0.0
        self._now = now

    def _is_recent(self, kind: _Input, now: float) -> bool:
        """Whether an input came within `timeout`; one from the future, after a jump of the clock, counts."""
        return not is_old(self._latest[kind], now, self.timeout)

    def _contact_is_near(self, contact: Contact) -> bool:
        certain = contact.expansion_rate - contact.expansion_rate_sigma
        return certain * self.settings.contact_time > 1

    def _limit(self, now: float) -> tuple[float, Restriction]:
        """Return the highest forward speed in m/s, and its reason."""
        limits = [
            (self._speed_before_contact(), Restriction.DISTANCE),
            (self._speed_while_clear(), Restriction.UNMEASURED),
        ]
        if not self._is_recent(_Input.IMAGE, now):
            limits.append((self.settings.blind_speed, Restriction.BLIND))
        if self._needs_odometry and not self._is_recent(_Input.ODOMETRY, now):
            limits.append((self.settings.blind_speed, Restriction.NO_ODOMETRY))
        if self._is_recent(_Input.APPROACH, now):
            limits.append((0.0, Restriction.APPROACHED))
        if self._needs_detections:
            limits.append((self._speed_before_detection(now), Restriction.DETECTION))
        return min(limits, key=lambda each: each[0])

    def _speed_before_contact(self) -> float:
        """Speed from which the robot stops within the free distance, m/s."""
        settings, ahead = self.settings, self.distance
        if math.isinf(ahead.distance):
            self._stopped = False
            return math.inf
        free = ahead.distance - settings.sigmas * ahead.sigma - settings.gap - settings.camera_to_hull
        self._stopped = free <= (settings.hysteresis if self._stopped else 0.0)
        if self._stopped:
            return 0.0
        return self._speed_within(free, settings.reaction_time)

    @property
    def _is_unmeasured(self) -> bool:
        """Whether neither the distance of an obstacle nor that of a free way is known."""
        return math.isinf(self.distance.distance) and self._clear_way <= 0

    @property
    def _clear_way(self) -> float:
        """How far the hull may certainly drive until `gap` is left, m; not above 0 if that is unknown."""
        return self._clear.metres - self.settings.gap - self.settings.camera_to_hull

    def _speed_while_clear(self) -> float:
        """Speed from which the robot stops within what is certainly free, m/s."""
        settings = self.settings
        if math.isfinite(self.distance.distance):
            return math.inf
        return max(
            self._speed_within(self._clear_way, settings.reaction_time),
            self.unmeasured_speed,
            settings.blind_speed,
        )

    @property
    def unmeasured_speed(self) -> float:
        """Speed in m/s from which a robot that finds an obstacle `gap` ahead stops before contact.

        The obstacle is found once the robot has certainly driven for MEASURED_OVER before an image, and this
        image was measured.
        """
        until_measured = MEASURED_OVER + self.settings.reaction_time + self._delay
        return max(
            self._speed_within(self.settings.gap, until_measured + self.settings.reaction_time),
            LEAST_UNMEASURED_SPEED,
        )

    def _speed_within(self, metres: float, seconds: float) -> float:
        """Speed in m/s from which the robot stops within `metres`, if it brakes after `seconds`."""
        # v * seconds + v^2 / (2 * deceleration) = metres
        lost = self.settings.deceleration * seconds
        return math.sqrt(lost**2 + 2 * self.settings.deceleration * max(metres, 0.0)) - lost

    def _speed_before_detection(self, now: float) -> float:
        """Speed that the latest detections allow, m/s: a share of the requested one."""
        settings, asked = self.settings, max(self._asked.linear, 0.0)
        if not self._is_recent(_Input.DETECTION, now):
            return settings.blind_speed
        self._detection = self._detection.judged(settings.stop_size)
        if self._detection.stops:
            return 0.0
        left = settings.stop_size - self._detection.height
        return asked * min(left / (settings.stop_size - settings.slow_size), 1.0)
