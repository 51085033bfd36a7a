"""Which of several sticks takes a request, by what they have in memory and when they are free."""

from __future__ import annotations

from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import pytest

from edgetpu_driver.backends.backend import Placement
from edgetpu_driver.host.sticks.stick_choice import Queued, best_of, may_take
from edgetpu_driver.host.sticks.stick_slot import UPLOAD_RATE, UPLOAD_SECONDS, StickSlot

UPLOAD = 0.03
"""Seconds that an upload of the model takes."""
SECONDS = 0.01
"""Expected time of one inference."""


def model(resident_on: Collection[int], placement: Placement = Placement.CACHED) -> Any:
    return SimpleNamespace(
        placement=placement,
        parameter_bytes=(UPLOAD - UPLOAD_SECONDS) * UPLOAD_RATE,
        expected=SimpleNamespace(engine=SECONDS),
        replicas={number: SimpleNamespace(resident=number in resident_on) for number in range(3)},
    )


def slots(*clocks: float | None) -> list[StickSlot]:
    """Idle sticks; with a clock, simulated ones."""
    found = []
    for number, clock in enumerate(clocks):
        slot = StickSlot(number, lambda _: None, lambda _: None, serving=True, idle=True)
        if clock is not None:
            slot.simulated_time = lambda clock=clock: clock
        found.append(slot)
    return found


def busy(slot: StickSlot, since: float) -> None:
    slot.running, slot.began, slot.idle = SimpleNamespace(model=model([])), since, False  # type: ignore[assignment]


class TestRealSticks:
    @pytest.mark.parametrize(
        ("queued", "takes"),
        [(1, False), (3, False), (4, True)],
        ids=["nothing else waits", "two wait", "they take longer than an upload"],
    )
    def test_a_stick_leaves_a_request_to_a_busy_one_that_has_the_parameters(
        self, queued: int, takes: bool
    ) -> None:
        first, second = slots(None, None)
        busy(first, since=9.999)
        needed = model([0])
        assert may_take(second, needed, [first, second], Queued(queued, 10.0)) is takes

    @pytest.mark.parametrize(
        ("resident_on", "placement"),
        [([], Placement.CACHED), ([0, 1], Placement.CACHED), ([], Placement.STREAMED)],
        ids=["none has them", "both have them", "there is nothing to upload"],
    )
    def test_otherwise_it_takes_it(self, resident_on: list[int], placement: Placement) -> None:
        first, second = slots(None, None)
        busy(first, since=9.999)
        assert may_take(second, model(resident_on, placement), [first, second], Queued(1, 10.0))

    def test_a_stick_that_does_not_get_on_is_not_waited_for(self) -> None:
        first, second = slots(None, None)
        busy(first, since=9.0)
        assert may_take(second, model([0]), [first, second], Queued(1, 10.0))

    def test_of_idle_ones_the_one_that_has_the_parameters_runs_it(self) -> None:
        idle = slots(None, None, None)
        assert best_of(idle, model([2])).number == 2


class TestHotSticks:
    @pytest.mark.parametrize(("queued", "takes"), [(1, False), (2, True)])
    def test_one_leaves_as_many_requests_as_there_are_cool_ones(self, queued: int, takes: bool) -> None:
        cool, hot, other = slots(None, None, None)
        hot.throttled = other.throttled = True
        for slot in (cool, other):
            busy(slot, since=9.999)
        assert may_take(hot, model([]), [cool, hot, other], Queued(queued, 10.0)) is takes

    def test_one_does_not_count_a_cool_one_that_does_not_get_on(self) -> None:
        cool, hot, stuck = slots(None, None, None)
        hot.throttled = True
        busy(cool, since=9.999)
        busy(stuck, since=9.0)
        assert may_take(hot, model([]), [cool, hot, stuck], Queued(2, 10.0))


class TestSimulatedSticks:
    @pytest.mark.parametrize(("clock", "chosen"), [(0.9 * UPLOAD, 1), (1.1 * UPLOAD, 0)])
    def test_the_one_that_is_done_first_takes_it(self, clock: float, chosen: int) -> None:
        both = slots(0.0, clock)
        needed = model([1])
        assert best_of(both, needed).number == chosen
        assert [may_take(slot, needed, both, Queued(1, 10.0)) for slot in both] == [chosen == 0, chosen == 1]
