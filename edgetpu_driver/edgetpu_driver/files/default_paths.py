"""Default paths of models and firmware."""

from __future__ import annotations

import os
from pathlib import Path

from edgetpu_driver.errors import InputError
from edgetpu_driver.files.file_access import user_path

FIRMWARE_FILE = "apex_latest_single_ep.bin"
"""The vendor's image for a stick in boot mode."""


def edgetpu_home() -> Path:
    """The directory of models and firmware: edgetpu in $ROS_HOME or ~/.ros."""
    return user_path(os.environ.get("ROS_HOME") or "~/.ros") / "edgetpu"


def firmware_path() -> Path:
    """The file that a stick's firmware is loaded from by default."""
    return edgetpu_home() / FIRMWARE_FILE


def default_model_dir() -> Path:
    """The default directory of models, for reading and writing."""
    return edgetpu_home() / "models"


def model_output_dir() -> Path:
    """The same directory, for writing; InputError if the home directory it begins with is unknown.

    A directory with the name ~ would be made otherwise.
    """
    directory = default_model_dir()
    if directory.parts[0].startswith("~"):
        raise InputError(
            f"there is no home directory for {directory}: set HOME or ROS_HOME, or give --output DIR"
        )
    return directory
