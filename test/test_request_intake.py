"""Requests that were taken wait in an order of their own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rclpy.clock import Clock as RosClock
from rclpy.clock import ClockType

from edgetpu_driver.node_kit.executor import request_intake
from edgetpu_driver.node_kit.executor.executor_calls import executor_calls
from edgetpu_driver.node_kit.executor.request_intake import (
    HANDLED_AT_ONCE,
    MAX_NEGLECT,
    MAX_WAIT,
    MAX_WAITING,
    REST_AFTER_URGENT,
    RequestIntake,
)
from testdata.devices.fake_timers import Clock, Timer

REAL_TIME, NORMAL, BULK = 1, 2, 3


class Guard:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback, self.triggered = callback, False

    def trigger(self) -> None:
        self.triggered = True


class Node:
    """Has guard conditions and timers, and an executor whose rounds the test makes."""

    def __init__(self) -> None:
        self.guards: list[Guard] = []
        self.timers: list[Timer] = []

    def create_timer(self, _period: float, callback: Callable[[], None], *, clock: RosClock) -> Timer:
        assert clock.clock_type is ClockType.STEADY_TIME
        self.timers.append(Timer(callback))
        return self.timers[-1]

    def create_guard_condition(self, callback: Callable[[], None]) -> Guard:
        self.guards.append(Guard(callback))
        return self.guards[-1]

    def round(self) -> bool:
        """Call what is ready, then the calls that were added; whether anything was."""
        ready = [guard for guard in self.guards if guard.triggered]
        for guard in ready:
            guard.triggered = False
            guard.callback()
        calls = executor_calls(self)
        some = bool(ready or calls)
        calls.guard.triggered = False
        calls.guard.callback()
        return some


@pytest.fixture
def node() -> Node:
    return Node()


@pytest.fixture
def intake(node: Node) -> RequestIntake:
    return RequestIntake(node)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(request_intake, "time", clock)
    return clock


def test_a_lone_request_is_handled_in_the_round_that_takes_it(node: Node, intake: RequestIntake) -> None:
    handled: list[str] = []
    intake.add(NORMAL, lambda: handled.append("one"))
    assert handled == []
    node.round()
    assert handled == ["one"]
    assert not node.round()


def test_requests_of_a_class_are_handled_as_they_came(node: Node, intake: RequestIntake) -> None:
    handled: list[int] = []
    for number in range(10):
        intake.add(NORMAL, lambda number=number: handled.append(number))
    while node.round():
        pass
    assert handled == list(range(10))


def test_a_round_handles_a_few(node: Node, intake: RequestIntake) -> None:
    handled: list[int] = []
    for number in range(10):
        intake.add(NORMAL, lambda number=number: handled.append(number))
    node.round()
    assert len(handled) == HANDLED_AT_ONCE


def test_an_urgent_request_is_handled_when_it_is_taken(node: Node, intake: RequestIntake) -> None:
    handled: list[str] = []
    intake.add(NORMAL, lambda: handled.append("normal"))
    intake.add(REAL_TIME, lambda: handled.append("real time"))
    assert handled == ["real time"]
    node.round()
    assert handled == ["real time", "normal"]


def test_a_normal_request_goes_before_long_work(node: Node, intake: RequestIntake) -> None:
    handled: list[str] = []
    for _ in range(10):
        intake.add(BULK, lambda: handled.append("bulk"))
    node.round()
    intake.add(NORMAL, lambda: handled.append("normal"))
    node.round()
    assert handled == ["bulk"] * HANDLED_AT_ONCE + ["normal"] + ["bulk"] * (HANDLED_AT_ONCE - 1)


def test_other_requests_rest_between_rounds_while_urgent_ones_come(node: Node, intake: RequestIntake) -> None:
    handled: list[int] = []
    intake.add(REAL_TIME, lambda: None)
    for number in range(2 * HANDLED_AT_ONCE):
        intake.add(NORMAL, lambda number=number: handled.append(number))
    node.round()
    (rest,) = node.timers
    assert rest.running
    assert not node.round()
    assert len(handled) == HANDLED_AT_ONCE
    rest.callback()
    assert not rest.running
    node.round()
    assert len(handled) == 2 * HANDLED_AT_ONCE


def test_nothing_rests_when_the_last_urgent_request_was_long_ago(
    node: Node, intake: RequestIntake, clock: Clock
) -> None:
    handled: list[int] = []
    intake.add(REAL_TIME, lambda: None)
    clock.now += 1.01 * REST_AFTER_URGENT
    for number in range(2 * HANDLED_AT_ONCE):
        intake.add(NORMAL, lambda number=number: handled.append(number))
    node.round()
    node.round()
    assert len(handled) == 2 * HANDLED_AT_ONCE


def test_a_class_that_waited_long_gets_one_turn(node: Node, intake: RequestIntake, clock: Clock) -> None:
    handled: list[str] = []
    for _ in range(2):
        intake.add(BULK, lambda: handled.append("bulk"))
    clock.now += 1.01 * MAX_NEGLECT
    intake.add(NORMAL, lambda: handled.append("normal"))
    while node.round():
        pass
    assert handled == ["bulk", "normal", "bulk"]


def test_requests_that_waited_very_long_are_handled_as_they_came(
    node: Node, intake: RequestIntake, clock: Clock
) -> None:
    handled: list[str] = []
    for _ in range(3):
        intake.add(BULK, lambda: handled.append("bulk"))
    clock.now += 1.01 * MAX_WAIT
    intake.add(NORMAL, lambda: handled.append("normal"))
    while node.round():
        pass
    assert handled == ["bulk"] * 3 + ["normal"]


def test_a_handler_that_raises_holds_up_no_other(node: Node, intake: RequestIntake) -> None:
    handled: list[int] = []
    for number in range(4):
        intake.add(NORMAL, lambda number=number: handled.append(number) if number else 1 // number)
    with pytest.raises(ZeroDivisionError):
        node.round()
    while node.round():
        pass
    assert handled == [1, 2, 3]


def test_no_more_wait_than_clients_may_have_in_flight(node: Node, intake: RequestIntake) -> None:
    handled: list[int] = []
    for number in range(MAX_WAITING + 50):
        intake.add(NORMAL, lambda number=number: handled.append(number))
    node.round()
    assert len(handled) == 50
