"""The sections of a parameter file, and the values that they give to a node."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from edgetpu_driver.errors import InputError
from edgetpu_driver.files.file_access import read_file
from edgetpu_driver.files.plain_yaml import parse_yaml

_VALUES = "ros__parameters"
_WILDCARDS = {"**": r"(/\w+)*", "*": r"/\w+"}
"""Part of the name of a section -> regular expression. Given by rcl."""


def values_in_file(path: Path, node: str) -> dict[str, Any]:
    """Return the values by parameter that a file has for a node; InputError if it cannot be read.

    node: full name, "/robot/contact_guard". As with rcl, the last section that matches the name counts.
    """
    try:
        tree = parse_yaml(read_file(path))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    values: dict[str, Any] = {}
    for name, section in sections(tree):
        if _matches(name, node):
            values |= section
    return values


def sections(tree: Any, name: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """The names of the sections of a parsed file, which nested keys make together, and their values.

    name: that of the part of a file that `tree` is.
    """
    for key, value in tree.items() if isinstance(tree, dict) else ():
        if key != _VALUES:
            yield from sections(value, f"{name}/{str(key).strip('/')}")
        elif isinstance(value, dict):
            yield name, value


def _matches(name: str, node: str) -> bool:
    parts = (_WILDCARDS.get(part) or "/" + re.escape(part) for part in name.split("/")[1:])
    return re.fullmatch("".join(parts), node) is not None
