"""Services that answer later, and calls that other threads hand to the executor: on both executors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

rclpy = pytest.importorskip("rclpy", reason="needs ROS 2")

from rclpy.executors import SingleThreadedExecutor  # noqa: E402
from std_srvs.srv import Trigger  # noqa: E402

from edgetpu_driver.node_kit.deferred_service import Respond, create_deferred_service  # noqa: E402
from edgetpu_driver.node_kit.executor import executor_calls as executor_calls_module  # noqa: E402
from edgetpu_driver.node_kit.executor.executor import StaticSingleThreadedExecutor  # noqa: E402
from edgetpu_driver.node_kit.executor.executor_calls import executor_calls  # noqa: E402
from edgetpu_driver.node_kit.executor.wait_set import WaitSet  # noqa: E402
from testdata.running_nodes.spinning_node import SpinningNode  # noqa: E402
from testdata.timeouts import PATIENCE  # noqa: E402

pytestmark = pytest.mark.usefixtures("ros_domain")  # services of other test processes have the same names


class Bench(SpinningNode):
    """A node in an executor of the kind under test, with a service that keeps its requests unanswered."""

    def __init__(self, executor: type[SingleThreadedExecutor]) -> None:
        super().__init__(executor)
        self.requests: list[Respond] = []
        self.service = create_deferred_service(
            self.node, Trigger, "ask", lambda _request, respond: self.requests.append(respond)
        )
        self.client = self.node.create_client(Trigger, "ask")
        self.spin_until(self.client.service_is_ready)

    def ask(self) -> Any:
        """Send a request and have the service take it; the future answer."""
        count = len(self.requests)
        future = self.client.call_async(Trigger.Request())
        self.spin_until(lambda: len(self.requests) > count)
        return future


@pytest.fixture(params=[StaticSingleThreadedExecutor, SingleThreadedExecutor])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    bench = Bench(request.param)
    yield bench
    bench.close()


def in_a_thread(call: Callable[[], None]) -> None:
    """Make a call in another thread; raises what it raises."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(call).result()


def test_each_request_gets_its_answer_in_any_order_from_any_thread(bench: Bench) -> None:
    first, second = bench.ask(), bench.ask()
    in_a_thread(lambda: bench.requests[1](Trigger.Response(message="second")))
    bench.requests[0](Trigger.Response(message="first"))
    bench.spin_until(lambda: first.done() and second.done())
    assert (first.result().message, second.result().message) == ("first", "second")


def test_a_callback_may_answer_at_once(bench: Bench) -> None:
    create_deferred_service(
        bench.node, Trigger, "echo", lambda _, respond: respond(Trigger.Response(message="now"))
    )
    client = bench.node.create_client(Trigger, "echo")
    bench.spin_until(client.service_is_ready)
    answer = client.call_async(Trigger.Request())
    bench.spin_until(answer.done)
    assert answer.result().message == "now"


def test_other_callbacks_run_while_a_request_is_unanswered(bench: Bench) -> None:
    bench.ask()
    fired: list[bool] = []
    bench.node.create_timer(0.01, lambda: fired.append(True))
    bench.spin_until(lambda: bool(fired))


def test_only_the_first_answer_counts(bench: Bench) -> None:
    first, second = bench.ask(), bench.ask()
    bench.requests[0](Trigger.Response(message="first"))
    bench.requests[0](Trigger.Response(message="again"))
    bench.requests[1](Trigger.Response(message="second"))
    bench.spin_until(lambda: first.done() and second.done())
    assert (first.result().message, second.result().message) == ("first", "second")


