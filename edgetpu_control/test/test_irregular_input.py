"""Controllers with the irregular input of real robots: odd stamps, clocks and numbers, and wrong signs."""

from __future__ import annotations

import math
from collections import deque

import pytest

from edgetpu_control.contact_guard import ContactGuard, GuardSettings, Restriction
from edgetpu_control.distance_filter import Contact
from edgetpu_control.heading_hold import AGAINST, HeadingHold, HoldGains, HoldState
from edgetpu_control.velocity import STANDSTILL, Velocity
from edgetpu_control.velocity_limits import VelocityLimits
from edgetpu_control.visual_servo import ServoGains, Target, VisualServo

LIMITS = VelocityLimits(linear=1.0, angular=1.5, linear_acceleration=1e4, angular_acceleration=1e4)
TIMEOUT = 0.25
FREE = Contact(0.0, 0.01, approaching=False)
AHEAD = Velocity(0.5)
IMPOSSIBLE = [Velocity(math.nan), Velocity(0.0, math.nan), Velocity(math.inf), Velocity(1e9)]


class TestAContactGuard:
    @pytest.fixture
    def guard(self) -> ContactGuard:
        """One of a robot that drives at 0.5 m/s and saw a wall at a distance of 1 m, at the time 1 s."""
        guard = ContactGuard(GuardSettings(sigmas=0.0), LIMITS, TIMEOUT, odometry=True)
        guard.drive(AHEAD, 0.5)
        guard.drive(AHEAD, 1.0)
        for stamp in (0.97, 1.0):
            guard.measure(Contact(0.5, 0.005, approaching=True), stamp, stamp)
        guard.ask(AHEAD, 1.0)
        return guard

    @pytest.mark.parametrize("velocity", IMPOSSIBLE, ids=str)
    def test_keeps_to_the_last_velocity_that_can_be(self, guard: ContactGuard, velocity: Velocity) -> None:
        guard.ask(velocity, 1.1)
        given = guard.command(1.1)
        assert given is not None
        assert given.is_plausible
        assert guard.command(1.3) == STANDSTILL

    @pytest.mark.parametrize("velocity", [*IMPOSSIBLE, Velocity(-2.1), Velocity(0.0, 3.1)], ids=str)
    def test_takes_no_odometry_far_beyond_the_limits(self, guard: ContactGuard, velocity: Velocity) -> None:
        assert not guard.drive(velocity, 1.0)
        guard.command(1.2)
        assert guard.distance.distance == pytest.approx(0.9)

    def test_takes_a_robot_whose_odometry_ended_for_one_that_brakes(self, guard: ContactGuard) -> None:
        for tick in range(1, 500):
            now = 1.0 + 0.01 * tick
            guard.ask(AHEAD, now)
            velocity = guard.command(now)
            assert velocity is not None
            guard.follow(velocity, now)
        # 0.26 s at 0.5 m/s, until the guard stops it; then none, to 0.15 s more and 0.25 m of braking.
        assert guard.distance.distance == pytest.approx(1.0 - 0.13 - 0.325 / 2, abs=0.005)

    def test_does_not_forget_a_wall_by_turns_that_the_odometry_did_not_tell(
        self, guard: ContactGuard
    ) -> None:
        guard.drive(Velocity(0.0, 0.5), 1.0)
        for tick in range(1, 100):
            guard.command(1.0 + 0.1 * tick)
            guard.follow(STANDSTILL, 1.0 + 0.1 * tick)
        assert math.isfinite(guard.distance.distance)

    def test_takes_an_image_from_the_future_for_one_of_now(self, guard: ContactGuard) -> None:
        guard.measure(FREE, 100.0, 1.1)
        guard.ask(AHEAD, 1.4)
        guard.drive(AHEAD, 1.4)
        guard.command(1.4)
        assert guard.restriction is Restriction.BLIND
        guard.measure(FREE, 1.4, 1.4)
        guard.command(1.4)
        assert guard.restriction is not Restriction.BLIND

    def test_takes_detections_from_the_future_for_some_of_now(self) -> None:
        guard = ContactGuard(GuardSettings(), LIMITS, TIMEOUT, detections=True)
        guard.detect(0.0, 100.0, 1.0)
        guard.measure(FREE, 1.4, 1.4)
        guard.ask(AHEAD, 1.4)
        assert guard.command(1.4) == STANDSTILL
        assert guard.restriction is Restriction.DETECTION

    def test_remembers_the_wall_when_the_clock_is_corrected(self, guard: ContactGuard) -> None:
        before = guard.distance.distance
        guard.command(0.999)
        assert guard.distance.distance == before

    def test_passes_on_what_is_asked_for_when_the_clock_is_corrected(self, guard: ContactGuard) -> None:
        assert guard.command(0.999) == AHEAD

    def test_forgets_the_wall_when_the_simulation_starts_again(self, guard: ContactGuard) -> None:
        guard.command(5.0)
        guard.command(0.0)
        assert math.isinf(guard.distance.distance)

    def test_forgets_the_wall_when_the_clock_is_set_ahead(self, guard: ContactGuard) -> None:
        assert guard.command(1.0) == AHEAD
        month = 30 * 86400.0
        assert guard.command(month) == STANDSTILL  # nobody has asked for a velocity since
        guard.drive(STANDSTILL, month)
        guard.measure(FREE, month + 0.1, month + 0.1)
        guard.ask(AHEAD, month + 0.1)
        assert guard.command(month + 0.1) == Velocity(guard.unmeasured_speed)

    def test_counts_what_was_driven_while_the_computer_was_busy(self, guard: ContactGuard) -> None:
        guard.command(1.0)
        guard.command(3.0)
        assert guard.distance.distance == pytest.approx(0.0)

    def test_goes_on_as_before_after_a_pause_of_the_simulation(self, guard: ContactGuard) -> None:
        first = guard.command(1.0)
        assert [guard.command(1.0) for _ in range(3)] == [first] * 3
        assert guard.distance.distance == 1.0

    def test_knows_the_wall_farther_away_after_driving_back(self, guard: ContactGuard) -> None:
        guard.drive(Velocity(-0.5), 1.0)
        guard.ask(Velocity(-0.5), 1.2)
        assert guard.command(1.2) == Velocity(-0.5)
        assert guard.distance.distance == pytest.approx(1.1)


