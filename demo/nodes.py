"""The nodes that the demo can show: those of the node table that subscribe to images."""

from __future__ import annotations

from dataclasses import dataclass

from demo.errors import UsageError
from edgetpu_driver.node_kit.node_table import NodeEntry, node_table
from edgetpu_driver.node_kit.result_topics import ResultTopic, ResultValue


@dataclass(frozen=True)
class Value:
    """A number in a result message, and how it is recorded and plotted."""

    field: str
    meaning: str
    unit: str
    sigma: str | None = None
    """Name of the field with its standard deviation."""
    tolerance: float | None = None
    """Largest error of a result that counts as right."""


@dataclass(frozen=True)
class DemoNode:
    """How to start a node that takes images, and how to read the values of its results."""

    name: str
    package: str
    executable: str
    results: ResultTopic
    values: tuple[Value, ...]
    marker: tuple[str, str] | None = None
    """Fields of a position in the picture, in units of `marker_unit`."""
    parameters: frozenset[str] = frozenset()
    needs_model: bool = False
    """Whether the user has to provide its model."""
    marker_unit: str = "half"
    """"half": from -1 at the first pixel's centre to 1 at the last one's; or "px"."""

    @property
    def topic(self) -> str:
        """The absolute name of the result topic."""
        return f"/{self.name}/{self.results.topic}"


def described(entry: NodeEntry) -> DemoNode | None:
    """The node of an entry of the node table; None if it takes no images or describes no result."""
    kind = entry.load()
    results: ResultTopic | None = kind.results
    if results is None or kind.subject != "images":
        return None
    defaults = {setting.name: setting.default for setting in kind.settings}
    return DemoNode(
        name=entry.name,
        package=entry.package,
        executable=entry.executable,
        results=results,
        values=tuple(_value(entry.name, value) for value in results.values),
        parameters=frozenset(defaults),
        needs_model=defaults["model"] != "",
        marker=results.position or PIXEL_POSITIONS.get(entry.name),
        marker_unit="px" if entry.name in PIXEL_POSITIONS else "half",
    )


def _value(node: str, value: ResultValue) -> Value:
    tolerance = TOLERANCES.get((node, value.field))
    return Value(value.field, value.meaning, value.unit, value.sigma or None, tolerance)


PIXEL_POSITIONS = {"pattern_tracker": ("x", "y")}
"""By node: fields with a position in px of the image."""

TOLERANCES = {
    ("spot_tracker", "x"): 0.05,
    ("spot_tracker", "y"): 0.05,
    ("spot_tracker", "bearing_x"): 0.03,
    ("spot_tracker", "bearing_y"): 0.03,
    ("looming", "expansion_rate"): 0.05,
    ("optical_flow", "dx"): 1.5,
    ("optical_flow", "dy"): 1.5,
    ("visual_compass", "yaw"): 0.05,
    ("pattern_tracker", "x"): 2.0,
    ("pattern_tracker", "y"): 2.0,
}
"""Largest errors of results that count as right, by node and field, in the unit of the field."""

NODES = {node.name: node for node in map(described, node_table().values()) if node is not None}
"""The nodes of all installed packages that take images, by name."""

OWN_MODEL = {name: node for name, node in NODES.items() if not node.needs_model}
"""The nodes whose model comes with the suite, by name."""


def select(names: str) -> tuple[DemoNode, ...]:
    """The nodes in a comma-separated list of names; raises UsageError for an unknown name."""
    wanted = list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    unknown = [name for name in wanted if name not in NODES]
    if unknown or not wanted:
        what = f"unknown node {', '.join(unknown)}" if unknown else "no node named"
        raise UsageError(f"{what}; the demo knows {', '.join(NODES)}")
    return tuple(NODES[name] for name in wanted)
