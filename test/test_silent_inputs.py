"""Control nodes say in the log which of their inputs does not arrive."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from rcl_interfaces.msg import Log
from rclpy.qos import DurabilityPolicy, QoSProfile

from edgetpu_control.nodes.heading_hold_node import HeadingHoldNode
from edgetpu_control.nodes.policy_node import PolicyNode
from edgetpu_driver.node_kit import silent_topic
from edgetpu_msgs.msg import Heading


@pytest.fixture
def logs(graph: Any) -> list[Any]:
    return graph.collect(Log, "/rosout", QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL))


@pytest.fixture
def running(graph: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Runs a node of this kind in a namespace, which waits for no message until it is reported."""
    monkeypatch.setattr(silent_topic, "SILENCE", 0.0)
    nodes: list[Any] = []

    def run(kind: type[Any], namespace: str) -> Any:
        nodes.append(kind(namespace=namespace))
        graph.add_node(nodes[-1])
        return nodes[-1]

    yield run
    for node in nodes:
        graph.remove_node(node)
        node.destroy_node()


def test_results_that_do_not_arrive_are_reported_and_so_is_their_return(
    graph: Any, logs: list[Any], running: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    running(HeadingHoldNode, "unled")
    topic = "/unled/visual_compass/heading"
    silence = f"no results on {topic} for 0 s (none before that); it has no publisher"
    graph.spin_until(lambda: silence in [log.msg for log in logs])
    monkeypatch.setattr(silent_topic, "SILENCE", math.inf)
    headings = graph.node.create_publisher(Heading, topic, 1)

    def returned() -> bool:
        headings.publish(Heading())
        return f"results arrive on {topic} now" in [log.msg for log in logs]

    graph.spin_until(returned)


def test_a_policy_names_the_parameter_and_the_topic_that_it_waits_for(
    graph: Any, logs: list[Any], running: Callable[..., Any]
) -> None:
    running(PolicyNode, "untaught")
    expected = {
        "no network yet: set parameter policy to its file, .npz",
        "no observations on /untaught/observation for 0 s (none before that); it has no publisher",
    }
    graph.spin_until(lambda: expected <= {log.msg for log in logs})
