"""Finds the executables of ROS packages as `ros2 run` does."""

from __future__ import annotations

import os
from pathlib import Path


def installed_executable(package: str, name: str) -> Path | None:
    """Return the path of an executable in the sourced ROS environment; None if it is not installed."""
    for prefix in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep):
        path = Path(prefix, "lib", package, name)
        if prefix and os.access(path, os.X_OK):
            return path
    return None
