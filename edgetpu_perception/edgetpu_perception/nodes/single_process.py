"""The driver and other nodes in one process, where models are called without crossing DDS."""

from __future__ import annotations

import argparse
import functools
import importlib
import sys
from collections.abc import Callable, Sequence

from rclpy.node import Node
from rclpy.utilities import remove_ros_args

from edgetpu_driver.node_kit.spin import run
from edgetpu_driver.nodes.driver_node import DriverNode
from edgetpu_perception.nodes.shared_images import Cameras

NODES = {
    "looming": "edgetpu_perception.nodes.looming_node:LoomingNode",
    "optical_flow": "edgetpu_perception.nodes.optical_flow_node:OpticalFlowNode",
    "pattern_tracker": "edgetpu_perception.nodes.pattern_tracker_node:PatternTrackerNode",
    "place_recognition": "edgetpu_matrix.nodes.place_recognition_node:PlaceRecognitionNode",
    "reservoir": "edgetpu_matrix.nodes.reservoir_node:ReservoirNode",
    "spectrum": "edgetpu_matrix.nodes.spectrum_node:SpectrumNode",
    "spot_tracker": "edgetpu_perception.nodes.spot_tracker_node:SpotTrackerNode",
    "visual_compass": "edgetpu_perception.nodes.visual_compass_node:VisualCompassNode",
}
"""Where each node is; only those that are asked for are imported."""

EYES = [name for name, place in NODES.items() if place.startswith("edgetpu_perception.")]


def main() -> int:
    """Run the nodes that --nodes asks for in one executor, beside the driver unless --no-driver is given."""
    options = _arguments(_own_arguments())
    kinds: list[Callable[[], Node]] = [DriverNode] if options.driver else []
    cameras = Cameras()
    for name in options.nodes:
        kind = _import(name)
        kinds.append(functools.partial(kind, cameras=cameras) if name in EYES else kind)

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


def _own_arguments() -> Sequence[str]:
    try:
        return remove_ros_args(sys.argv)[1:]
    except RuntimeError:  # bad ROS arguments, of which `run` complains
        return ()


def _arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="single_process", description=main.__doc__)
    parser.add_argument(
        "--nodes", type=_names, default=EYES, help=f"separated by commas, of: {', '.join(NODES)}"
    )
    parser.add_argument(
        "--no-driver", dest="driver", action="store_false", help="the driver runs somewhere else"
    )
    return parser.parse_args(arguments)


def _import(name: str) -> Callable[..., Node]:
    module, _, kind = NODES[name].partition(":")
    node: Callable[..., Node] = getattr(importlib.import_module(module), kind)
    return node


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in NODES:
            raise argparse.ArgumentTypeError(f"expected some of {', '.join(NODES)}; got '{name}'")
    return names


if __name__ == "__main__":
    sys.exit(main())
