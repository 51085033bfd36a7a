"""SROS 2 enclaves of the processes that a launch file starts."""

from __future__ import annotations

from collections.abc import Mapping

ENCLAVES = "/edgetpu_ros"
"""Path of the enclaves; a node's own has its name below."""


def enclave_arguments(path: str, name: str, environment: Mapping[str, str]) -> list[str]:
    """Return ROS arguments for the enclave `name` below `path`; none if the graph is not secured."""
    if environment.get("ROS_SECURITY_ENABLE") != "true":
        return []
    return ["--enclave", f"{path.rstrip('/')}/{name}"]
