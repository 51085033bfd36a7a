"""Timers of one process are due together."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import rclpy
from rclpy.context import Context
from rclpy.node import Node

from edgetpu_driver.node_kit.executor.executor import StaticSingleThreadedExecutor
from edgetpu_driver.node_kit.executor.steady_timers import create_steady_timer
from testdata.running_nodes.spinning_node import spin_until


@pytest.fixture
def nodes(ros_domain: int) -> Iterator[tuple[Node, Node]]:  # noqa: ARG001
    context = Context()
    rclpy.init(context=context)
    made = tuple(rclpy.create_node(name, context=context) for name in ("a", "b"))
    yield made
    for node in made:
        node.destroy_node()
    context.shutdown()


def test_a_timer_brings_those_of_all_nodes_into_step(nodes: tuple[Node, Node]) -> None:
    first = create_steady_timer(nodes[0], 100.0, lambda: None)
    first.handle.call_timer()  # it is due in almost 200 s now
    second = create_steady_timer(nodes[1], 50.0, lambda: None)
    ahead = first.time_until_next_call() - second.time_until_next_call()
    assert abs(ahead * 1e-9 - 50.0) < 40.0  # if the first had not been reset: 150


def test_a_timer_that_spins_is_not_put_off_again_and_again(nodes: tuple[Node, Node]) -> None:
    executor = StaticSingleThreadedExecutor(context=nodes[0].context)
    executor.add_node(nodes[0])
    calls: list[int] = []
    create_steady_timer(nodes[0], 0.05, lambda: calls.append(1))

    def spin_once() -> None:
        create_steady_timer(nodes[0], 100.0, lambda: None)
        executor.spin_once(0.01)

    spin_until(lambda: bool(calls), spin_once)
    executor.shutdown()
    assert calls == [1]


def test_a_cancelled_timer_stays_so(nodes: tuple[Node, Node]) -> None:
    first = create_steady_timer(nodes[0], 100.0, lambda: None)
    first.cancel()
    create_steady_timer(nodes[1], 100.0, lambda: None)
    assert first.is_canceled()


def test_a_destroyed_timer_is_forgotten(nodes: tuple[Node, Node]) -> None:
    first = create_steady_timer(nodes[0], 100.0, lambda: None)
    nodes[0].destroy_timer(first)
    second = create_steady_timer(nodes[1], 100.0, lambda: None)
    assert second.time_until_next_call() > 40e9
