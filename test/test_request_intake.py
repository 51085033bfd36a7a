"""Requests that were taken wait in an order of their own."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from edgetpu_driver.node_kit import request_intake
from edgetpu_driver.node_kit.executor_calls import executor_calls
from edgetpu_driver.node_kit.request_intake import HANDLED_AT_ONCE, MAX_NEGLECT, MAX_WAITING, RequestIntake

REAL_TIME, NORMAL = 1, 2


class Guard:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback, self.triggered = callback, False

    def trigger(self) -> None:
        self.triggered = True


class Node:
    """Has guard conditions, and an executor whose rounds the test makes."""

    def __init__(self) -> None:
        self.guards: list[Guard] = []

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


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def node() -> Node:
    return Node()


@pytest.fixture
def intake(node: Node) -> RequestIntake:
    return RequestIntake(node)


@pytest.fixture
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


def test_an_urgent_request_goes_first(node: Node, intake: RequestIntake) -> None:
    handled: list[str] = []
    for _ in range(10):
        intake.add(NORMAL, lambda: handled.append("normal"))
    node.round()
    intake.add(REAL_TIME, lambda: handled.append("real time"))
    node.round()
    assert handled == ["normal"] * HANDLED_AT_ONCE + ["real time"] + ["normal"] * (HANDLED_AT_ONCE - 1)


def test_a_class_that_waited_long_gets_one_turn(node: Node, intake: RequestIntake, clock: Clock) -> None:
    handled: list[str] = []
    for _ in range(2):
        intake.add(NORMAL, lambda: handled.append("normal"))
    clock.now += 1.01 * MAX_NEGLECT
    intake.add(REAL_TIME, lambda: handled.append("real time"))
    node.round()
    assert handled == ["normal", "real time", "normal"]


def test_no_more_wait_than_clients_may_have_in_flight(node: Node, intake: RequestIntake) -> None:
    handled: list[int] = []
    for number in range(MAX_WAITING + 50):
        intake.add(NORMAL, lambda number=number: handled.append(number))
    node.round()
    assert len(handled) == 50
