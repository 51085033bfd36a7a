"""The contact guard: what limits the speed, and robots that drive at walls."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from edgetpu_control.contact_guard import ContactGuard, GuardSettings, Restriction
from edgetpu_control.distance_filter import Contact
from edgetpu_control.velocity import STANDSTILL, Velocity
from edgetpu_control.velocity_limits import Deadband, VelocityLimits
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


def see_free_way(guard: ContactGuard, now: float) -> None:
    """Measure an image of a free way, at a drive at 0.5 m/s that began 0.5 s ago."""
    guard.drive(Velocity(0.5), now - 0.5)
    guard.measure(FREE, now, now)


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
        see_free_way(guard, 1.0)
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

    def test_may_be_a_creep_at_a_known_distance(self) -> None:
        guard = guard_at_a_metre()
        guard.ask(Velocity(0.01), 1.0)
        assert guard.command(1.0) == Velocity(0.01)

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
        see_free_way(guard, 0.9)
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
        assert guard.command(3.1) == Velocity(guard.unmeasured_speed, 0.25)

    def test_goes_on_when_it_is_released(self, guard: ContactGuard) -> None:
        guard.release()
        assert guard.command(2.1) == Velocity(guard.unmeasured_speed, 0.25)

    def test_is_held_by_what_comes_nearer(self) -> None:
        guard = ContactGuard(SETTINGS, LIMITS, TIMEOUT)
        guard.measure(Contact(0.8, 0.05, approaching=True), 1.0, 1.0)
        guard.ask(AHEAD, 1.0)
        assert guard.command(1.0) == Velocity(0.0, 0.25)
        assert guard.restriction is Restriction.APPROACHED

    def test_does_not_take_a_wall_that_recedes_for_a_free_way(self, guard: ContactGuard) -> None:
        guard.drive(Velocity(0.5), 2.0)  # of wheels that slip
        guard.measure(Contact(-0.5, 0.01, approaching=False), 2.5, 2.5)
        assert guard.command(2.5) == Velocity(0.0, 0.25)
        assert guard.restriction is Restriction.DISTANCE

    def test_is_not_held_by_what_is_slow_to_come_nearer(self) -> None:
        guard = ContactGuard(SETTINGS, LIMITS, TIMEOUT)
        guard.measure(Contact(0.4, 0.05, approaching=True), 1.0, 1.0)
        guard.ask(AHEAD, 1.0)
        assert guard.command(1.0) == Velocity(guard.unmeasured_speed, 0.25)


class TestARobotThatDoesNotKnowWhatIsAhead:
    @staticmethod
    def speed(guard: ContactGuard, now: float = 1.0) -> float:
        """The forward speed, where 20 m/s are asked for."""
        guard.ask(Velocity(20.0), now)
        velocity = guard.command(now)
        assert velocity is not None
        return velocity.linear

    def test_drives_no_faster_than_it_stops_within_the_gap_when_it_knows(self) -> None:
        guard = ContactGuard(SETTINGS, LIMITS, TIMEOUT)
        guard.measure(FREE, 1.0, 1.0)
        # 0.2 s to measure, twice 0.1 s to react, and v^2 / (2 * 0.5 m/s^2).
        assert 0.4 * self.speed(guard) + self.speed(guard) ** 2 == pytest.approx(0.3)
        assert guard.restriction is Restriction.UNMEASURED

    def test_is_slower_where_images_arrive_late(self) -> None:
        guard = ContactGuard(SETTINGS, LIMITS, TIMEOUT)
        guard.measure(FREE, 0.9, 1.0)
        assert 0.5 * self.speed(guard) + self.speed(guard) ** 2 == pytest.approx(0.3)

    def test_may_drive_as_fast_as_a_robot_without_results(self) -> None:
        guard = ContactGuard(replace(SETTINGS, blind_speed=1.0), LIMITS, TIMEOUT)
        guard.measure(FREE, 1.0, 1.0)
        assert self.speed(guard) == 1.0

    def test_drives_where_no_gap_is_kept(self) -> None:
        guard = ContactGuard(replace(SETTINGS, gap=0.0), LIMITS, TIMEOUT)
        guard.measure(FREE, 1.0, 1.0)
        assert self.speed(guard) == 0.1

    @pytest.mark.parametrize(
        ("blind", "asked", "given"), [(0.0, 0.04, 0.0), (0.0, 0.05, 0.05), (0.1, 0.04, 0.04)]
    )
    def test_does_not_creep_at_a_speed_at_which_it_learns_nothing(
        self, blind: float, asked: float, given: float
    ) -> None:
        guard = ContactGuard(replace(SETTINGS, blind_speed=blind), LIMITS, TIMEOUT)
        guard.measure(FREE, 1.0, 1.0)
        guard.ask(Velocity(asked), 1.0)
        assert guard.command(1.0) == Velocity(given)
        assert guard.restriction is (Restriction.NONE if given else Restriction.UNMEASURED)

    def test_drives_as_fast_as_it_stops_within_what_an_image_shows_to_be_free(self) -> None:
        guard = ContactGuard(replace(SETTINGS, camera_to_hull=0.1), LIMITS, TIMEOUT)
        guard.drive(Velocity(0.5), 0.0)
        guard.measure(Contact(0.1, 0.02, approaching=False), 1.0, 1.0)
        free = (0.5 - 3 * math.hypot(0.05 * 0.5, 0.02)) / (0.1 + 3 * 0.02) - 0.3 - 0.1
        assert 0.1 * self.speed(guard) + self.speed(guard) ** 2 == pytest.approx(free)

    def test_is_one_that_has_turned_since_then(self) -> None:
        guard = ContactGuard(SETTINGS, LIMITS, 100.0)
        see_free_way(guard, 1.0)
        guard.drive(Velocity(0.0, 1.0), 1.0)
        assert self.speed(guard, 1.4) > guard.unmeasured_speed
        assert self.speed(guard, 1.6) == guard.unmeasured_speed

    def test_is_one_that_measured_nothing_for_a_second(self) -> None:
        guard = ContactGuard(SETTINGS, LIMITS, 100.0)
        see_free_way(guard, 1.0)
        guard.drive(STANDSTILL, 1.0)
        assert self.speed(guard, 1.9) > guard.unmeasured_speed
        assert self.speed(guard, 2.1) == guard.unmeasured_speed

    def test_is_not_one_that_has_become_slower(self) -> None:
        guard = ContactGuard(SETTINGS, LIMITS, TIMEOUT)
        for tick in range(100):
            guard.drive(Velocity(1.0 if tick < 30 else 0.5), tick / 10)
            guard.measure(FREE, tick / 10, tick / 10)
            assert tick < 10 or self.speed(guard, tick / 10) > 2.0

    def test_is_one_whose_clock_was_set(self) -> None:
        guard = ContactGuard(SETTINGS, LIMITS, 100.0)
        see_free_way(guard, 1000.0)
        assert self.speed(guard, 1000.0) > guard.unmeasured_speed
        guard.command(1.0)
        guard.drive(STANDSTILL, 1.0)
        guard.measure(FREE, 1.1, 1.1)
        assert self.speed(guard, 1.1) == guard.unmeasured_speed


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


def test_a_robot_without_odometry_drives_as_commanded_after_its_reaction_time() -> None:
    guard = ContactGuard(replace(SETTINGS, reaction_time=0.5), LIMITS, TIMEOUT)
    guard.follow(Velocity(0.5), 1.0)
    see(guard, 1.0, 1.25)
    assert math.isinf(guard.distance.distance)  # it stood when that image was taken
    see(guard, 1.0, 2.25)
    assert guard.distance.distance == 0.5


def test_a_robot_commanded_to_stand_may_still_roll_as_far_as_it_needs_to_brake() -> None:
    guard = ContactGuard(replace(SETTINGS, reaction_time=0.2), LIMITS, TIMEOUT)
    for tick in range(20):
        guard.follow(Velocity(1.0), tick / 10)
    see(guard, 0.25, 1.9)
    known = guard.distance.distance, guard.distance.sigma
    for tick in range(20, 31):
        guard.follow(STANDSTILL, tick / 10)
        guard.command(tick / 10)
    # 0.1 m before it is commanded to stand; then between none, and 0.2 m + 0.62 m in 0.8 s of braking.
    assert known[0] - guard.distance.distance == pytest.approx(0.1 + (0.2 + 0.62) / 2)
    assert guard.distance.sigma > 1.2 * known[1]


def test_a_robot_whose_odometry_has_ended_does_not_drive_on() -> None:
    guard = ContactGuard(SETTINGS, LIMITS, TIMEOUT, odometry=True)
    see_free_way(guard, 1.0)
    guard.drive(STANDSTILL, 1.0)
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
        see_free_way(guard, 1.0)
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


class TestResultsThatDoNotFit:
    def test_of_one_image_do_not_stop_the_robot(self) -> None:
        guard = ContactGuard(SETTINGS, LIMITS, 100.0)
        guard.drive(Velocity(0.5), 0.0)
        see(guard, 0.2, 1.0)
        guard.measure(Contact(4.0, 0.1, approaching=True), 1.1, 1.1)
        guard.ask(Velocity(0.5), 1.1)
        assert guard.command(1.1) == Velocity(0.5)

    def test_of_one_image_do_not_stop_it_on_a_free_way(self) -> None:
        guard = ContactGuard(SETTINGS, LIMITS, 100.0)
        see_free_way(guard, 0.9)
        guard.measure(Contact(4.0, 0.1, approaching=True), 1.0, 1.0)
        guard.ask(Velocity(0.5), 1.1)
        assert guard.command(1.1) == Velocity(0.5)

    def test_of_two_images_that_agree_do(self) -> None:
        guard = ContactGuard(SETTINGS, LIMITS, 100.0)
        guard.drive(Velocity(0.5), 0.0)
        for stamp, rate in ((1.0, 0.2), (1.1, 2.0), (1.2, 2.1)):
            guard.measure(Contact(rate, 0.1, approaching=True), stamp, stamp)
        guard.ask(Velocity(0.5), 1.2)
        assert guard.command(1.2) == STANDSTILL

    def test_of_a_way_that_has_become_free_count(self) -> None:
        guard = guard_at_a_metre(replace(SETTINGS, gap=0.8))
        assert guard.distance.distance == 1.0
        guard.drive(Velocity(0.2), 1.0)
        guard.measure(FREE, 1.5, 1.5)
        assert math.isinf(guard.distance.distance)
