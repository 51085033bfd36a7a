"""How far nodes are discovered through DDS, for launch files: by default on this computer only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

RANGE = "ROS_AUTOMATIC_DISCOVERY_RANGE"
LOCALHOST_ONLY = "ROS_LOCALHOST_ONLY"
"""Takes precedence over RANGE where it is 1; deprecated since Iron."""

DISCOVERY_VARIABLES = (RANGE, LOCALHOST_ONLY, "ROS_STATIC_PEERS", "ROS_DISCOVERY_SERVER", "CYCLONEDDS_URI")
"""Environment variables by which a user sets the range of discovery."""

SCOPES = ("", "localhost", "subnet")
"""Values of the launch argument dds_scope; empty: what the environment says, otherwise localhost."""

_WITHOUT_RANGE = ("foxy", "galactic", "humble")
"""Distributions that do not know RANGE."""


@dataclass(frozen=True)
class DiscoveryRange:
    """How far the nodes of a launch file are discovered."""

    environment: Mapping[str, str]
    """Variables to set for their processes."""
    text: str
    """One line for the log."""


def discovery_range(scope: str, environment: Mapping[str, str]) -> DiscoveryRange:
    """Choose the range for a value of dds_scope, one of SCOPES, in an environment.

    ROS 2 Humble has no range; a scope is then expressed by ROS_LOCALHOST_ONLY, and only when it was asked
    for, because processes with different values of that variable do not find each other.
    """
    chosen = [name for name in DISCOVERY_VARIABLES if environment.get(name)]
    if not scope and chosen:
        values = ", ".join(f"{name}={environment[name]}" for name in chosen)
        return DiscoveryRange({}, f"DDS discovery: as the environment says, {values}")
    local = scope != "subnet"
    variables = {LOCALHOST_ONLY: "1" if local else "0"}
    if environment.get("ROS_DISTRO") not in _WITHOUT_RANGE:
        # An old setting of LOCALHOST_ONLY would win.
        variables = {RANGE: "LOCALHOST" if local else "SUBNET"} | (
            {LOCALHOST_ONLY: "0"} if environment.get(LOCALHOST_ONLY) else {}
        )
    elif not scope:
        return DiscoveryRange(
            {},
            f"DDS discovery: the whole subnet, because ROS 2 {environment['ROS_DISTRO']} has no "
            f"{RANGE}; set {LOCALHOST_ONLY}=1 for every process to stay on this computer",
        )
    where = "this computer only" if local else "the whole subnet"
    hint = "; dds_scope:=subnet opens it" if local else ""
    values = ", ".join(f"{name}={value}" for name, value in variables.items())
    return DiscoveryRange(variables, f"DDS discovery: {where} ({values}){hint}")
