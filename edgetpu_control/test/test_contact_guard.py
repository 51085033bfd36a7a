"""The contact guard: what limits the speed, and robots that drive at walls."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, replace

import numpy as np
import pytest

from edgetpu_control.contact_guard import ContactGuard, GuardSettings, Restriction
from edgetpu_control.distance_filter import Contact
from edgetpu_control.velocity import STANDSTILL, Deadband, Velocity, VelocityLimits
from edgetpu_driver.errors import InputError

SETTINGS = GuardSettings(gap=0.3, deceleration=0.5, reaction_time=0.1, sigmas=0.0)
LIMITS = VelocityLimits(20.0, 20.0, 1e4, 1e4)
TIMEOUT = 0.25
FREE = Contact(0.0, 0.01, approaching=False)
AHEAD = Velocity(0.5, 0.25)


def see(guard: ContactGuard, rate: float, now: float) -> None:
    """Measure an approach twice, at last now: one alone may be a runaway."""
    for stamp in (now - 0.03, now):
        guard.measure(Contact(rate, 0.005, approaching=True), stamp, stamp)


def guard_at_a_metre(settings: GuardSettings = SETTINGS) -> ContactGuard:
    """One of a robot that drives at 0.5 m/s and saw a wall at a distance of 1 m, at the time 1 s."""
    guard = ContactGuard(settings, LIMITS, TIMEOUT)
    guard.drive(Velocity(0.5), 0.0)
    see(guard, 0.5, 1.0)
    guard.ask(AHEAD, 1.0)
    return guard


class TestTheSpeed:
    def test_is_as_asked_where_the_way_is_free(self) -> None:
        guard = ContactGuard(SETTINGS, LIMITS, TIMEOUT)
        guard.measure(FREE, 1.0, 1.0)
        guard.ask(AHEAD, 1.0)
        assert guard.command(1.0) == AHEAD
        assert guard.restriction is Restriction.NONE

    def test_lets_the_robot_brake_within_the_free_way(self) -> None:
        guard = guard_at_a_metre(replace(SETTINGS, gap=0.75))
        velocity = guard.command(1.0)
        assert velocity is not None
        # The free way is 0.25 m: v * 0.1 s + v^2 / (2 * 0.5 m/s^2).
        assert velocity.linear * 0.1 + velocity.linear**2 == pytest.approx(0.25)
        assert velocity.angular == 0.25
        assert guard.restriction is Restriction.DISTANCE

    def test_counts_from_the_hull(self) -> None:
        guard = guard_at_a_metre(replace(SETTINGS, gap=0.5, camera_to_hull=0.5))
        assert guard.command(1.0) == Velocity(0.0, 0.25)

    def test_is_less_by_the_uncertainty_of_the_distance(self) -> None:
        certain, cautious = (guard_at_a_metre(replace(SETTINGS, gap=0.8, sigmas=each)) for each in (0.0, 2.0))
        speeds = [guard.command(1.0) for guard in (certain, cautious)]
        assert speeds[0] is not None
        assert speeds[1] is not None
        assert speeds[1].linear < speeds[0].linear

    def test_becomes_less_while_the_robot_drives_without_new_images(self) -> None:
        guard = guard_at_a_metre()
        guard.timeout = 10.0
        guard.ask(AHEAD, 2.5)
        assert guard.command(2.5) == Velocity(0.0, 0.25)

    @pytest.mark.parametrize("asked", [Velocity(-0.5, 0.0), Velocity(0.0, 1.0)])
    def test_backwards_and_turning_are_never_limited(self, asked: Velocity) -> None:
        guard = guard_at_a_metre(replace(SETTINGS, gap=5.0))
        guard.ask(asked, 1.0)
        assert guard.command(1.0) == asked

    def test_is_that_of_a_blind_robot_without_results(self) -> None:
        guard = ContactGuard(replace(SETTINGS, blind_speed=0.1), LIMITS, TIMEOUT)
        guard.measure(FREE, 1.0, 1.0)
        guard.ask(AHEAD, 1.3)
        assert guard.command(1.3) == Velocity(0.1, 0.25)
        assert guard.restriction is Restriction.BLIND

    def test_is_not_given_before_somebody_asks(self) -> None:
        assert ContactGuard(SETTINGS, LIMITS, TIMEOUT).command(1.0) is None

    def test_is_given_once_as_0_when_nobody_asks_any_more(self) -> None:
        guard = ContactGuard(SETTINGS, LIMITS, TIMEOUT)
        guard.ask(AHEAD, 1.0)
        assert guard.command(1.0) is not None
        assert guard.command(1.3) == STANDSTILL
        assert guard.command(1.4) is None

    def test_rises_no_faster_than_the_limits_and_falls_at_once(self) -> None:
        guard = ContactGuard(SETTINGS, VelocityLimits(0.4, 9.0, 2.0, 9.0), TIMEOUT)
        given = []
        for now, asked in ((1.0, 0.0), (1.1, 1.0), (1.2, 1.0), (1.3, 1.0), (1.4, 0.1), (1.5, -1.0)):
            guard.measure(FREE, now, now)
            guard.ask(Velocity(asked), now)
            given.append(guard.command(now))
        speeds = [each.linear for each in given if each is not None]
        assert speeds == pytest.approx([0.0, 0.2, 0.4, 0.4, 0.1, -0.2])

    def test_is_0_within_the_deadband(self) -> None:
        guard = ContactGuard(SETTINGS, LIMITS, TIMEOUT)
        guard.deadband = Deadband(0.05, 0.1)
        guard.measure(FREE, 1.0, 1.0)
        guard.ask(Velocity(0.04, 0.2), 1.0)
        assert guard.command(1.0) == Velocity(0.0, 0.2)
        guard.ask(Velocity(0.06, -0.09), 1.1)
        assert guard.command(1.1) == Velocity(0.06, 0.0)


class TestAStoppedRobot:
    @pytest.fixture
    def guard(self) -> ContactGuard:
        """One of a robot that stands 0.3 m before a wall, at the time 2 s."""
        guard = ContactGuard(SETTINGS, LIMITS, 100.0)
        guard.drive(Velocity(0.5), 0.0)
        see(guard, 0.5 / 0.3, 1.0)
        guard.drive(STANDSTILL, 1.0)
        guard.ask(AHEAD, 2.0)
        assert guard.command(2.0) == Velocity(0.0, 0.25)
        return guard

    def test_stays_while_nothing_grows_in_its_images(self, guard: ContactGuard) -> None:
        for tick in range(100):
            guard.measure(FREE, 2.0 + tick / 10, 2.0 + tick / 10)
        guard.ask(AHEAD, 12.0)
        assert guard.command(12.0) == Velocity(0.0, 0.25)

    def test_goes_on_after_it_has_driven_back_by_more_than_the_hysteresis(self, guard: ContactGuard) -> None:
        guard.drive(Velocity(-0.1), 2.0)
        guard.ask(AHEAD, 2.75)
        assert guard.command(2.75) == Velocity(0.0, 0.25)
        guard.ask(AHEAD, 3.25)
        velocity = guard.command(3.25)
        assert velocity is not None
        assert velocity.linear > 0.05

    def test_goes_on_after_it_has_turned_away(self, guard: ContactGuard) -> None:
        guard.drive(Velocity(0.0, 0.5), 2.0)
        guard.ask(AHEAD, 2.9)
        assert guard.command(2.9) == Velocity(0.0, 0.25)
        guard.ask(AHEAD, 3.1)
        assert guard.command(3.1) == AHEAD

    def test_goes_on_when_it_is_released(self, guard: ContactGuard) -> None:
        guard.release()
        assert guard.command(2.1) == AHEAD

    def test_is_held_by_what_comes_nearer(self) -> None:
        guard = ContactGuard(SETTINGS, LIMITS, TIMEOUT)
        guard.measure(Contact(0.8, 0.05, approaching=True), 1.0, 1.0)
        guard.ask(AHEAD, 1.0)
        assert guard.command(1.0) == Velocity(0.0, 0.25)
        assert guard.restriction is Restriction.APPROACHED

    def test_is_not_held_by_what_is_slow_to_come_nearer(self) -> None:
        guard = ContactGuard(SETTINGS, LIMITS, TIMEOUT)
        guard.measure(Contact(0.4, 0.05, approaching=True), 1.0, 1.0)
        guard.ask(AHEAD, 1.0)
        assert guard.command(1.0) == AHEAD


@pytest.mark.parametrize(
    ("rate", "sigma"), [(math.nan, 0.1), (0.5, math.nan), (0.5, -0.1), (0.0, 0.1), (-0.5, 0.1)]
)
def test_a_contact_that_cannot_be_leaves_the_robot_blind(rate: float, sigma: float) -> None:
    guard = ContactGuard(SETTINGS, LIMITS, TIMEOUT)
    guard.drive(Velocity(0.5), 0.0)
    guard.measure(Contact(rate, sigma, approaching=True), 1.0, 1.0)
    guard.ask(AHEAD, 1.0)
    assert guard.command(1.0) == Velocity(0.0, 0.25)
    assert guard.restriction is Restriction.BLIND


def test_a_robot_without_odometry_drives_as_told_after_its_reaction_time() -> None:
    guard = ContactGuard(replace(SETTINGS, reaction_time=0.5), LIMITS, TIMEOUT)
    guard.follow(Velocity(0.5), 1.0)
    see(guard, 1.0, 1.25)
    assert math.isinf(guard.distance.distance)  # it stood when that image was taken
    see(guard, 1.0, 2.25)
    assert guard.distance.distance == 0.5


def test_a_robot_told_to_stand_may_still_roll_as_far_as_it_needs_to_brake() -> None:
    guard = ContactGuard(replace(SETTINGS, reaction_time=0.2), LIMITS, TIMEOUT)
    for tick in range(20):
        guard.follow(Velocity(1.0), tick / 10)
    see(guard, 0.25, 1.9)
    known = guard.distance.distance, guard.distance.sigma
    for tick in range(20, 31):
        guard.follow(STANDSTILL, tick / 10)
        guard.command(tick / 10)
    # 0.1 m before it is told to stand; then between none, and 0.2 m + 0.62 m in 0.8 s of braking.
    assert known[0] - guard.distance.distance == pytest.approx(0.1 + (0.2 + 0.62) / 2)
    assert guard.distance.sigma > 1.2 * known[1]


def test_a_robot_whose_odometry_has_ended_does_not_drive_on() -> None:
    guard = ContactGuard(SETTINGS, LIMITS, TIMEOUT, odometry=True)
    guard.drive(Velocity(0.0), 1.0)
    for now, linear, restriction in ((1.2, 0.5, Restriction.NONE), (1.3, 0.0, Restriction.NO_ODOMETRY)):
        guard.measure(FREE, now, now)
        guard.ask(AHEAD, now)
        assert guard.command(now) == Velocity(linear, 0.25)
        assert guard.restriction is restriction


def test_odometry_of_before_the_clock_was_set_back_does_not_count() -> None:
    guard = ContactGuard(SETTINGS, LIMITS, TIMEOUT, odometry=True)
    guard.drive(STANDSTILL, 5.0)
    guard.command(5.0)
    guard.ask(AHEAD, 1.0)
    guard.measure(FREE, 1.0, 1.0)
    guard.command(1.0)
    assert guard.restriction is Restriction.NO_ODOMETRY


class TestDetections:
    @pytest.fixture
    def guard(self) -> ContactGuard:
        guard = ContactGuard(
            replace(SETTINGS, slow_size=0.4, stop_size=0.8), LIMITS, TIMEOUT, detections=True
        )
        guard.measure(FREE, 1.0, 1.0)
        guard.ask(Velocity(0.5), 1.0)
        return guard

    @pytest.mark.parametrize(
        ("height", "speed"), [(0.0, 0.5), (0.4, 0.5), (0.6, 0.25), (0.8, 0.0), (1.0, 0.0)]
    )
    def test_slow_the_robot_by_their_height(self, guard: ContactGuard, height: float, speed: float) -> None:
        guard.detect(height, 1.0, 1.0)
        assert guard.command(1.0) == Velocity(pytest.approx(speed))

    @pytest.mark.parametrize(("height", "stands"), [(0.73, True), (0.71, False)])
    def test_let_a_stopped_robot_go_on_when_they_are_smaller_by_a_tenth(
        self, guard: ContactGuard, height: float, stands: bool
    ) -> None:
        guard.detect(0.8, 1.0, 1.0)
        guard.command(1.0)
        guard.detect(height, 1.1, 1.1)
        velocity = guard.command(1.1)
        assert velocity is not None
        assert (velocity.linear == 0) == stands

    def test_that_are_missing_leave_the_robot_blind(self, guard: ContactGuard) -> None:
        assert guard.command(1.0) == Velocity(0.0)
        assert guard.restriction is Restriction.DETECTION

    def test_without_a_height_leave_the_robot_blind(self, guard: ContactGuard) -> None:
        guard.detect(math.nan, 1.0, 1.0)
        assert guard.command(1.0) == Velocity(0.0)
        assert guard.restriction is Restriction.DETECTION

    def test_of_sizes_in_the_wrong_order_are_refused(self) -> None:
        with pytest.raises(InputError, match=r"expected 0 < slow_size < stop_size; got 0\.8 and 0\.5"):
            GuardSettings(slow_size=0.8, stop_size=0.5)


@dataclass(frozen=True)
class Robot:
    """Of a drive at a wall."""

    lag: float = 0.1
    """s from a command to the reaction."""
    braking: float = 0.5
    """m/s^2."""
    noise: float = 1.0
    """Of times to contact, relative to looming's."""
    window: float = 0.0
    """s over which a growth is measured."""
    odometry: bool = False


