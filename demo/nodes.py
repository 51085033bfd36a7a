"""The perception nodes the demo can show: the one table to extend when a node is added."""

from __future__ import annotations

from dataclasses import dataclass

from .errors import UsageError


@dataclass(frozen=True)
class Value:
    """One number of a result message, as it is recorded and plotted."""

    field: str
    meaning: str
    unit: str
    sigma: str | None = None  # the field with its standard deviation
    tolerance: float | None = None  # how far from the truth a result may be and still count as right


@dataclass(frozen=True)
class PerceptionNode:
    """How to start a perception node and how to read what it publishes.

    Every result message has `header`, `valid` and `confidence` besides the values named here.
    """

    name: str
    package: str
    executable: str
    result: str  # topic below the node's name
    message: str  # "package/msg/Type"
    values: tuple[Value, ...]
    marker: tuple[str, str] | None = None  # fields that are a place in the picture, -1 first to 1 last pixel

    @property
    def topic(self) -> str:
        """The absolute name of the result topic."""
        return f"/{self.name}/{self.result}"

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that make a row, in order: validity first, then each value with its sigma."""
        numbers = [name for value in self.values for name in (value.field, value.sigma) if name]
        return ("valid", "confidence", *numbers)


NODES = {
    node.name: node
    for node in (
        PerceptionNode(
            name="spot_tracker",
            package="edgetpu_perception",
            executable="spot_tracker",
            result="servo_error",
            message="edgetpu_msgs/msg/ServoError",
            values=(
                Value("x", "offset from the centre, right positive", "half widths", "x_sigma", 0.05),
                Value("y", "offset from the centre, down positive", "half heights", "y_sigma", 0.05),
                Value("bearing_x", "direction, right positive", "rad", "bearing_x_sigma", 0.03),
                Value("bearing_y", "direction, down positive", "rad", "bearing_y_sigma", 0.03),
            ),
            marker=("x", "y"),
        ),
        PerceptionNode(
            name="looming",
            package="edgetpu_perception",
            executable="looming",
            result="time_to_contact",
            message="edgetpu_msgs/msg/TimeToContact",
            values=(
                Value("expansion_rate", "growth of the image", "1/s", "expansion_rate_sigma"),
                Value("ttc", "time to contact", "s", "ttc_sigma"),
                Value("tau", "edge energy of the centre over the rest", ""),
            ),
        ),
        PerceptionNode(
            name="optical_flow",
            package="edgetpu_perception",
            executable="optical_flow",
            result="flow",
            message="edgetpu_msgs/msg/Flow",
            values=(
                Value("dx", "motion of the content, right positive", "px", "dx_sigma"),
                Value("dy", "motion of the content, down positive", "px", "dy_sigma"),
            ),
        ),
        PerceptionNode(
            name="visual_compass",
            package="edgetpu_perception",
            executable="visual_compass",
            result="heading",
            message="edgetpu_msgs/msg/Heading",
            values=(
                Value("yaw", "heading, left positive", "rad", "yaw_sigma", 0.05),
                Value("yaw_rate", "turning, left positive", "rad/s", "yaw_rate_sigma"),
            ),
        ),
        PerceptionNode(
            name="pattern_tracker",
            package="edgetpu_perception",
            executable="pattern_tracker",
            result="match",
            message="edgetpu_msgs/msg/PatternMatch",
            values=(
                Value("x", "centre, right positive", "px", "x_sigma"),
                Value("y", "centre, down positive", "px", "y_sigma"),
                Value("score", "normalised cross-correlation", ""),
            ),
        ),
    )
}


def select(names: str) -> tuple[PerceptionNode, ...]:
    """The nodes of a comma-separated list of names; UsageError for a name the table does not have."""
    wanted = list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    unknown = [name for name in wanted if name not in NODES]
    if unknown or not wanted:
        what = f"unknown node {', '.join(unknown)}" if unknown else "no node named"
        raise UsageError(f"{what}; the demo knows {', '.join(NODES)}")
    return tuple(NODES[name] for name in wanted)
