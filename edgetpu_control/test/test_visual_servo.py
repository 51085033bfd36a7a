"""The visual servo: single commands, and loops with a robot that turns and drives."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import replace

import numpy as np
import pytest

from edgetpu_control.velocity import STANDSTILL, Velocity
from edgetpu_control.velocity_limits import VelocityLimits
from edgetpu_control.visual_servo import ServoGains, Target, VisualServo

LIMITS = VelocityLimits(linear=0.5, angular=1.5, linear_acceleration=2.0, angular_acceleration=6.0)
GAINS = ServoGains(turn=2.0, approach=0.5, wanted_size=0.4)
SUDDEN = VelocityLimits(10.0, 10.0, 1e6, 1e6)
TIMEOUT = 0.25


def commanded(target: Target, gains: ServoGains = GAINS) -> Velocity | None:
    """The velocity that a target leads to where nothing limits it."""
    servo = VisualServo(gains, SUDDEN, TIMEOUT)
    servo.command(0.9)
    servo.measure(target, 1.0)
    return servo.command(1.0)


class TestACommand:
    def test_turns_towards_the_target(self) -> None:
        assert commanded(Target(bearing=0.5)) == Velocity(0.0, -1.0)

    def test_leaves_a_small_bearing_as_it_is(self) -> None:
        assert commanded(Target(bearing=0.009)) == STANDSTILL

    def test_drives_by_the_logarithm_of_the_size(self) -> None:
        assert commanded(Target(0.0, size=0.4 / math.e)) == Velocity(pytest.approx(0.5), 0.0)

    def test_drives_back_from_a_target_that_is_too_large(self) -> None:
        assert commanded(Target(0.0, size=0.4 * math.e)) == Velocity(pytest.approx(-0.5), 0.0)

    def test_leaves_a_small_error_of_the_size_as_it_is(self) -> None:
        assert commanded(Target(0.0, size=0.39)) == STANDSTILL

    def test_drives_as_fast_as_it_may_to_a_target_of_the_least_size(self) -> None:
        assert commanded(Target(0.0, size=5e-324)) == Velocity(10.0)

    @pytest.mark.parametrize("size", [math.nan, 0.0, -1.0, math.inf])
    def test_does_not_drive_without_a_size(self, size: float) -> None:
        assert commanded(Target(0.0, size)) == STANDSTILL

    def test_does_not_drive_where_no_size_is_wanted(self) -> None:
        assert commanded(Target(0.0, 0.1), replace(GAINS, wanted_size=0.0)) == STANDSTILL

    def test_turns_first_to_a_target_far_aside(self) -> None:
        assert commanded(Target(0.4, 0.1)) == Velocity(0.0, -0.8)

    def test_is_none_before_the_first_target(self) -> None:
        assert VisualServo(GAINS, LIMITS, TIMEOUT).command(1.0) is None

    @pytest.mark.parametrize("bearing", [math.nan, math.inf, 3.2, -1e308])
    def test_ignores_what_is_no_bearing(self, bearing: float) -> None:
        assert commanded(Target(bearing)) is None

    def test_takes_off_what_was_turned_since_the_image(self) -> None:
        servo = VisualServo(GAINS, SUDDEN, 1.0)
        servo.command(0.9)
        servo.measure(Target(0.5), 1.0)
        assert servo.command(1.0) == Velocity(0.0, -1.0)
        # 0.25 s at -1 rad/s: the target is 0.25 rad nearer to the middle than in the image.
        assert servo.command(1.25) == Velocity(0.0, -0.5)


class TestASearch:
    GAINS = replace(GAINS, search_speed=0.6)

    def servo(self) -> VisualServo:
        """One that has looked for a target at 1.0 s."""
        servo = VisualServo(self.GAINS, SUDDEN, TIMEOUT)
        servo.command(0.9)
        servo.look(1.0)
        return servo

    def test_turns_to_the_left_at_first(self) -> None:
        assert self.servo().command(1.0) == Velocity(0.0, 0.6)

    def test_ends_at_a_target(self) -> None:
        servo = self.servo()
        servo.measure(Target(0.0), 1.0)
        assert servo.command(1.0) == STANDSTILL

    @pytest.mark.parametrize(("bearing", "turn"), [(0.3, -0.6), (-0.3, 0.6)])
    def test_turns_to_where_the_target_was_lost(self, bearing: float, turn: float) -> None:
        servo = self.servo()
        servo.measure(Target(bearing), 1.0)
        servo.look(1.5)
        assert servo.command(1.5) == Velocity(0.0, turn)

    def test_stops_when_no_images_come(self) -> None:
        servo = self.servo()
        servo.command(1.0)
        assert servo.command(1.0 + TIMEOUT + 0.01) == STANDSTILL
        assert servo.command(1.0 + TIMEOUT + 0.02) is None

    def test_is_off_unless_asked_for(self) -> None:
        servo = VisualServo(GAINS, SUDDEN, TIMEOUT)
        servo.look(1.0)
        assert servo.command(1.0) is None


class TestWithoutMeasurements:
    def test_it_brakes_and_then_falls_silent(self) -> None:
        servo = VisualServo(GAINS, LIMITS, TIMEOUT)
        servo.command(0.0)
        commands = []
        for tick in range(1, 30):
            now = tick / 20
            if now <= 0.5:
                servo.measure(Target(0.0, 0.1), now)
            commands.append(servo.command(now))
        moving = [tick for tick, velocity in enumerate(commands, 1) if velocity and velocity.linear > 0]
        assert moving[-1] / 20 <= 0.5 + TIMEOUT + 0.5 / LIMITS.linear_acceleration
        assert commands[moving[-1]] == STANDSTILL
        assert commands[moving[-1] + 1 :] == [None] * (len(commands) - moving[-1] - 1)

    def test_a_clock_that_is_set_back_ends_the_pursuit(self) -> None:
        servo = VisualServo(GAINS, SUDDEN, TIMEOUT)
        servo.command(99.9)
        servo.measure(Target(0.5), 100.0)
        assert servo.command(100.0) == Velocity(0.0, -1.0)
        servo.command(5.0)
        assert servo.command(5.1) == STANDSTILL
        assert servo.command(5.2) is None
        servo.measure(Target(0.5), 5.2)
        assert servo.command(5.2) is not None


class Robot:
    """Turns and drives as commanded after a lag; its camera's results arrive after a delay."""

    def __init__(self, x: float, y: float, heading: float, lag: float = 0.1) -> None:
        self.x, self.y, self.heading, self.lag = x, y, heading, lag
        self.velocity = STANDSTILL

    def move(self, wanted: Velocity, seconds: float) -> None:
        share = 1 - math.exp(-seconds / self.lag)
        linear = self.velocity.linear + share * (wanted.linear - self.velocity.linear)
        angular = self.velocity.angular + share * (wanted.angular - self.velocity.angular)
        self.velocity = Velocity(linear, angular)
        self.heading += angular * seconds
        self.x += linear * math.cos(self.heading) * seconds
        self.y += linear * math.sin(self.heading) * seconds

    def sees(self, width: float) -> Target:
        """The target at the origin, of this width, m, through a camera of 90 degrees."""
        distance = math.hypot(self.x, self.y)
        direction = math.atan2(-self.y, -self.x) - self.heading
        bearing = -math.remainder(direction, 2 * math.pi)
        return Target(bearing, width / (2 * distance))


