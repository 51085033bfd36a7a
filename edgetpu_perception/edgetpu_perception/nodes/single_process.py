"""The driver and the perception nodes in one process, where models are called without crossing DDS."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from rclpy.node import Node
from rclpy.utilities import remove_ros_args

from edgetpu_driver.ros.driver_node import DriverNode
from edgetpu_driver.ros.spin import run
from edgetpu_perception.nodes.looming_node import LoomingNode
from edgetpu_perception.nodes.optical_flow_node import OpticalFlowNode
from edgetpu_perception.nodes.pattern_tracker_node import PatternTrackerNode
from edgetpu_perception.nodes.spot_tracker_node import SpotTrackerNode
from edgetpu_perception.nodes.visual_compass_node import VisualCompassNode

NODES: dict[str, Callable[[], Node]] = {
    "looming": LoomingNode,
    "optical_flow": OpticalFlowNode,
    "pattern_tracker": PatternTrackerNode,
    "spot_tracker": SpotTrackerNode,
    "visual_compass": VisualCompassNode,
}
"""All perception nodes, by their names."""


def main() -> int:
    """Run the nodes that --nodes asks for in one executor, beside the driver unless --no-driver is given."""
    options = _arguments(remove_ros_args(sys.argv)[1:])
    kinds = ([DriverNode] if options.driver else []) + [NODES[name] for name in options.nodes]

    def make_nodes() -> Sequence[Node]:
        nodes: list[Node] = []
        try:
            for kind in kinds:
                nodes.append(kind())  # noqa: PERF401 - those made must be known when one fails
        except BaseException:
            for node in reversed(nodes):
                node.destroy_node()
            raise
        return nodes

    return run(make_nodes)


def _arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="single_process", description=main.__doc__)
    parser.add_argument(
        "--nodes", type=_names, default=list(NODES), help=f"separated by commas, of: {', '.join(NODES)}"
    )
    parser.add_argument(
        "--no-driver", dest="driver", action="store_false", help="the driver runs somewhere else"
    )
    return parser.parse_args(arguments)


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in NODES:
            raise argparse.ArgumentTypeError(f"expected some of {', '.join(NODES)}; got '{name}'")
    return names


if __name__ == "__main__":
    sys.exit(main())
