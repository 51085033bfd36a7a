"""A view of the graph: the running nodes of the node table, their results, diagnostics and pictures.

The executor's thread writes and the server's thread reads, under one lock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.impl.implementation_singleton import rclpy_implementation as _rclpy
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data

from edgetpu_dashboard.live.diagnostic_readings import LEVELS, Reading
from edgetpu_dashboard.live.message_numbers import SIGNAL_TYPES, Signal
from edgetpu_dashboard.live.picture_encoding import CAMERA_VIEW
from edgetpu_dashboard.live.pictures_with_results import OverlayTap
from edgetpu_dashboard.live.result_curves import ResultCurves
from edgetpu_dashboard.nodes.picture_subscriptions import PictureSubscriptions, Tap
from edgetpu_dashboard.nodes.signal_subscriptions import SignalSubscriptions
from edgetpu_driver.errors import InputError
from edgetpu_driver.node_kit.messages.message_stamps import seconds_of
from edgetpu_driver.node_kit.middleware.qos_profiles import QOS_LATCHED
from edgetpu_driver.node_kit.node_table import DRIVER, NodeEntry, all_nodes, node_table
from edgetpu_driver.node_kit.parameters import Setting
from edgetpu_driver.node_kit.printable_text import one_line
from edgetpu_driver.node_kit.result_topics import ResultTopic
from edgetpu_msgs.msg import DeviceStatus

_TRIGGER = "std_srvs/srv/Trigger"
_CAMERA = "camera"
"""Name of the suite's camera node."""
MOST_DIAGNOSTICS = 50
"""Largest number of entries of a node; a driver has one for each stick, and other programs may add more."""
MOST_READINGS = 50
"""Largest number of values of an entry."""


@dataclass(frozen=True)
class Diagnostic:
    """One entry of /diagnostics."""

    name: str
    level: str
    """One of LEVELS."""
    message: str
    values: Mapping[str, str]


@dataclass
class ViewedNode:
    """A node of the table, with its results and diagnostics."""

    entry: NodeEntry
    running: bool = False
    triggers: tuple[str, ...] = ()
    """Names of its services without arguments, such as reset."""
    has_picture: bool = False
    result: ResultTopic | None = None
    curves: ResultCurves | None = None
    word: str = ""
    """What the last result has found, in words."""
    region: tuple[int, ...] = (0, 0, 0, 0)
    """The value of its parameter `roi`; zeros if unknown."""
    diagnostics: dict[str, Diagnostic] = field(default_factory=dict)
    """By name, the newest last."""
    readings: dict[str, dict[str, Reading]] = field(default_factory=dict)
    """Values of the diagnostics, by name and key."""
    takes: tuple[str, ...] = ()
    """Names of the nodes whose results it subscribes to."""
    signals: tuple[Signal, ...] = ()
    """Other numbers that it subscribes to and publishes."""

    @property
    def settings(self) -> Mapping[str, Setting]:
        """Its declared parameters by name; empty if the node cannot be loaded."""
        try:
            return {setting.name: setting for setting in self.entry.load().settings}
        except Exception:  # from another package; it is logged once the node runs
            return {}

    def store(self, diagnostic: Diagnostic) -> None:
        """Store an entry of /diagnostics; the oldest is dropped if there are too many."""
        self.diagnostics.pop(diagnostic.name, None)
        self.diagnostics[diagnostic.name] = diagnostic
        readings = self.readings.setdefault(diagnostic.name, {})
        for key, text in list(diagnostic.values.items())[:MOST_READINGS]:
            readings.setdefault(key, Reading(key)).add(time.monotonic(), text)
        for key in readings.keys() - diagnostic.values.keys():
            del readings[key]
        if len(self.diagnostics) > MOST_DIAGNOSTICS:
            oldest = next(iter(self.diagnostics))
            del self.diagnostics[oldest], self.readings[oldest]


