"""Ctrl-C while an executor makes a message into Python objects."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")

from std_msgs.msg import String

from edgetpu_driver.node_kit.executor.held_interrupts import held_interrupts
from testdata.running_nodes.ros_graph import Graph

SIGNALS = [signal.SIGINT, signal.SIGTERM]


@pytest.fixture(autouse=True)
def interrupting() -> Iterator[None]:
    """Have both signals raise KeyboardInterrupt."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS:
        signal.signal(number, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def spin(graph: Graph) -> None:
    """Handle messages until an interrupt."""
    while True:
        with held_interrupts():
            graph.spin_for(0.05)


def interrupt(number: int, done: list[int]) -> None:
    """Send this process a signal while interrupts are held back."""
    with held_interrupts():
        signal.raise_signal(number)
        done.append(number)


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_an_interrupt_is_raised_at_the_end(number: signal.Signals) -> None:
    done: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        interrupt(number, done)
    assert done == [number]


def test_an_interrupt_comes_before_an_error() -> None:
    def fail() -> None:
        with held_interrupts():
            signal.raise_signal(signal.SIGINT)
            raise ValueError

    with pytest.raises(KeyboardInterrupt):
        fail()


def test_afterwards_interrupts_are_raised_at_once() -> None:
    with held_interrupts():
        pass
    assert [signal.getsignal(number) for number in SIGNALS] == [signal.default_int_handler] * 2


def test_a_signal_with_a_handler_of_its_own_keeps_it() -> None:
    came: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: came.append(number))
    with held_interrupts():
        signal.raise_signal(signal.SIGTERM)
    assert came == [signal.SIGTERM]


def test_a_handler_that_is_set_meanwhile_stays() -> None:
    with held_interrupts():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN


def test_a_nested_interrupt_is_raised_at_the_end_of_the_outer_context() -> None:
    done: list[int] = []

    def nested() -> None:
        with held_interrupts():
            interrupt(signal.SIGINT, done)
            done.append(0)

    with pytest.raises(KeyboardInterrupt):
        nested()
    assert done == [signal.SIGINT, 0]


def test_in_another_thread_nothing_is_changed() -> None:
    found: list[object] = []

    def look() -> None:
        with held_interrupts():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [signal.default_int_handler]


def test_an_interrupt_while_a_message_is_made_is_not_taken_for_a_damaged_message(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    received: list[str] = []
    publisher = graph.node.create_publisher(String, "/interrupted", 10)
    graph.node.create_subscription(String, "/interrupted", lambda message: received.append(message.data), 10)
    graph.spin_until(lambda: publisher.get_subscription_count() == 1)
    message, make = String(data="text"), String.__init__

    def interrupted(self: String, *arguments: object, **fields: object) -> None:
        signal.raise_signal(signal.SIGINT)
        make(self, *arguments, **fields)

    publisher.publish(message)
    monkeypatch.setattr(String, "__init__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        spin(graph)
    monkeypatch.undo()
    assert received == ["text"]
