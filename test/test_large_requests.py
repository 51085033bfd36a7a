"""Large requests are taken when no urgent request is under way or soon expected."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")

from rclpy.clock import Clock as RosClock
from rclpy.clock import ClockType
from std_srvs.srv import Trigger

from edgetpu_driver.host.requests.request_queue import LONGEST_NEGLECT
from edgetpu_driver.node_kit.executor import large_requests
from edgetpu_driver.node_kit.executor.executor_calls import executor_calls
from edgetpu_driver.node_kit.executor.large_requests import QUICK, USUAL_BYTES, LargeRequests
from edgetpu_driver.node_kit.executor.request_intake import REST_AFTER_URGENT
from edgetpu_msgs.srv import MatMul
from testdata.devices.fake_timers import Clock, Timer
from testdata.running_nodes.node_in_executor import Bench

SERVICE, OTHER = object(), object()
REQUEST = MatMul.Request(inputs=array("f", bytes(4000)))


class Guard:
    def trigger(self) -> None:
        pass


class Node:
    def create_timer(self, period: float, callback: Callable[[], None], *, clock: RosClock) -> Timer:
        assert (period, clock.clock_type) == (LONGEST_NEGLECT, ClockType.STEADY_TIME)
        self.timer = Timer(callback)
        return self.timer

    def create_guard_condition(self, _callback: Callable[[], None]) -> Guard:
        return Guard()

    def call_waiting(self) -> int:
        """Make the calls that the executor was woken for; returns their number."""
        calls = executor_calls(self)  # type: ignore[arg-type]
        count = len(calls)
        calls._run()
        return count


class Memory:
    """Stands for the thread that touches memory."""

    def __init__(self) -> None:
        self.touched: list[int] = []
        """How many bytes, each time."""
        self.waiting: deque[Callable[[], None]] = deque()
        self.at_once = True

    @property
    def pending(self) -> int:
        return len(self.waiting)

    def submit(self, work: Callable[[], None]) -> None:
        self.waiting.append(work)
        if self.at_once:
            self.do_one()

    def do_one(self) -> None:
        self.waiting[0]()
        self.waiting.popleft()


@pytest.fixture(autouse=True)
def memory(monkeypatch: pytest.MonkeyPatch) -> Memory:
    memory = Memory()
    monkeypatch.setattr(large_requests, "touch_memory", memory.touched.append)
    monkeypatch.setattr(large_requests, "BackgroundThread", lambda _name: memory)
    return memory


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(large_requests, "time", clock)
    return clock


@pytest.fixture
def node() -> Node:
    return Node()


@pytest.fixture
def large(node: Node, clock: Clock) -> LargeRequests:
    assert clock.now > REST_AFTER_URGENT
    large = LargeRequests(node)  # type: ignore[arg-type]
    assert large.took(SERVICE, REQUEST, 5 * QUICK)
    return large


def urgent(large: LargeRequests) -> Callable[[Any], None]:
    """Have an urgent request come; returns what answers it."""
    return large.noting_urgent(lambda _: None)


def test_without_urgent_requests_they_are_taken_at_once(large: LargeRequests) -> None:
    assert large.may_take(SERVICE)
    assert large.may_take(SERVICE)
    assert not large.postponed


def test_beside_urgent_requests_one_is_taken_after_each_answer(large: LargeRequests, node: Node) -> None:
    answer = urgent(large)
    assert not large.may_take(SERVICE)
    assert large.postponed == {SERVICE}
    answer(None)
    assert node.call_waiting() == 1
    assert not large.postponed
    assert large.may_take(SERVICE)
    assert not large.may_take(SERVICE)


def test_a_request_after_a_small_one_is_taken_at_once(large: LargeRequests) -> None:
    urgent(large)
    assert not large.took(SERVICE, REQUEST, 0.9 * QUICK)
    assert large.may_take(SERVICE)


@pytest.mark.usefixtures("clock")
def test_the_first_request_to_a_service_is_expected_to_be_large(node: Node, memory: Memory) -> None:
    large = LargeRequests(node)  # type: ignore[arg-type]
    urgent(large)
    assert not large.may_take(OTHER)
    assert memory.touched == [2 * USUAL_BYTES]


def test_memory_is_touched_for_a_request_like_the_last_large_one(
    large: LargeRequests, memory: Memory
) -> None:
    small = MatMul.Request(inputs=array("f", bytes(40)))
    large.took(OTHER, small, 0.9 * QUICK)
    urgent(large)
    assert not large.may_take(SERVICE)
    assert memory.touched == [8000]


def test_it_is_taken_after_an_answer_only_when_there_is_memory_for_it(
    large: LargeRequests, memory: Memory
) -> None:
    memory.at_once = False
    first, last = urgent(large), urgent(large)
    assert not large.may_take(SERVICE)
    first(None)
    last(None)
    assert large.postponed == {SERVICE}
    memory.do_one()
    urgent(large)(None)
    assert not large.postponed


def test_without_urgent_requests_no_memory_is_touched(large: LargeRequests, memory: Memory) -> None:
    assert large.may_take(SERVICE)
    assert memory.touched == []


def test_the_last_of_several_urgent_answers_counts(large: LargeRequests) -> None:
    first, last = urgent(large), urgent(large)
    assert not large.may_take(SERVICE)
    last(None)
    assert large.postponed
    first(None)
    assert not large.postponed


def test_an_answer_that_is_sent_twice_counts_once(large: LargeRequests) -> None:
    first, _ = urgent(large), urgent(large)
    assert not large.may_take(SERVICE)
    first(None)
    first(None)
    assert large.postponed


def test_answers_wake_nobody_while_no_large_request_waits(large: LargeRequests, node: Node) -> None:
    urgent(large)(None)
    assert node.call_waiting() == 0


def test_they_wait_no_longer_than_a_class_may_be_neglected(large: LargeRequests, node: Node) -> None:
    urgent(large)
    assert not node.timer.running
    assert not large.may_take(SERVICE)
    assert node.timer.running
    node.timer.callback()
    assert node.call_waiting() == 1
    assert not node.timer.running
    assert large.may_take(SERVICE)


def test_urgent_requests_that_have_ended_postpone_nothing(large: LargeRequests, clock: Clock) -> None:
    urgent(large)(None)
    clock.now += 1.01 * REST_AFTER_URGENT
    assert large.may_take(SERVICE)


def test_the_executor_takes_a_request_when_its_turn_comes(bench: Bench) -> None:
    taken: list[str] = []

    def take(_request: Any, response: Any) -> Any:
        taken.append("large")
        return response

    large, service = LargeRequests(bench.node), bench.node.create_service(Trigger, "large", take)
    large.apply_to(service)
    large.took(service, REQUEST, 5 * QUICK)
    client = bench.node.create_client(Trigger, "large")
    bench.spin_until(client.service_is_ready)
    answer = large.noting_urgent(lambda _: taken.append("urgent"))
    client.call_async(Trigger.Request())
    bench.spin_until(lambda: service in large.postponed)
    assert taken == []
    answer(None)
    bench.spin_until(lambda: len(taken) == 2)
    assert taken == ["urgent", "large"]
