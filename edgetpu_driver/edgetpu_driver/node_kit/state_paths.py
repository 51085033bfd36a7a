"""Files that nodes write and read again after a restart: their directories and names."""

from __future__ import annotations

import re
from pathlib import Path

from edgetpu_driver.errors import InputError
from edgetpu_driver.files.default_paths import edgetpu_home
from edgetpu_driver.files.file_access import user_path
from edgetpu_driver.node_kit.parameters import Setting

KEEP_STATE = Setting(
    "keep_state",
    True,
    "Keep what services have set (colour, template, classes) in edgetpu/state in $ROS_HOME or ~/.ros, and "
    "restore it at start. A parameter that was changed since then takes precedence.",
)

_FILE_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")


def directory_setting(what: str) -> Setting:
    """Describe the parameter `directory` for a node that keeps files."""
    return Setting(
        "directory", "", f"Directory for files of {what}. Empty: edgetpu/{what} in $ROS_HOME or ~/.ros."
    )


def named_file(directory: str, what: str, name: str, kind: str = "file") -> Path:
    """Path of a file of that name; InputError for a bad name.

    directory: value of the parameter. what: what such files hold, as in `directory_setting`. kind: the
    word for it in the error.
    """
    if not _FILE_NAME.fullmatch(name):
        raise InputError(
            f"expected the name of a {kind}, 1 to 100 letters, digits, _ and -; got {name[:100]!r}"
        )
    parent = user_path(directory) if directory else edgetpu_home() / what
    return parent / f"{name}.npz"


def state_file(name: str) -> Path:
    """Path of the file in which a node keeps its state; `name` with its ending."""
    return edgetpu_home() / "state" / name
