"""The executor that keeps its wait set: it does what rclpy's single-threaded one does."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")

from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.subscription import Subscription
from rclpy.task import Future
from std_msgs.msg import String
from std_srvs.srv import Trigger

from edgetpu_driver.node_kit.executor.callback_guard import _take_answer
from edgetpu_driver.node_kit.executor.wait_set import _take_response
from edgetpu_driver.node_kit.fatal_error import FatalError
from testdata.running_nodes.node_in_executor import Bench
from testdata.timeouts import PATIENCE

try:
    from rclpy.event_handler import SubscriptionEventCallbacks
except ImportError:  # ROS 2 Humble
    from rclpy.qos_event import SubscriptionEventCallbacks


def _yes(_request: Any, response: Any) -> Any:
    response.success = True
    return response


def _count_looks(bench: Bench, monkeypatch: Any) -> list[Node]:
    """Grows with every look through the nodes."""
    looked: list[Node] = []
    monkeypatch.setattr(bench.executor, "get_nodes", lambda: looked.append(bench.node) or [bench.node])
    return looked


def test_messages_reach_the_subscription_in_order(bench: Bench) -> None:
    got: list[str] = []
    bench.node.create_subscription(String, "words", lambda message: got.append(message.data), 10)
    publisher = bench.node.create_publisher(String, "words", 10)
    bench.spin_until(lambda: publisher.get_subscription_count() == 1)
    for word in "abc":
        publisher.publish(String(data=word))
    bench.spin_until(lambda: len(got) == 3)
    assert got == ["a", "b", "c"]


def test_a_raw_subscription_gets_bytes(bench: Bench) -> None:
    got: list[bytes] = []
    bench.node.create_subscription(String, "words", got.append, 10, raw=True)
    publisher = bench.node.create_publisher(String, "words", 10)
    bench.spin_until(lambda: publisher.get_subscription_count() == 1)
    publisher.publish(String(data="abc"))
    bench.spin_until(lambda: bool(got))
    assert b"abc" in got[0]


@pytest.mark.skipif(not hasattr(Subscription, "CallbackType"), reason="rclpy of Humble passes no info")
def test_a_subscription_s_callback_may_take_the_message_s_info(bench: Bench) -> None:
    got: list[int] = []
    bench.node.create_subscription(
        String, "words", lambda _message, info: got.append(info["received_timestamp"]), 10
    )
    publisher = bench.node.create_publisher(String, "words", 10)
    bench.spin_until(lambda: publisher.get_subscription_count() == 1)
    publisher.publish(String(data="abc"))
    bench.spin_until(lambda: bool(got))
    assert abs(1e-9 * got[0] - time.time()) < PATIENCE


def test_a_coroutine_can_be_a_subscription_s_callback(bench: Bench) -> None:
    got: list[str] = []

    async def receive(message: String) -> None:
        got.append(message.data)

    bench.node.create_subscription(String, "words", receive, 10)
    publisher = bench.node.create_publisher(String, "words", 10)
    bench.spin_until(lambda: publisher.get_subscription_count() == 1)
    publisher.publish(String(data="a"))
    bench.spin_until(lambda: got == ["a"])


def test_a_timer_fires_until_it_is_cancelled(bench: Bench) -> None:
    fired: list[float] = []
    start = time.monotonic()
    timer = bench.node.create_timer(0.01, lambda: fired.append(time.monotonic()))
    bench.spin_until(lambda: len(fired) == 5)
    assert fired[-1] - start > 0.045  # from one call to the next it may be less, when one was late
    timer.cancel()
    bench.settle()
    assert len(fired) == 5


def test_a_guard_condition_triggered_by_another_thread_ends_the_wait(bench: Bench) -> None:
    called: list[int] = []
    guard = bench.node.create_guard_condition(lambda: called.append(threading.get_ident()))
    bench.settle()
    threading.Timer(0.05, guard.trigger).start()
    bench.spin_until(lambda: bool(called))
    assert called == [threading.get_ident()]


def test_a_service_answers_its_client(bench: Bench) -> None:
    answer = bench.client_of(_yes).call_async(Trigger.Request())
    bench.spin_until(answer.done)
    assert answer.result().success


def test_the_answer_to_a_cancelled_request_is_ignored(bench: Bench) -> None:
    client = bench.client_of(_yes)
    called: list[Future] = []
    cancelled = client.call_async(Trigger.Request())
    cancelled.add_done_callback(called.append)
    client.remove_pending_request(cancelled)
    bench.settle()
    assert not called
    answer = client.call_async(Trigger.Request())
    bench.spin_until(answer.done)


def test_a_service_may_wait_for_something_before_it_answers(bench: Bench) -> None:
    gate = Future()

    async def wait(_request: Any, response: Any) -> Any:
        response.message = await gate
        return response

    answer = bench.client_of(wait, callback_group=ReentrantCallbackGroup()).call_async(Trigger.Request())
    bench.settle()
    assert not answer.done()
    bench.node.create_timer(0.01, lambda: gate.done() or gate.set_result("now"))
    bench.spin_until(answer.done)
    assert answer.result().message == "now"


def test_a_suspended_callback_bars_the_others_of_its_group(bench: Bench) -> None:
    gate = Future()
    waits: list[bool] = []

    async def wait(_request: Any, response: Any) -> Any:
        waits.append(True)
        await gate
        return response

    answer = bench.client_of(wait).call_async(Trigger.Request())  # in the node's exclusive group
    bench.spin_until(lambda: bool(waits))
    fired: list[bool] = []
    bench.node.create_timer(0.01, lambda: fired.append(True))
    bench.settle()
    assert not fired
    gate.set_result(None)
    bench.executor.wake()
    bench.spin_until(answer.done)
    bench.spin_until(lambda: bool(fired))


def test_a_task_is_run(bench: Bench) -> None:
    bench.settle()
    task = bench.executor.create_task(lambda: 7)
    bench.spin_until(task.done)
    assert task.result() == 7


def test_a_task_created_by_another_thread_ends_the_wait(bench: Bench) -> None:
    bench.settle()
    done = threading.Event()
    threading.Timer(0.05, lambda: bench.executor.create_task(done.set)).start()
    bench.spin_until(done.is_set)


def test_a_task_may_create_a_task(bench: Bench) -> None:
    bench.settle()
    called: list[int] = []
    bench.executor.create_task(lambda: bench.executor.create_task(called.append, 7))
    bench.spin_until(lambda: called == [7])


def test_the_callback_of_a_task_is_run(bench: Bench) -> None:
    bench.settle()
    results: list[int] = []
    bench.executor.create_task(lambda: 7).add_done_callback(lambda task: results.append(task.result()))
    bench.spin_until(lambda: results == [7])


def test_no_task_of_another_thread_is_lost(bench: Bench) -> None:
    lost: list[int] = []
    ended = threading.Event()

    def ask_again_and_again() -> None:
        for number in range(300):
            done = threading.Event()
            bench.executor.create_task(done.set)
            if not done.wait(0.5 * PATIENCE):
                lost.append(number)
                break
        ended.set()
        bench.executor.wake()

    threading.Thread(target=ask_again_and_again).start()
    while not ended.is_set():
        bench.executor.spin_once(PATIENCE)
    assert not lost


def test_a_cancelled_task_is_forgotten(bench: Bench, monkeypatch: Any) -> None:
    bench.settle()
    bench.executor.create_task(print).cancel()
    bench.settle()
    looked = _count_looks(bench, monkeypatch)
    bench.settle()
    assert not looked


def test_an_entity_made_while_it_spins_is_waited_for(bench: Bench) -> None:
    fired: list[bool] = []
    bench.executor.create_task(lambda: bench.node.create_timer(0.01, lambda: fired.append(True)))
    bench.spin_until(lambda: bool(fired))


def test_a_node_added_while_it_spins_is_waited_for(bench: Bench) -> None:
    bench.settle()
    other = Node("other", context=bench.context)
    fired: list[bool] = []
    other.create_timer(0.01, lambda: fired.append(True))
    bench.executor.add_node(other)
    bench.spin_until(lambda: bool(fired))
    bench.executor.remove_node(other)
    bench.settle()
    fired.clear()
    bench.settle()
    assert not fired
    other.destroy_node()


def test_an_entity_destroyed_in_the_same_round_is_not_called(bench: Bench) -> None:
    fired: list[str] = []
    timers: dict[str, Any] = {}

    def fire(name: str, other: str) -> None:
        fired.append(name)
        bench.node.destroy_timer(timers[other])

    timers["a"] = bench.node.create_timer(0.01, lambda: fire("a", "b"))
    timers["b"] = bench.node.create_timer(0.01, lambda: fire("b", "a"))
    time.sleep(0.05)
    bench.settle()
    assert len(set(fired)) == 1


@pytest.mark.parametrize("kind", ["publisher", "subscription"])
def test_an_entity_with_events_can_be_destroyed_between_two_rounds(bench: Bench, kind: str) -> None:
    publisher = bench.node.create_publisher(String, "words", 10)
    subscription = bench.node.create_subscription(String, "words", lambda _message: None, 10)
    bench.settle()
    if kind == "publisher":
        bench.node.destroy_publisher(publisher)
    else:
        bench.node.destroy_subscription(subscription)
    fired: list[bool] = []
    bench.node.create_timer(0.01, lambda: fired.append(True))
    bench.spin_until(lambda: bool(fired))


def test_an_entity_made_before_a_callback_raised_is_waited_for(bench: Bench) -> None:
    def fail() -> None:
        timer.cancel()
        raise FatalError

    timer = bench.node.create_timer(0.05, fail)
    timer.cancel()  # on a busy machine it could fire before it should
    bench.executor.spin_once(0.0)
    bench.executor.spin_once(0.0)
    timer.reset()
    time.sleep(0.1)
    fired: list[bool] = []
    bench.node.create_timer(0.01, lambda: fired.append(True))  # in the same round as the failure
    with pytest.raises(FatalError):
        bench.settle()
    bench.spin_until(lambda: bool(fired))


def test_events_are_left_to_rclpy(bench: Bench) -> None:
    events: list[Any] = []
    bench.node.create_publisher(
        String, "words", QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
    )
    bench.node.create_subscription(
        String,
        "words",
        lambda _message: None,
        QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE),
        event_callbacks=SubscriptionEventCallbacks(incompatible_qos=events.append),
    )
    bench.spin_until(lambda: bool(events))
    assert events[0].total_count == 1


def test_the_nodes_are_looked_through_once_for_many_rounds(bench: Bench, monkeypatch: Any) -> None:
    fired: list[bool] = []
    bench.node.create_timer(0.001, lambda: fired.append(True))
    bench.settle()
    looked = _count_looks(bench, monkeypatch)
    fired.clear()
    bench.spin_until(lambda: len(fired) >= 20)
    assert not looked


def test_a_task_among_work_that_never_stops_leaves_but_itself_to_rclpy(
    bench: Bench, monkeypatch: Any
) -> None:
    fired: list[bool] = []
    for _ in range(2):  # while one sleeps the other becomes ready
        bench.node.create_timer(0.001, lambda: fired.append(True) or time.sleep(0.002))
    bench.settle()
    bench.executor.create_task(lambda: None)
    bench.settle()
    looked = _count_looks(bench, monkeypatch)
    fired.clear()
    bench.spin_until(lambda: len(fired) >= 20)
    assert not looked


class _Queue:
    """A client with answers in its queue: to its own request 7, or None for another client's."""

    srv_type = Trigger

    def __init__(self, answers: list[str | None]) -> None:
        self.handle, self.future, self.takes, self._answers = self, Future(), 0, answers

    def take_response(self, _kind: Any) -> tuple[Any, Any]:
        self.takes += 1
        answer = self._answers.pop(0) if self._answers else None
        return (
            None if answer is None else SimpleNamespace(request_id=SimpleNamespace(sequence_number=7))
        ), answer

    def get_pending_request(self, number: int) -> Future:
        assert number == 7
        return self.future

    def __enter__(self) -> None:
        """Be the handle, held."""

    def __exit__(self, *_: object) -> None:
        pass


def test_an_answer_is_found_behind_those_to_other_clients_in_one_round() -> None:
    queue = _Queue([None] * 50 + ["own"])
    _take_response(queue)
    assert queue.future.result() == "own"
    assert queue.takes == 51 + 3


def test_the_executor_of_rclpy_finds_it_too(bench: Bench) -> None:
    queue = _Queue([None] * 50 + ["own"])
    execute = _take_answer(bench.executor, queue)
    assert execute is not None
    with suppress(StopIteration):
        execute().send(None)
    assert queue.future.result() == "own"
    assert _take_answer(bench.executor, _Queue([None] * 1000)) is None


def test_an_answer_alone_costs_few_takes() -> None:
    queue = _Queue(["own"])
    _take_response(queue)
    assert queue.takes == 1 + 3


def test_a_client_that_gets_only_answers_to_others_gives_the_others_their_turn() -> None:
    queue = _Queue([None] * 1000)
    _take_response(queue)
    assert queue.takes == 64