STEP = 0.01
"""s."""
SEEDS = 4
"""Drives of each kind; gaps of 100 of a kind have a standard deviation of at most 0.007 m."""


def drive_at_a_wall(speed: float, robot: Robot, seed: int, gap: float = 0.3, distance: float = 4.0) -> float:
    """Let a robot drive at a wall until it stands; the way that is left, m.

    Results come at 30 Hz, 0.1 s after their image, with an error of 3 % and none that claims an approach
    below 0.15/s.
    """
    random = np.random.default_rng(seed)
    settings = GuardSettings(gap=gap, deceleration=0.5, reaction_time=0.2, sigmas=1.0)
    guard = ContactGuard(settings, VelocityLimits(2.0, 9.0, 2.0, 9.0), TIMEOUT, odometry=robot.odometry)
    on_the_way: deque[tuple[float, Contact]] = deque()
    commands = deque([0.0] * round(robot.lag / STEP))
    speeds = deque([0.0], max(1, round(robot.window / STEP)))
    velocity = 0.0
    for tick in range(6000):
        now = 1.0 + tick * STEP
        if tick % 3 == 0:
            if robot.odometry:
                guard.drive(Velocity(velocity), now)
            on_the_way.append((now, _growth(float(np.mean(speeds)) / distance, robot.noise, random)))
            while on_the_way[0][0] < now - 0.1:
                stamp, contact = on_the_way.popleft()
                guard.measure(contact, stamp, now)
            guard.ask(Velocity(speed), now)
            command = guard.command(now)
            assert command is not None
            if not robot.odometry:
                guard.follow(command, now)
        commands.append(command.linear)
        velocity += max(-robot.braking * STEP, min(2.0 * STEP, commands.popleft() - velocity))
        speeds.append(velocity)
        distance -= velocity * STEP
        if tick > 300 and velocity <= 0 and command.linear == 0:
            break
    return distance


