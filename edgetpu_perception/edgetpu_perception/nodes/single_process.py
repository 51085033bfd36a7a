"""The driver and other nodes in one process, where models are called without crossing DDS."""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable, Sequence

from rclpy.node import Node
from rclpy.utilities import remove_ros_args

from edgetpu_driver.node_kit.image_node import ImageNode
from edgetpu_driver.node_kit.images.image_subscriptions import Cameras
from edgetpu_driver.node_kit.node_table import node_table, nodes_of
from edgetpu_driver.node_kit.process.spin import run
from edgetpu_driver.nodes.driver_node import DriverNode


def main() -> int:
    """Run the nodes named by --nodes in one executor, with the driver unless --no-driver is given."""
    options = _arguments(_own_arguments())

    def make_nodes() -> Sequence[Node]:
        kinds: list[Callable[[], Node]] = [DriverNode] if options.driver else []
        table, cameras = node_table(), Cameras()
        for name in options.nodes:
            kind = table[name].load()
            shares = issubclass(kind, ImageNode)
            kinds.append(functools.partial(kind, cameras=cameras) if shares else kind)
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
        arguments: Sequence[str] = remove_ros_args(sys.argv)[1:]
        return arguments
    except RuntimeError:  # bad ROS arguments, which `run` reports
        return ()


def _arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="single_process", description="Run nodes and the driver in one process."
    )
    parser.add_argument(
        "--nodes",
        type=_names,
        default=list(nodes_of("edgetpu_perception")),
        help=f"nodes to run, separated by commas, of {', '.join(node_table())} "
        "(default: the perception nodes)",
    )
    parser.add_argument(
        "--no-driver",
        dest="driver",
        action="store_false",
        help="do not run the driver, because another process does",
    )
    return parser.parse_args(arguments)


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    known = node_table()
    for name in names:
        if name not in known:
            raise argparse.ArgumentTypeError(f"expected some of {', '.join(known)}; got '{name}'")
    return names


if __name__ == "__main__":
    sys.exit(main())
