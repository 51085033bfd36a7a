"""When the upkeep of a device is due."""

from __future__ import annotations

import pytest

from edgetpu_driver.host.sticks.device_upkeep import RESET_REST, Upkeep, UpkeepTimes

UPKEEP = Upkeep(period=5.0, retry_period=2.0, check_period=20.0, on_attempt=lambda _: None)


@pytest.fixture
def times() -> UpkeepTimes:
    times = UpkeepTimes()
    times.begin(UPKEEP, 100.0)
    return times


def test_nothing_is_due_before_a_device_is_kept_open_and_after() -> None:
    times = UpkeepTimes()
    assert (times.due(100.0), times.seconds_left(100.0)) == (None, None)
    times.begin(UPKEEP, 100.0)
    times.end()
    assert (times.due(200.0), times.seconds_left(200.0)) == (None, None)


def test_the_first_attempt_is_due_at_once(times: UpkeepTimes) -> None:
    assert (times.due(100.0), times.seconds_left(100.0)) == (UPKEEP, 0.0)


@pytest.mark.parametrize(("is_open", "period"), [(True, 5.0), (False, 2.0)])
def test_an_open_device_is_read_and_another_one_tried_after_its_period(
    times: UpkeepTimes, is_open: bool, period: float
) -> None:
    times.plan(UPKEEP, 100.0, is_open=is_open)
    assert (times.due(99.9 + period), times.seconds_left(100.5)) == (None, period - 0.5)
    assert (times.due(100.0 + period), times.seconds_left(110.0)) == (UPKEEP, 0.0)
    times.plan(UPKEEP, 110.0, is_open=is_open)
    times.hurry()
    assert times.due(110.0) == UPKEEP


def test_a_check_is_due_a_period_after_the_last_one(times: UpkeepTimes) -> None:
    assert [times.begin_check(UPKEEP, now) for now in (119.0, 120.0, 139.0, 141.0)] == [
        False, True, False, True,
    ]  # fmt: skip
    never = Upkeep(5.0, 2.0, 0.0, lambda _: None)
    times.begin(never, 100.0)
    assert not times.begin_check(never, 1000.0)


def test_a_reset_soon_after_another_waits_and_is_due_before_the_next_reading(times: UpkeepTimes) -> None:
    assert times.begin_reset(100.0)
    times.opened(100.5)
    times.plan(UPKEEP, 100.5, is_open=True)
    assert not times.begin_reset(101.0)
    assert times.reset_waits
    assert times.seconds_left(101.0) == RESET_REST - 0.5
    times.plan(UPKEEP, 101.0, is_open=True)
    assert times.seconds_left(101.0) == RESET_REST - 0.5
    assert times.begin_reset(101.5)
    assert not times.reset_waits


def test_a_device_that_is_not_kept_open_is_reset_at_once() -> None:
    times = UpkeepTimes()
    assert [times.begin_reset(now) for now in (100.0, 100.0)] == [True, True]
    times.opened(100.0)
    assert times.begin_reset(100.0)


def test_a_waiting_reset_ends_with_the_upkeep(times: UpkeepTimes) -> None:
    times.begin_reset(100.0)
    times.opened(100.0)
    assert not times.begin_reset(100.5)
    times.end()
    assert not times.reset_waits