class GraphView:
    """The nodes in the namespace of the dashboard."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._namespace = node.get_namespace().rstrip("/")
        self.lock = threading.RLock()
        self.nodes: dict[str, ViewedNode] = {}
        self.status: DeviceStatus | None = None
        self.received = 0
        """Messages since the start: results, other numbers, states of the driver and diagnostics."""
        self.pictures = PictureSubscriptions(node)
        self._signals = SignalSubscriptions(node, self._on_numbers)
        self._subscriptions: dict[str, Any] = {}
        node.create_subscription(DiagnosticArray, "/diagnostics", self._on_diagnostics, 10)
        node.create_subscription(DeviceStatus, f"{DRIVER}/status", self._on_status, QOS_LATCHED)

    def full_name(self, name: str) -> str:
        """The full name of a node of the table."""
        return f"{self._namespace}/{name}"

    def refresh(self) -> None:
        """Update the list of running nodes, and subscribe to the results of new ones."""
        found = set(self._node.get_node_names_and_namespaces())
        entries = all_nodes()
        names = [DRIVER, *node_table()]
        with self.lock:
            for name in names:
                viewed = self.nodes.setdefault(name, ViewedNode(entries[name]))
                viewed.running = (name, self._namespace or "/") in found
            for name in self.nodes.keys() - set(names):  # its package was removed
                del self.nodes[name]
                subscription = self._subscriptions.pop(name, None)
                if subscription is not None:
                    self._node.destroy_subscription(subscription)
            running = [viewed for viewed in self.nodes.values() if viewed.running]
        for viewed in running:
            self._look_at(viewed)
        self._listen(running)

    def pictured(self) -> dict[str, str]:
        """Return the views of the running nodes that have pictures, by the names of the nodes."""
        with self.lock:
            return {
                name: CAMERA_VIEW if name == _CAMERA else name
                for name, viewed in self.nodes.items()
                if viewed.running and (viewed.has_picture or name == _CAMERA)
            }

    def look(self, view: str) -> Tap:
        """Start to receive the pictures of a node, or the camera's; in the executor's thread.

        Raises InputError for any other view.
        """
        if view != CAMERA_VIEW and view not in self.nodes:
            raise InputError(f"expected a node or {CAMERA_VIEW}; got {one_line(view)!r}")
        viewed = self.nodes.get(view)
        if viewed is None or viewed.result is None or viewed.result.picture is None:
            return self.pictures.look(view)
        tap = self.pictures.look(view, viewed.result.picture)
        self._show_region(view)
        return tap

    def look_away(self, view: str) -> None:
        """Undo `look`; in the executor's thread."""
        self.pictures.look_away(view)

    def set_region(self, name: str, region: Sequence[int]) -> None:
        """Store the value of a node's parameter `roi`."""
        if name in self.nodes and len(region) == 4:
            self.nodes[name].region = tuple(region)
            self._show_region(name)

    def _show_region(self, name: str) -> None:
        tap = self.pictures.tap(name)
        if isinstance(tap, OverlayTap):
            tap.region = self.nodes[name].region

    def _look_at(self, viewed: ViewedNode) -> None:
        """Find the services of a running node, and subscribe to its results."""
        name = viewed.entry.name
        prefix = f"{self.full_name(name)}/"
        try:
            services = self._node.get_service_names_and_types_by_node(name, self._namespace or "/")
            topics = self._node.get_publisher_names_and_types_by_node(name, self._namespace or "/")
        except _rclpy.NodeNameNonExistentError:  # it has just ended
            return
        with self.lock:
            viewed.triggers = tuple(
                sorted(each.removeprefix(prefix) for each, types in services if _TRIGGER in types)
            )
            viewed.has_picture = f"{prefix}debug_image" in {topic for topic, _ in topics}
        if name in self._subscriptions or name == DRIVER:
            return
        self._subscriptions[name] = None
        try:
            result: ResultTopic | None = viewed.entry.load().results
        except Exception as error:  # from another package; the other nodes are still shown
            self._node.get_logger().error(f"results of {name} are not shown: {one_line(error)}")
            return
        if result is None:
            return
        with self.lock:
            viewed.result = result
            viewed.curves = ResultCurves({value.field: value.sigma for value in result.values})
        self._subscriptions[name] = self._node.create_subscription(
            result.message_type,
            f"{name}/{result.topic}",
            lambda message: self._on_result(viewed, message),
            qos_profile_sensor_data,
        )

    def _listen(self, running: Sequence[ViewedNode]) -> None:
        """Find the numbers that the other running nodes receive and publish, and subscribe to them."""
        results = {
            f"{self.full_name(name)}/{viewed.result.topic}": name
            for name, viewed in self.nodes.items()
            if viewed.result is not None
        }
        # A topic that only the dashboard subscribes to is no longer used.
        others = [viewed for viewed in running if viewed.entry.name != self._node.get_name()]
        topics = {viewed.entry.name: self._topics_of(viewed.entry.name) for viewed in others}
        used = {each for ways in topics.values() for way in ways for each in way.items()}
        self._signals.keep({(topic, kind) for topic, kind in used if topic not in results})
        for viewed in others:
            published, subscribed = topics[viewed.entry.name]
            found = [
                Signal(topic.removeprefix(f"{self._namespace}/"), way, self._signals.curves(topic, kind))
                for way, named in ((True, published), (False, subscribed))
                for topic, kind in named.items()
                if kind in SIGNAL_TYPES and topic not in results
            ]
            with self.lock:
                viewed.takes = tuple(sorted(results[topic] for topic in subscribed if topic in results))
                viewed.signals = tuple(found)

    def _topics_of(self, name: str) -> tuple[dict[str, str], dict[str, str]]:
        """The topics that a node publishes, and those that it subscribes to, with the type of each."""
        namespace = self._namespace or "/"
        try:
            published = self._node.get_publisher_names_and_types_by_node(name, namespace)
            subscribed = self._node.get_subscriber_names_and_types_by_node(name, namespace)
        except _rclpy.NodeNameNonExistentError:  # it has just ended
            return {}, {}
        return {topic: types[0] for topic, types in published}, {
            topic: types[0] for topic, types in subscribed
        }

    def _on_numbers(self, curves: ResultCurves, now: float, row: Mapping[str, float], latency: float) -> None:
        with self.lock:
            self.received += 1
            curves.add(now, row, latency)

    def _on_result(self, viewed: ViewedNode, message: Any) -> None:
        assert viewed.result is not None
        assert viewed.curves is not None
        row = viewed.result.numbers(message)
        latency = 1e-9 * self._node.get_clock().now().nanoseconds - seconds_of(message.header)
        with self.lock:
            self.received += 1
            viewed.curves.add(time.monotonic(), row, latency)
            viewed.word = viewed.result.text(message)
        self.pictures.on_result(viewed.entry.name, message)

    def _on_status(self, status: DeviceStatus) -> None:
        with self.lock:
            self.received += 1
            self.status = status

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        prefix = self._namespace.lstrip("/")
        with self.lock:
            self.received += 1
            for status in message.status:
                node, _, _ = status.name.partition(":")
                name = node.strip().removeprefix(f"{prefix}/" if prefix else "")
                if name in self.nodes:
                    self.nodes[name].store(_diagnostic(status))


def _diagnostic(status: DiagnosticStatus) -> Diagnostic:
    number = int.from_bytes(status.level, "little") if isinstance(status.level, bytes) else status.level
    level = LEVELS[min(number, len(LEVELS) - 1)]
    return Diagnostic(status.name, level, status.message, {each.key: each.value for each in status.values})
