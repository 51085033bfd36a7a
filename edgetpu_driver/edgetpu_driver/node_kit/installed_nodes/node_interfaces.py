"""The topics, services and clients of nodes, found by creating the nodes."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import rclpy
from rclpy.expand_topic_name import expand_topic_name
from rclpy.logging import LoggingSeverity, set_logger_level
from rclpy.node import Node
from rclpy.parameter import Parameter

from edgetpu_driver.node_kit.executor.executor import make_executor
from edgetpu_driver.node_kit.fatal_error import FatalError
from edgetpu_driver.node_kit.node_table import DRIVER, all_nodes, node_table
from edgetpu_driver.node_kit.parameters import Setting

SETTLING = 0.35
"""Seconds until a node has looked for its driver, and so has made its clients."""


@dataclass(frozen=True)
class Interfaces:
    """Full names and types of the interfaces of a node, including those that rclpy opens for every node."""

    name: str
    """Name of the node."""
    namespace: str
    publishes: Mapping[str, str]
    subscribes: Mapping[str, str]
    provides: Mapping[str, str]
    """Services."""
    calls: Mapping[str, str]
    """Services of other nodes."""

    def join(self, other: Interfaces) -> Interfaces:
        """Return the interfaces of both."""
        return Interfaces(
            self.name,
            self.namespace,
            {**self.publishes, **other.publishes},
            {**self.subscribes, **other.subscribes},
            {**self.provides, **other.provides},
            {**self.calls, **other.calls},
        )

    def also_subscribe(self, topic: str, other: str) -> Interfaces:
        """Return these interfaces and a subscription to `other` with the type of `topic`; relative names.

        FatalError for a topic to which it does not subscribe.
        """
        kind = self.subscribes.get(expand_topic_name(topic, self.name, self.namespace))
        if kind is None:
            raise FatalError(f"{self.name} does not subscribe to '{topic}'")
        added = {expand_topic_name(other, self.name, self.namespace): kind}
        return self.join(Interfaces(self.name, self.namespace, {}, added, {}, {}))

    def open_later(self, others: Iterable[Interfaces], types: frozenset[str]) -> Interfaces:
        """Return these interfaces, and the topics and services of `others` that have one of the types."""
        offered = list(others)

        def wanted(found: Iterable[Mapping[str, str]]) -> dict[str, str]:
            return {name: kind for each in found for name, kind in each.items() if kind in types}

        subscribes, calls = (
            wanted(topics for each in offered for topics in (each.publishes, each.subscribes)),
            wanted(each.provides for each in offered),
        )
        return self.join(Interfaces(self.name, self.namespace, {}, subscribes, {}, calls))


def interfaces_of(node: Node) -> Interfaces:
    """Return the topics, services and clients of a node of this process."""
    return interfaces_in_graph(node, node.get_name(), node.get_namespace())


def interfaces_in_graph(observer: Node, name: str, namespace: str) -> Interfaces:
    """Return what a node of the graph has open now, as far as `observer` knows."""

    def first_types(found: Iterable[tuple[str, list[str]]]) -> dict[str, str]:
        return {topic: types[0] for topic, types in sorted(found)}

    return Interfaces(
        name,
        namespace,
        first_types(observer.get_publisher_names_and_types_by_node(name, namespace)),
        first_types(observer.get_subscriber_names_and_types_by_node(name, namespace)),
        first_types(observer.get_service_names_and_types_by_node(name, namespace)),
        first_types(observer.get_client_names_and_types_by_node(name, namespace)),
    )


def collect(ros_arguments: Sequence[str] = ()) -> dict[str, Interfaces]:
    """Return what each node of the table opens, by name, the driver first.

    Each node is made with its defaults, and again with every other choice of a parameter, true and false
    included. No other process can discover it; it has no device, and a temporary ROS_HOME. ros_arguments: of
    the command line, for example remappings and parameter files. Raises RuntimeError for bad arguments, and
    what the nodes raise for bad parameters and names.
    """
    before = dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="edgetpu_") as home:
        os.environ.update({"ROS_HOME": home, "ROS_AUTOMATIC_DISCOVERY_RANGE": "OFF"})
        os.environ.pop("ROS_LOCALHOST_ONLY", None)
        try:
            rclpy.init(args=["nodes", *ros_arguments])
            # rcl warns of several nodes with one name, which are made here one after another.
            set_logger_level("rcl.logging_rosout", LoggingSeverity.ERROR)
            return {name: _collect_node(name) for name in (DRIVER, *node_table())}
        finally:
            rclpy.try_shutdown()
            os.environ.clear()
            os.environ.update(before)


def _collect_node(name: str) -> Interfaces:
    kind = all_nodes()[name].load()
    overrides: dict[str, Any] = {"autostart": False} if name == DRIVER else {}
    variants = [{}, {"use_sim_time": True}, *_choices(kind.settings)]
    found = [_made(kind, overrides | variant) for variant in variants]
    result = found[0]
    for other in found[1:]:
        result = result.join(other)
    return result


def _choices(settings: Iterable[Setting]) -> list[dict[str, Any]]:
    return [
        {setting.name: choice}
        for setting in settings
        for choice in ((not setting.default,) if isinstance(setting.default, bool) else setting.choices)
        if choice != setting.default
    ]


def _made(kind: Any, values: Mapping[str, Any]) -> Interfaces:
    """Create a node, wait until it has started, and return its topics, services and clients."""
    node = kind(parameter_overrides=[Parameter(name, value=value) for name, value in values.items()])
    executor = make_executor()
    try:
        executor.add_node(node)
        end = time.monotonic() + SETTLING
        while time.monotonic() < end:
            executor.spin_once(timeout_sec=0.05)
        return interfaces_of(node)
    finally:
        executor.shutdown()
        node.destroy_node()
