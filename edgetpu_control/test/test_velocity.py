"""Limits and ramps of velocities, and how far a robot has moved."""

from __future__ import annotations

import math

import pytest

from edgetpu_control.velocity import (
    STANDSTILL,
    Deadband,
    Velocity,
    VelocityHistory,
    VelocityLimits,
    VelocityRamp,
)
from edgetpu_driver.errors import InputError

LIMITS = VelocityLimits(linear=1.0, angular=2.0, linear_acceleration=4.0, angular_acceleration=10.0)


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_a_limit_that_is_no_positive_number_is_refused(value: float) -> None:
    with pytest.raises(InputError, match="linear_acceleration: expected a positive number; got"):
        VelocityLimits(1.0, 1.0, value, 1.0)


@pytest.mark.parametrize(
    ("velocity", "plausible"),
    [
        (Velocity(-20.0, 50.0), True),
        (Velocity(math.nan, 0.0), False),
        (Velocity(0.0, -math.inf), False),
        (Velocity(1e308, 0.0), False),
    ],
)
def test_a_velocity_that_no_robot_has_is_not_plausible(velocity: Velocity, plausible: bool) -> None:
    assert velocity.is_plausible == plausible


class TestARamp:
    def test_changes_no_faster_than_the_accelerations_allow(self) -> None:
        assert VelocityRamp().step(Velocity(1.0, -2.0), LIMITS, 0.125) == Velocity(0.5, -1.25)

    def test_ends_at_the_limits(self) -> None:
        ramp = VelocityRamp()
        for _ in range(10):
            velocity = ramp.step(Velocity(-5.0, 5.0), LIMITS, 0.125)
        assert velocity == Velocity(-1.0, 2.0)

    def test_brakes_as_it_accelerates(self) -> None:
        ramp = VelocityRamp()
        ramp.velocity = Velocity(1.0, 0.0)
        assert ramp.step(STANDSTILL, LIMITS, 0.125) == Velocity(0.5, 0.0)


class TestAHistory:
    @pytest.fixture
    def history(self) -> VelocityHistory:
        """0.5 m/s from 1 s on, 1 m/s and a turn from 2 s on."""
        history = VelocityHistory()
        history.add(1.0, Velocity(0.5, 0.0))
        history.add(2.0, Velocity(1.0, 2.0))
        return history

    def test_tells_the_velocity_at_a_time(self, history: VelocityHistory) -> None:
        times = 0.5, 1.0, 1.5, 2.0, 9.0
        assert [history.at(time).linear for time in times] == [0.0, 0.5, 0.5, 1.0, 1.0]

    def test_integrates_between_two_times(self, history: VelocityHistory) -> None:
        assert history.travelled(1.5, 2.25) == Velocity(0.5, 0.5)

    def test_takes_the_robot_for_standing_before_the_first_velocity(self, history: VelocityHistory) -> None:
        assert history.travelled(0.0, 1.5) == Velocity(0.25, 0.0)

    def test_is_cleared_when_the_clock_is_set_back(self, history: VelocityHistory) -> None:
        history.add(1.5, Velocity(0.25, 0.0))
        assert history.travelled(0.0, 2.5) == Velocity(0.25, 0.0)

    def test_forgets_what_was_long_ago(self, history: VelocityHistory) -> None:
        for tick in range(1000):
            history.add(3.0 + tick, Velocity(1.0, 0.0))
        assert len(history._entries) <= 7
        assert history.travelled(1000.0, 1002.0) == Velocity(2.0, 0.0)


def test_a_deadband_lets_pass_what_is_no_number() -> None:
    passed = Deadband(0.1, 0.1).applied(Velocity(math.nan, 0.05))
    assert math.isnan(passed.linear)
    assert passed.angular == 0
