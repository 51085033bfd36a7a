"""Topics and packages that change while the dashboard runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from geometry_msgs.msg import Twist, TwistStamped
from rclpy.clock import Clock
from rclpy.impl.implementation_singleton import rclpy_implementation as _rclpy

from edgetpu_dashboard.live.result_curves import ResultCurves
from edgetpu_dashboard.nodes import graph_view
from edgetpu_dashboard.nodes.graph_view import GraphView
from edgetpu_msgs.msg import TimeToContact

TWIST, STAMPED = "geometry_msgs/msg/Twist", "geometry_msgs/msg/TwistStamped"


class Graph:
    """A dashboard in a graph whose other nodes publish what a test says."""

    def __init__(self) -> None:
        self.published: dict[str, dict[str, str]] = {}
        self.received: dict[str, tuple[str, Callable[[Any], None]]] = {}
        """Type and callback of each subscription of the dashboard, by topic."""

    def get_name(self) -> str:
        return "dashboard"

    def get_namespace(self) -> str:
        return "/"

    def get_node_names_and_namespaces(self) -> list[tuple[str, str]]:
        return [(name, "/") for name in ("dashboard", *self.published)]

    def get_service_names_and_types_by_node(self, *_: str) -> list[tuple[str, list[str]]]:
        return []

    def get_publisher_names_and_types_by_node(self, name: str, _: str) -> list[tuple[str, list[str]]]:
        return [(topic, [kind]) for topic, kind in self.published.get(name, {}).items()]

    def get_subscriber_names_and_types_by_node(self, name: str, _: str) -> list[tuple[str, list[str]]]:
        mine = self.received.items() if name == "dashboard" else ()
        return [(topic, [kind]) for topic, (kind, _) in mine]

    def create_subscription(self, kind: Any, topic: str, callback: Callable[[Any], None], *_: Any) -> str:
        """Refuse a second type for a topic, as Fast DDS does within one participant."""
        if topic in self.received:
            raise _rclpy.RCLError("the topic has another type")
        self.received[topic] = f"{kind.__module__.partition('.')[0]}/msg/{kind.__name__}", callback
        return topic

    def destroy_subscription(self, topic: str) -> None:
        del self.received[topic]

    def get_clock(self) -> Clock:
        return Clock()

    def get_logger(self) -> Any:
        return self

    def warning(self, _text: str) -> None:
        pass


@pytest.fixture
def graph() -> Graph:
    return Graph()


@pytest.fixture
def view(graph: Graph) -> GraphView:
    node: Any = graph
    return GraphView(node)


def curves_of(view: GraphView, node: str) -> ResultCurves:
    (signal,) = view.nodes[node].signals
    return signal.curves


def test_a_topic_whose_type_changes_is_received_with_the_new_one(graph: Graph, view: GraphView) -> None:
    for kind, message in ((TWIST, Twist()), (STAMPED, TwistStamped())):
        graph.published = {"contact_guard": {"/cmd_vel": kind}}
        view.refresh()
        assert graph.received["/cmd_vel"][0] == kind
        graph.received["/cmd_vel"][1](message)
        assert curves_of(view, "contact_guard").last == {"linear.x": 0.0, "angular.z": 0.0}


def test_a_topic_that_only_the_dashboard_receives_is_forgotten(graph: Graph, view: GraphView) -> None:
    graph.published = {"contact_guard": {"/cmd_vel": TWIST}}
    view.refresh()
    graph.published = {}
    view.refresh()
    assert "/cmd_vel" not in graph.received


def test_of_two_types_the_first_is_received_until_it_is_gone(graph: Graph, view: GraphView) -> None:
    graph.published = {"contact_guard": {"/cmd_vel": TWIST}}
    view.refresh()
    graph.published = {"contact_guard": {"/cmd_vel": TWIST}, "visual_servo": {"/cmd_vel": STAMPED}}
    view.refresh()
    graph.received["/cmd_vel"][1](Twist())
    assert curves_of(view, "contact_guard").count == 1
    assert curves_of(view, "visual_servo").count == 0
    graph.published = {"visual_servo": {"/cmd_vel": STAMPED}}
    view.refresh()
    graph.received["/cmd_vel"][1](TwistStamped())
    assert curves_of(view, "visual_servo").count == 1


def test_results_are_shown_again_once_a_removed_package_is_back(
    graph: Graph, view: GraphView, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while colcon builds the package of a node that goes on running."""
    graph.published = {"looming": {}}
    view.refresh()
    with monkeypatch.context() as patch:
        patch.setattr(graph_view, "node_table", dict)
        view.refresh()
    assert "looming" not in view.nodes
    view.refresh()
    graph.received["looming/time_to_contact"][1](TimeToContact())
    curves = view.nodes["looming"].curves
    assert curves is not None
    assert curves.count == 1
