"""The heading hold: what it passes on, what it holds, and turns of a robot with lag and delayed headings."""

from __future__ import annotations

import math
from collections import deque

import pytest

from edgetpu_control.heading_hold import LARGEST_TURN, HeadingHold, HoldGains, HoldState
from edgetpu_control.velocity import STANDSTILL, Velocity
from edgetpu_control.velocity_limits import VelocityLimits

LIMITS = VelocityLimits(linear=0.5, angular=1.5, linear_acceleration=2.0, angular_acceleration=3.0)
SUDDEN = VelocityLimits(10.0, 10.0, 1e6, 1e6)
TIMEOUT = 0.25


@pytest.fixture
def hold() -> HeadingHold:
    """One that knows a heading of 1 rad at the time 1 s."""
    hold = HeadingHold(HoldGains(turn=2.0), SUDDEN, TIMEOUT)
    hold.command(0.9)
    hold.measure(1.0, "first", 1.0)
    return hold


class TestSteering:
    def test_passes_a_turn_on(self, hold: HeadingHold) -> None:
        hold.ask(Velocity(0.2, 0.5), 1.0)
        assert hold.command(1.0) == Velocity(0.2, 0.5)
        assert hold.state is HoldState.STEERED

    def test_ends_a_turn(self, hold: HeadingHold) -> None:
        assert hold.turn_by(1.0, 1.0)
        hold.ask(Velocity(0.0, -0.5), 1.0)
        assert hold.command(1.0) == Velocity(0.0, -0.5)

    def test_straight_on_keeps_the_heading(self, hold: HeadingHold) -> None:
        hold.ask(Velocity(0.5, 0.0), 1.0)
        assert hold.command(1.0) == Velocity(0.5, 0.0)
        hold.measure(0.875, "first", 1.0625)
        assert hold.command(1.0625) == Velocity(0.5, 0.25)

    def test_straight_on_keeps_no_heading_where_that_is_switched_off(self) -> None:
        hold = HeadingHold(HoldGains(hold_when_straight=False), SUDDEN, TIMEOUT)
        hold.measure(1.0, "first", 1.0)
        hold.ask(Velocity(0.5, 0.0), 1.0)
        hold.command(1.0)
        assert hold.target is None

    def test_straight_on_keeps_no_heading_of_a_robot_that_was_asked_to_stop(self, hold: HeadingHold) -> None:
        hold.ask(Velocity(0.5, 0.0), 1.0)
        hold.command(1.0)
        hold.ask(STANDSTILL, 1.0625)
        assert hold.command(1.0625) == STANDSTILL
        hold.measure(1.5, "first", 1.125)  # somebody turns it
        assert hold.command(1.125) is None
        assert hold.state is HoldState.IDLE

    def test_straight_on_keeps_the_heading_while_the_robot_brakes(self) -> None:
        hold = HeadingHold(HoldGains(turn=2.0), VelocityLimits(1.0, 10.0, 1.0, 1e6), TIMEOUT)
        hold.command(0.875)
        hold.measure(1.0, "first", 1.0)
        hold.ask(Velocity(0.5, 0.0), 1.0)
        assert hold.command(1.0) == Velocity(0.125, 0.0)
        hold.ask(STANDSTILL, 1.0)
        hold.measure(0.875, "first", 1.0625)
        assert hold.command(1.0625) == Velocity(0.0625, 0.25)

    def test_straight_on_keeps_no_heading_once_that_is_switched_off(self, hold: HeadingHold) -> None:
        hold.ask(Velocity(0.5, 0.0), 1.0)
        hold.command(1.0)
        hold.gains = HoldGains(hold_when_straight=False)
        hold.command(1.0625)
        assert hold.target is None

    def test_a_turn_is_held_although_nobody_steers(self, hold: HeadingHold) -> None:
        hold.ask(Velocity(0.5, 0.0), 1.0)
        hold.command(1.0)
        hold.turn_by(0.5, 1.0)
        hold.ask(STANDSTILL, 1.0)
        hold.command(1.0625)
        hold.command(1.125)
        assert hold.target == 1.5

    def test_is_given_up_when_nobody_steers_any_more(self, hold: HeadingHold) -> None:
        hold.ask(Velocity(0.0, 0.5), 1.0)
        assert hold.command(1.0) == Velocity(0.0, 0.5)
        assert hold.command(1.3) == STANDSTILL
        assert hold.command(1.4) is None
        assert hold.state is HoldState.IDLE


