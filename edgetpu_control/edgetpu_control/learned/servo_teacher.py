"""A teacher of policies: the visual servo, which turns a robot that is simulated in numbers to a target."""

from __future__ import annotations

import math
from collections import deque

import numpy as np
from numpy.typing import NDArray

from edgetpu_control.velocity import Velocity, VelocityLimits
from edgetpu_control.visual_servo import ServoGains, Target, VisualServo

SOURCES = (
    "spot_tracker/servo_error edgetpu_msgs/msg/ServoError bearing_x; "
    "odom nav_msgs/msg/Odometry twist.twist.angular.z"
)
"""The parameter `observations` of a policy node that has learned from this teacher."""

PERIOD = 1 / 30
"""Seconds between images."""
_GAIN = 3.0
"""rad/s per rad."""
_DELAYS = 2, 4
"""Periods from an image to the command that it leads to, least and most: those of a webcam."""
_LAG = 0.1
"""s of the robot's drive, as those of small indoor robots."""
_FIELD = 0.6
"""rad to either side in which the camera sees a target; wider than most, so that nothing is extrapolated."""
_TARGET_RATE = 0.3
"""rad/s; the greatest of a target."""
_STAYS = 20, 60
"""Images in which a target moves in one way, before it moves in another or appears elsewhere."""
_LIMITS = VelocityLimits(0.5, 1.5, 1000.0, 1000.0)
"""The teacher's; slew rates are those of the node that follows the policy."""

Array = NDArray[np.float64]


def lessons(count: int = 20000, seed: int = 0) -> tuple[Array, Array]:
    """Return what a robot observed, float64[count, 2], and what the teacher commanded, float64[count, 2].

    Observations are the bearing of the target in the latest image, rad, right positive, and the angular
    velocity, rad/s, left positive; commands are the speed, m/s, which is 0, and the angular velocity.
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
        """Add what is observed and commanded."""
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
