"""Limits, ramps and deadbands of velocities."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from edgetpu_control.velocity import STANDSTILL, Velocity
from edgetpu_control.velocity_limits import Deadband, VelocityLimits, VelocityRamp
from edgetpu_driver.errors import InputError

LIMITS = VelocityLimits(linear=1.0, angular=2.0, linear_acceleration=4.0, angular_acceleration=10.0)


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_a_limit_that_is_no_positive_number_is_refused(value: float) -> None:
    with pytest.raises(InputError, match="linear_acceleration: expected a positive number; got"):
        VelocityLimits(1.0, 1.0, value, 1.0)


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

    def test_that_only_limits_speeding_up_meets_a_limit_that_was_lowered_at_once(self) -> None:
        ramp = VelocityRamp()
        ramp.velocity = Velocity(-1.0, 2.0)
        lowered = replace(LIMITS, linear=0.25, angular=0.5)
        assert ramp.speed_up(Velocity(-1.0, 2.0), lowered, 0.125) == Velocity(-0.25, 0.5)


def test_a_deadband_lets_pass_what_is_no_number() -> None:
    passed = Deadband(0.1, 0.1).applied(Velocity(math.nan, 0.05))
    assert math.isnan(passed.linear)
    assert passed.angular == 0