class TestAVisualServo:
    @pytest.fixture
    def servo(self) -> VisualServo:
        servo = VisualServo(ServoGains(search_speed=0.5), LIMITS, TIMEOUT)
        servo.command(0.97)
        return servo

    def test_forgets_a_target_with_a_stamp_far_ahead(self, servo: VisualServo) -> None:
        servo.measure(Target(0.5), 100.0)
        assert servo.command(1.0) is None
        servo.measure(Target(-0.25), 1.1)
        assert servo.command(1.1) == Velocity(0.0, 0.5)

    def test_does_not_take_two_near_stamps_for_a_fast_target(self, servo: VisualServo) -> None:
        for stamp, bearing in ((1.0, 0.1), (1.0 + 1e-9, 0.15)):
            servo.measure(Target(bearing), stamp)
        velocity = servo.command(1.0)
        assert velocity is not None
        # The bearing of the filter, and 0.03 * 0.05 rad in 5 ms.
        assert velocity.angular == pytest.approx(-2 * 0.12 - 0.3)

    def test_does_not_follow_a_target_that_is_faster_than_the_robot(self, servo: VisualServo) -> None:
        for tick in range(20):
            servo.measure(Target(1.0 if tick % 2 else -1.0), 1.0 + 0.006 * tick)
        velocity = servo.command(1.12)
        assert velocity is not None
        assert abs(velocity.angular) <= LIMITS.angular
        assert servo._direction is not None
        assert abs(servo._direction.rate) <= LIMITS.angular

    def test_with_the_camera_upside_down_loses_the_target_and_rests(self) -> None:
        servo = VisualServo(ServoGains(), LIMITS, TIMEOUT)
        yaw = 0.0
        for tick in range(300):
            now = tick / 30
            bearing = 0.2 + yaw
            if abs(bearing) < 0.6:  # half the angle of view
                servo.measure(Target(-bearing), now)
            velocity = servo.command(now)
            yaw += (velocity or STANDSTILL).angular / 30
        assert abs(yaw) < 1.0
        assert velocity is None


