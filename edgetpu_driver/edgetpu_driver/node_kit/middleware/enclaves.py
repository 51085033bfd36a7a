"""SROS 2 enclaves of the processes that a launch file or another node starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

ENCLAVES = "/edgetpu_ros"
"""Path of the enclaves; that of a node follows, under the node's name."""

ENCLAVE_OPTIONS = ("-e", "--enclave")
"""ROS arguments that the path of an enclave follows."""


def enclave_arguments(path: str, name: str, environment: Mapping[str, str]) -> list[str]:
    """Return ROS arguments for the enclave `name` below `path`; none if the graph is not secured."""
    if environment.get("ROS_SECURITY_ENABLE") != "true":
        return []
    return ["--enclave", f"{path.rstrip('/')}/{name}"]


def sibling_enclave(arguments: Sequence[str], name: str) -> list[str]:
    """Return the ROS arguments that give another node its enclave, next to this one's; none without one.

    arguments: the command line of this node.
    """
    for argument, enclave in pairwise(arguments):
        if argument in ENCLAVE_OPTIONS:
            return ["--enclave", f"{enclave.rpartition('/')[0]}/{name}"]
    return []
