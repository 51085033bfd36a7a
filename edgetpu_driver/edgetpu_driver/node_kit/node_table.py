"""The table of nodes: what the installed packages offer under the entry-point group `edgetpu.nodes`.

A package adds a node with one line of its setup.cfg; the node's name is also the name of its executable, but
for the driver's:

    [options.entry_points]
    edgetpu.nodes =
        looming = edgetpu_perception.nodes.looming_node:LoomingNode
    console_scripts =
        looming = edgetpu_driver.node_kit.process_entry:main

The class has `settings`, the parameters that it declares, and is made without arguments. Console scripts,
`single_process`, the launch file, config/edgetpu.yaml, the demo and the benchmarks all read this table.
Looking up a name imports nothing of the node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

GROUP = "edgetpu.nodes"

DRIVER = "edgetpu"
"""Name of the driver node, which every graph has and which is therefore never asked for by name."""


@dataclass(frozen=True)
class NodeEntry:
    """One node of the table."""

    name: str
    module: str
    class_name: str

    @property
    def package(self) -> str:
        """The ROS package that installs the executable."""
        return self.module.partition(".")[0]

    @property
    def executable(self) -> str:
        """The name of its executable: the node's own, but for the driver."""
        return "edgetpu_node" if self.name == DRIVER else self.name

    def load(self) -> Any:
        """Import the node's class, a subclass of BaseNode."""
        return getattr(import_module(self.module), self.class_name)


def node_table() -> Mapping[str, NodeEntry]:
    """All nodes but the driver, by name, sorted by package and name."""
    found = [entry for name, entry in all_nodes().items() if name != DRIVER]
    return {entry.name: entry for entry in sorted(found, key=lambda entry: (entry.package, entry.name))}


def all_nodes() -> Mapping[str, NodeEntry]:
    """All nodes by name, the driver included."""
    entries = {}
    for point in entry_points(group=GROUP):
        module, _, class_name = point.value.partition(":")
        entries[point.name] = NodeEntry(point.name, module, class_name)
    return entries


def nodes_of(package: str) -> tuple[str, ...]:
    """Names of the nodes that a package offers, the driver excepted, sorted."""
    return tuple(name for name, entry in node_table().items() if entry.package == package)