class TestAHeadingHold:
    def turn(self, sign: float, seconds: float = 20.0) -> tuple[HeadingHold, float]:
        """Let a robot turn by a right angle; sign: -1 of a camera that is upside down. The yaw at the end."""
        hold = HeadingHold(HoldGains(), LIMITS, TIMEOUT)
        on_the_way = deque([0.0] * 3)
        yaw = 0.0
        for tick in range(round(30 * seconds)):
            now = tick / 30
            hold.measure(sign * yaw, "first", now)
            if tick == 1:
                assert hold.turn_by(math.pi / 2, now)
            on_the_way.append((hold.command(now) or STANDSTILL).angular)
            yaw += on_the_way.popleft() / 30
        return hold, yaw

    def test_reaches_the_heading(self) -> None:
        hold, yaw = self.turn(1.0)
        assert yaw == pytest.approx(math.pi / 2, abs=0.01)
        assert not hold.turns_against

    def test_gives_up_where_the_robot_turns_against_its_commands(self) -> None:
        hold, yaw = self.turn(-1.0)
        assert hold.turns_against
        assert hold.state is HoldState.IDLE
        assert AGAINST < yaw < AGAINST + 0.5

    def test_does_not_begin_again_by_itself(self) -> None:
        hold, _ = self.turn(-1.0)
        now = 20.0
        hold.measure(0.0, "first", now)
        hold.ask(Velocity(0.5), now)
        assert hold.command(now) == Velocity(0.5)
        assert hold.target is None
        assert hold.turn_by(0.0, now)
        assert not hold.turns_against

    def test_follows_headings_of_a_camera_whose_clock_is_ahead(self) -> None:
        hold = HeadingHold(HoldGains(turn=2.0), LIMITS, TIMEOUT)
        hold.command(0.9)
        hold.measure(0.0, "first", 1.01)
        assert hold.turn_by(0.5, 1.0)
        assert hold.command(1.0) == Velocity(0.0, 1.0)

    def test_forgets_a_heading_with_a_stamp_far_ahead(self) -> None:
        hold = HeadingHold(HoldGains(turn=2.0), LIMITS, TIMEOUT)
        hold.measure(0.0, "first", 100.0)
        assert hold.command(1.0) is None
        hold.measure(0.25, "first", 1.0)
        assert hold.heading(1.0) == 0.25

    def test_holds_on_when_the_clock_is_corrected(self) -> None:
        hold = HeadingHold(HoldGains(), LIMITS, TIMEOUT)
        hold.measure(0.0, "first", 1.0)
        hold.turn_by(0.5, 1.0)
        hold.command(1.0)
        hold.command(0.999)
        assert hold.target == 0.5

    @pytest.mark.parametrize("velocity", IMPOSSIBLE, ids=str)
    def test_keeps_to_the_last_velocity_that_can_be(self, velocity: Velocity) -> None:
        hold = HeadingHold(HoldGains(), LIMITS, TIMEOUT)
        hold.ask(AHEAD, 1.0)
        hold.ask(velocity, 1.0)
        assert hold.command(1.0) == AHEAD


def test_odometry_that_overtook_an_older_one_remains() -> None:
    guard = ContactGuard(GuardSettings(), VelocityLimits(1.0, 1.0, 1.0, 1.0), 0.25)
    guard.drive(Velocity(0.5), 0.0)
    guard.drive(Velocity(0.5), 1.0)
    guard.drive(STANDSTILL, 0.9)
    for stamp in (1.05, 1.1):
        guard.measure(Contact(0.5, 0.005, approaching=True), stamp, stamp)
    assert guard.distance.distance == 1.0
