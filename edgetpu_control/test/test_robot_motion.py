"""The range of motions that a robot may have made."""

from __future__ import annotations

import math

import pytest

from edgetpu_control.robot_motion import RobotMotion
from edgetpu_control.velocity import STANDSTILL, Velocity

SIGMA_OF_1 = 1 / math.sqrt(12)
"""Derived: standard deviation of a uniform distribution that is 1 wide."""


def told(*speeds: float, every: float = 0.125) -> RobotMotion:
    """Return the motion of a robot without odometry that was told these speeds in turn, from 0 s on."""
    motion = RobotMotion()
    for tick, speed in enumerate(speeds):
        motion.given(
            Velocity(speed), tick * every, measured_at=-math.inf, reaction_time=0.0, deceleration=0.5
        )
    return motion


class TestTheSpeed:
    def test_of_a_robot_told_to_stand_may_still_be_that_of_one_that_brakes(self) -> None:
        # It loses 0.0625 m/s in 0.125 s.
        assert told(1.0, 0.0, 0.0).speed(0.25, 0.25) == pytest.approx((0.4375, 0.875 * SIGMA_OF_1))

    def test_of_a_robot_told_to_drive_forward_may_still_be_that_of_one_that_brakes_backing(self) -> None:
        assert told(-1.0, 1.0, 1.0).speed(0.25, 0.25) == pytest.approx((0.0625, 1.875 * SIGMA_OF_1))

    def test_of_a_robot_that_has_braked_from_backing_is_as_told(self) -> None:
        assert told(-0.0625, 1.0, 1.0).speed(0.25, 0.25) == (1.0, 0.0)

    def test_covers_a_moment_in_which_it_was_lower(self) -> None:
        motion = RobotMotion()
        for at, velocity in ((0.0, Velocity(1.0)), (1.0, STANDSTILL), (1.125, Velocity(1.0))):
            motion.measured(velocity, at)
        assert motion.speed(0.95, 1.15) == pytest.approx((0.5, SIGMA_OF_1))

    def test_covers_a_moment_in_which_it_was_higher(self) -> None:
        motion = RobotMotion()
        for at, velocity in ((0.0, STANDSTILL), (1.0, Velocity(1.0)), (1.125, STANDSTILL)):
            motion.measured(velocity, at)
        assert motion.speed(0.95, 1.15) == pytest.approx((0.5, SIGMA_OF_1))