def pursue(robot: Robot, gains: ServoGains, seconds: float, delay: float, noise: float = 0.0) -> list[float]:
    """Let the robot pursue a target of 0.2 m; the bearings during the last second."""
    random = np.random.default_rng(16)
    servo = VisualServo(gains, LIMITS, TIMEOUT)
    on_the_way: deque[tuple[float, Target]] = deque()
    bearings = []
    step, period = 0.005, 7
    for tick in range(round(seconds / step)):
        now = 1.0 + tick * step
        if tick % period == 0:
            seen = robot.sees(0.2)
            on_the_way.append((now, replace(seen, bearing=seen.bearing + noise * random.standard_normal())))
            while on_the_way and on_the_way[0][0] <= now - delay:
                stamp, target = on_the_way.popleft()
                servo.measure(target, stamp)
            wanted = servo.command(now) or STANDSTILL
        robot.move(wanted, step)
        if now > seconds:
            bearings.append(robot.sees(0.2).bearing)
    return bearings


class TestALoop:
    def test_reaches_the_target_and_stops_where_it_looks_as_large_as_wanted(self) -> None:
        robot = Robot(-3.0, 1.0, 0.8)
        pursue(robot, GAINS, 20.0, delay=0.1)
        # The size is wanted within 5 %, and so is the distance: 0.2 m / (2 * 0.4).
        assert math.hypot(robot.x, robot.y) == pytest.approx(0.25, rel=0.08)
        assert abs(robot.sees(0.2).bearing) < 0.02

    @pytest.mark.parametrize("delay", [0.0, 0.05, 0.1, 0.2])
    def test_does_not_swing_whatever_the_delay_of_the_images(self, delay: float) -> None:
        bearings = pursue(Robot(-3.0, 0.0, 0.7), replace(GAINS, turn=4.0, wanted_size=0.0), 6.0, delay)
        assert max(map(abs, bearings)) < 0.02

    def test_follows_a_target_that_moves_evenly_without_lagging_behind(self) -> None:
        servo = VisualServo(GAINS, LIMITS, TIMEOUT)
        heading = 0.0
        for tick in range(600):
            now = 1.0 + tick / 30
            bearing = heading - 0.3 * now  # to the left, at 0.3 rad/s
            servo.measure(Target(bearing), now)
            velocity = servo.command(now)
            assert velocity is not None
            heading += velocity.angular / 30
        assert abs(bearing) < 0.015

    def test_follows_noisy_bearings_within_their_noise(self) -> None:
        gains = replace(GAINS, wanted_size=0.0)
        bearings = pursue(Robot(-3.0, 0.0, 0.7), gains, 20.0, delay=0.1, noise=0.02)
        assert np.std(bearings) < 0.02
