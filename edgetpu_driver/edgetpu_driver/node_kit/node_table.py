"""The table of nodes: the entry points of the installed packages in the group `edgetpu.nodes`.

A package adds a node with one line of its setup.cfg; the node's name is also the name of its executable,
except for the driver:

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

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import Any

from edgetpu_driver.errors import DependencyMissingError

GROUP = "edgetpu.nodes"

DRIVER = "edgetpu"
"""Name of the driver node, which every graph has and which is therefore never selected by name."""


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
        """The name of its executable: the name of the node, except for the driver."""
        return "edgetpu_node" if self.name == DRIVER else self.name

    def load(self) -> Any:
        """Import the node's class, a subclass of BaseNode.

        DependencyMissingError if it needs a package that is not installed.
        """
        try:
            return getattr(import_module(self.module), self.class_name)
        except ModuleNotFoundError as error:
            if find_spec((error.name or __name__).partition(".")[0]) is not None:
                raise  # a mistake in the node's own imports
            raise missing_package(self.name, error) from None


def missing_package(what: str, error: ModuleNotFoundError) -> DependencyMissingError:
    """Make the error that says which package to install for something."""
    package = (error.name or "").partition(".")[0]
    if package.endswith(("_msgs", "_interfaces")):
        distribution = os.environ.get("ROS_DISTRO", "$ROS_DISTRO")
        cure = f"apt install ros-{distribution}-{package.replace('_', '-')}, or rosdep install"
    else:
        cure = "rosdep install, or pip install"
    return DependencyMissingError(f"{what} needs {package}, which is not installed: {cure}")


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
