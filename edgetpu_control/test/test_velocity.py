"""Velocities, and how far a robot has moved with them."""

from __future__ import annotations

import math

import pytest

from edgetpu_control.velocity import Velocity, VelocityHistory


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
