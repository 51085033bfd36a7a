"""Velocities that follow commands within limits, and stop without them."""

from __future__ import annotations

import math

import pytest

from edgetpu_control.velocity import STANDSTILL, Velocity
from edgetpu_control.velocity_follower import VelocityFollower
from edgetpu_control.velocity_limits import VelocityLimits
from edgetpu_driver.errors import InputError

LIMITS = VelocityLimits(linear=1.0, angular=2.0, linear_acceleration=4.0, angular_acceleration=8.0)


def follower() -> VelocityFollower:
    """At rest at 10 s, with a timeout of 0.25 s."""
    found = VelocityFollower(LIMITS, 0.25)
    assert found.step(10.0) is None
    return found


def test_approaches_a_command_no_faster_than_accelerations_allow() -> None:
    it = follower()
    it.command(Velocity(1.0, -2.0), 10.0)
    assert [it.step(10.125), it.step(10.25)] == [Velocity(0.5, -1.0), Velocity(1.0, -2.0)]


def test_ends_at_the_limits() -> None:
    it = follower()
    for tick in range(1, 9):
        it.command(Velocity(5.0, -9.0), 10 + tick / 8)
        velocity = it.step(10 + tick / 8)
    assert velocity == Velocity(1.0, -2.0)


def test_brakes_to_a_standstill_and_is_silent_when_no_command_comes() -> None:
    it = follower()
    it.command(Velocity(1.0, 0.0), 10.0)
    assert it.step(10.25) == Velocity(1.0, 0.0)
    found = [it.step(10.375), it.step(10.5), it.step(10.625)]
    assert found == [Velocity(0.5, 0.0), STANDSTILL, None]


def test_brakes_when_the_clock_is_set_back() -> None:
    it = follower()
    it.command(Velocity(1.0, 0.0), 10.0)
    it.step(10.25)
    assert it.step(5.0) == Velocity(1.0, 0.0)
    assert it.step(5.125) == Velocity(0.5, 0.0)


@pytest.mark.parametrize(
    "velocity", [Velocity(math.nan, 0.0), Velocity(0.0, math.inf), Velocity(1001.0, 0.0)]
)
def test_brakes_when_only_velocities_come_that_cannot_be(velocity: Velocity) -> None:
    it = follower()
    it.command(Velocity(1.0, 0.0), 10.0)
    assert it.step(10.25) == Velocity(1.0, 0.0)
    with pytest.raises(InputError, match="expected a velocity of at most 1000; got "):
        it.command(velocity, 10.25)
    assert [it.step(10.375), it.step(10.5)] == [Velocity(0.5, 0.0), STANDSTILL]