class TestTurning:
    def test_adds_to_the_present_heading(self, hold: HeadingHold) -> None:
        assert hold.turn_by(0.5, 1.0)
        assert hold.target == 1.5
        assert hold.command(1.0) == Velocity(0.0, 1.0)

    def test_adds_to_the_heading_that_is_held(self, hold: HeadingHold) -> None:
        hold.turn_by(0.5, 1.0)
        hold.measure(1.25, "first", 1.1)
        hold.turn_by(0.5, 1.1)
        assert hold.target == 2.0

    def test_to_a_heading(self, hold: HeadingHold) -> None:
        assert hold.turn_to(-1.0, 1.0)
        assert hold.error(1.0) == -2.0

    @pytest.mark.parametrize("angle", [math.nan, math.inf, 1e308, -1e4])
    def test_by_no_angle_is_refused(self, hold: HeadingHold, angle: float) -> None:
        assert not hold.turn_by(angle, 1.0)
        assert not hold.turn_to(angle, 1.0)
        assert hold.target is None

    def test_turns_add_up_to_the_largest_one(self, hold: HeadingHold) -> None:
        assert hold.turn_by(LARGEST_TURN, 1.0)
        assert not hold.turn_by(1.0, 1.0)
        assert hold.error(1.0) == LARGEST_TURN

    def test_is_refused_without_a_present_heading(self, hold: HeadingHold) -> None:
        assert not hold.turn_by(1.0, 1.5)

    def test_ends_when_headings_stop(self, hold: HeadingHold) -> None:
        hold.turn_by(1.0, 1.0)
        assert hold.command(1.0) is not None
        assert hold.command(1.3) == STANDSTILL
        assert hold.state is HoldState.IDLE

    def test_ends_when_the_compass_counts_from_another_zero(self, hold: HeadingHold) -> None:
        hold.turn_by(1.0, 1.0)
        hold.measure(0.0, "second", 1.1)
        assert hold.target is None

    def test_ends_when_the_clock_is_set_back(self, hold: HeadingHold) -> None:
        hold.turn_by(1.0, 1.0)
        hold.command(1.0)
        hold.command(0.5)
        assert hold.target is None

    def test_takes_off_what_was_turned_since_the_image(self, hold: HeadingHold) -> None:
        hold.turn_by(0.5, 1.0)
        assert hold.command(1.0) == Velocity(0.0, 1.0)
        assert hold.command(1.125) == Velocity(0.0, 0.75)


def turn(angle: float, delay: float, disturbance: float = 0.0) -> list[float]:
    """Turn a robot with a lag of 0.1 s and noiseless headings at 30 Hz; its heading, every 5 ms."""
    hold = HeadingHold(HoldGains(), LIMITS, TIMEOUT)
    heading = angular = 0.0
    on_the_way: deque[tuple[float, float]] = deque()
    headings = []
    step, asked = 0.005, False
    wanted = STANDSTILL
    for tick in range(round((3 + abs(angle)) / step)):
        now = 1.0 + tick * step
        if tick % 7 == 0:
            on_the_way.append((now, heading))
            while on_the_way and on_the_way[0][0] <= now - delay:
                stamp, yaw = on_the_way.popleft()
                hold.measure(yaw, "zero", stamp)
            asked = asked or hold.turn_by(angle, now)
            wanted = hold.command(now) or STANDSTILL
        angular += (1 - math.exp(-step / 0.1)) * (wanted.angular - angular)
        heading += (angular + disturbance) * step
        headings.append(heading)
    return headings


class TestATurn:
    @pytest.mark.parametrize("degrees", [5, 90, 180, 360, -180])
    @pytest.mark.parametrize("delay", [0.03, 0.15])
    def test_ends_within_half_a_degree(self, degrees: int, delay: float) -> None:
        assert math.degrees(turn(math.radians(degrees), delay)[-1]) == pytest.approx(degrees, abs=0.5)

    @pytest.mark.parametrize("delay", [0.03, 0.15])
    def test_overshoots_by_three_degrees_at_most(self, delay: float) -> None:
        assert math.degrees(max(turn(math.pi, delay))) < 183

    def test_ends_near_the_heading_against_a_robot_that_drifts(self) -> None:
        # A drift of 0.05 rad/s is balanced by an error of 0.05 / turn.
        assert turn(1.0, 0.05, disturbance=0.05)[-1] == pytest.approx(1.0, abs=0.05 / 3 + 0.005)