def _growth(rate: float, noise: float, random: np.random.Generator) -> Contact:
    sigma = noise * (0.03 * rate + 0.01)
    seen = rate + sigma * random.standard_normal()
    return Contact(seen, sigma, seen > max(0.15, 5 * sigma))


class TestDrivingAtAWall:
    @pytest.mark.parametrize("speed", [0.3, 0.6, 1.0])
    @pytest.mark.parametrize(
        "robot",
        [
            Robot(),
            Robot(lag=0.02),
            Robot(lag=0.2),
            Robot(braking=1.0),
            Robot(noise=2.0),
            Robot(window=0.2),
            Robot(odometry=True),
            Robot(odometry=True, window=0.2),
        ],
        ids=str,
    )
    def test_ends_before_it_with_the_gap(self, speed: float, robot: Robot) -> None:
        gaps = [drive_at_a_wall(speed, robot, seed) for seed in range(SEEDS)]
        assert min(gaps) > 0.2
        assert max(gaps) < 0.4

    def test_at_1_m_s_without_a_guard_would_hit_it(self) -> None:
        assert drive_at_a_wall(1.0, Robot(), 0, gap=-100.0) < 0

    def test_one_runaway_result_does_not_stop_the_robot(self) -> None:
        guard = ContactGuard(SETTINGS, LIMITS, 100.0)
        guard.drive(Velocity(0.5), 0.0)
        see(guard, 0.2, 1.0)
        guard.measure(Contact(4.0, 0.1, approaching=True), 1.1, 1.1)
        guard.ask(Velocity(0.5), 1.1)
        assert guard.command(1.1) == Velocity(0.5)

    def test_one_runaway_result_of_a_free_way_does_not_stop_it(self) -> None:
        guard = ContactGuard(SETTINGS, LIMITS, 100.0)
        guard.drive(Velocity(0.5), 0.0)
        guard.measure(Contact(4.0, 0.1, approaching=True), 1.0, 1.0)
        guard.ask(Velocity(0.5), 1.1)
        assert guard.command(1.1) == Velocity(0.5)

    def test_two_results_that_agree_do(self) -> None:
        guard = ContactGuard(SETTINGS, LIMITS, 100.0)
        guard.drive(Velocity(0.5), 0.0)
        for stamp, rate in ((1.0, 0.2), (1.1, 2.0), (1.2, 2.1)):
            guard.measure(Contact(rate, 0.1, approaching=True), stamp, stamp)
        guard.ask(Velocity(0.5), 1.2)
        assert guard.command(1.2) == STANDSTILL

    def test_a_way_that_has_become_free_is_noticed(self) -> None:
        guard = guard_at_a_metre(replace(SETTINGS, gap=0.8))
        assert guard.distance.distance == 1.0
        guard.drive(Velocity(0.2), 1.0)
        guard.measure(FREE, 1.5, 1.5)
        assert math.isinf(guard.distance.distance)
