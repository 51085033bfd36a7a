"""A teacher for policies: the visual servo, which turns a simulated robot to a target, without images."""

from __future__ import annotations

import math
from collections import deque

import numpy as np
from numpy.typing import NDArray

from edgetpu_control.velocity import Velocity
from edgetpu_control.velocity_limits import VelocityLimits
from edgetpu_control.visual_servo import ServoGains, Target, VisualServo

SOURCES = (
    "spot_tracker/servo_error edgetpu_msgs/msg/ServoError bearing_x; "
    "odom nav_msgs/msg/Odometry twist.twist.angular.z"
)
"""The parameter `observations` for policies trained by this teacher."""

PERIOD = 1 / 30
"""Seconds between images."""
_GAIN = 3.0
"""rad/s per rad."""
_DELAYS = 2, 4
"""Least and greatest delay from an image to its command, in periods: that of a webcam."""
_LAG = 0.1
"""Time constant of the robot's drive, s: that of small indoor robots."""
_FIELD = 0.6
"""rad to either side that the camera sees; wider than most, so that the policy does not extrapolate."""
_TARGET_RATE = 0.3
"""Greatest angular velocity of a target, rad/s."""
_STAYS = 20, 60
"""Images after which a target changes its motion or jumps."""
_LIMITS = VelocityLimits(0.5, 1.5, 1000.0, 1000.0)
"""The limits of the teacher; the node that runs the policy limits the accelerations."""

Array = NDArray[np.float64]


def lessons(count: int = 20000, seed: int = 0) -> tuple[Array, Array]:
    """Return what a robot observed, float64[count, 2], and what the teacher commanded, float64[count, 2].

    Observations are the bearing of the target in the latest image (rad, right positive) and the angular
    velocity of the robot (rad/s, left positive). Commands are the speed (m/s, always 0) and the angular
    velocity (rad/s).
    """
    random = np.random.default_rng(seed)
    observations: list[tuple[float, float]] = []
    commands: list[tuple[float, float]] = []
    while len(observations) < count:
        _Lesson(random).give(observations, commands)
    return np.array(observations[:count]), np.array(commands[:count])


class _Lesson:
    """A robot and a target, from its appearance until it changes."""

    def __init__(self, random: np.random.Generator) -> None:
        self._random = random
        self._delay = int(random.integers(_DELAYS[0], _DELAYS[1] + 1))
        self._servo = VisualServo(ServoGains(turn=_GAIN), _LIMITS, timeout=1.0)
        self._yaw = self._turning = 0.0
        self._target = random.uniform(-_FIELD, _FIELD)
        """Direction, left positive, rad."""
        self._rate = random.uniform(-_TARGET_RATE, _TARGET_RATE)

    def give(self, observations: list[tuple[float, float]], commands: list[tuple[float, float]]) -> None:
        """Append what is observed and commanded."""
        images: deque[tuple[float, float]] = deque()
        for tick in range(int(self._random.integers(*_STAYS))):
            now = tick * PERIOD
            images.append((now, self._bearing()))
            turning = 0.0
            if len(images) > self._delay:
                stamp, bearing = images.popleft()
                self._servo.measure(Target(bearing), stamp)
                turning = (self._servo.command(now) or Velocity()).angular
                observations.append((bearing, self._turning))
                commands.append((0.0, turning))
            self._move(turning)

    def _bearing(self) -> float:
        return math.remainder(self._yaw - self._target, 2 * math.pi)

    def _move(self, turning: float) -> None:
        self._turning += (turning - self._turning) * (1 - math.exp(-PERIOD / _LAG))
        self._yaw += self._turning * PERIOD
        self._target += self._rate * PERIOD