def test_an_answer_of_a_destroyed_service_is_dropped_without_a_warning(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.ask()
    bench.node.destroy_service(bench.service)
    monkeypatch.setattr(bench.node, "get_logger", lambda: pytest.fail("expected no message in the log"))
    in_a_thread(lambda: bench.requests[0](Trigger.Response()))


def test_an_answer_that_cannot_be_sent_is_replaced_with_one_that_says_why(bench: Bench) -> None:
    unsendable, answer = bench.ask(), bench.ask()
    bench.requests[0]("not a response")
    bench.requests[1](Trigger.Response(message="sent"))
    bench.spin_until(answer.done)
    assert answer.result().message == "sent"
    bench.spin_until(unsendable.done)
    assert not unsendable.result().success
    assert unsendable.result().message.startswith("unexpected TypeError")


def test_calls_of_other_threads_run_in_the_executors_thread_in_order(bench: Bench) -> None:
    calls = executor_calls(bench.node)
    ran: list[tuple[int, int]] = []

    def add() -> None:
        for number in range(3):
            calls.add(lambda number=number: ran.append((number, threading.get_ident())))  # type: ignore[misc]

    in_a_thread(add)
    assert not ran
    bench.spin_until(lambda: len(ran) == 3)
    assert ran == [(number, threading.get_ident()) for number in range(3)]


def test_a_call_that_raises_does_not_lose_the_next(bench: Bench) -> None:
    calls = executor_calls(bench.node)
    ran: list[str] = []

    def fail() -> None:
        raise RuntimeError("on purpose")

    calls.add(fail)
    calls.add(lambda: ran.append("next"))
    with suppress(RuntimeError):  # our own executors report it and go on, rclpy's do not
        bench.spin_until(lambda: bool(ran))
    bench.spin_until(lambda: bool(ran))


def test_a_call_for_a_destroyed_node_is_dropped(bench: Bench) -> None:
    calls = executor_calls(bench.node)
    bench.executor.remove_node(bench.node)
    bench.node.destroy_node()
    calls.add(lambda: pytest.fail("it was run"))


class TestCallsWhileTheExecutorIsAwake:
    """The executor looks for calls before it waits, so that a call costs no round of its own."""

    def test_one_added_by_a_callback_is_made_in_the_same_round(self) -> None:
        spinning = SpinningNode(StaticSingleThreadedExecutor)
        calls, ran = executor_calls(spinning.node), []
        calls.add(lambda: calls.add(lambda: ran.append("inner")))
        while not ran and not calls.awake:
            spinning.executor.spin_once(PATIENCE)
        assert ran == ["inner"]
        assert not calls.awake
        spinning.close()

    def test_one_added_after_the_executor_has_looked_wakes_it(self, bench: Bench) -> None:
        calls, ran = executor_calls(bench.node), []
        calls.awake = threading.Event()
        calls.add(lambda: ran.append("late"))
        calls.fall_asleep()
        bench.spin_until(lambda: bool(ran))
        assert ran == ["late"]

    def test_one_that_is_due_soon_is_waited_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(executor_calls_module, "SOON", PATIENCE)
        spinning = SpinningNode(StaticSingleThreadedExecutor)
        calls, ran = executor_calls(spinning.node), []
        wait_set = WaitSet([spinning.node], {}, spinning.context)
        calls.expect()
        calls.add(lambda: ran.append("came soon"))
        with wait_set.awake() as works:
            for work in works:
                work()
        with wait_set.awake() as works:
            calls.expect()  # as a callback of this round would
            threading.Timer(0.05, calls.add, [lambda: ran.append("waited for")]).start()
            for work in works:
                work()
        assert ran == ["came soon", "waited for"]
        wait_set.close()
        spinning.close()

    def test_one_is_not_due_soon_if_the_last_one_took_longer(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        calls = executor_calls(bench.node)
        for soon, is_due in ((PATIENCE, True), (-1.0, False), (PATIENCE, True)):
            monkeypatch.setattr(executor_calls_module, "SOON", soon)
            calls.expect()
            calls.add(lambda: None)
            assert not calls.due
            calls.expect()
            assert bool(calls.due) == is_due

    def test_calls_that_add_calls_for_ever_leave_other_callbacks_their_turn(self) -> None:
        spinning = SpinningNode(StaticSingleThreadedExecutor)
        calls, ticks = executor_calls(spinning.node), []
        spinning.node.create_timer(0.001, lambda: ticks.append(len(ticks)))

        def again() -> None:
            if not ticks:
                calls.add(again)

        calls.add(again)
        spinning.spin_until(lambda: bool(ticks))
        spinning.close()
