"""Finds parameters set for a node at start that it does not have, usually because they are misspelt."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from rclpy.node import Node

from edgetpu_driver.errors import InputError
from edgetpu_driver.files.file_access import read_file
from edgetpu_driver.files.plain_yaml import parse_yaml
from edgetpu_driver.node_kit.parameter_sections import sections

_SIMILAR = 0.8
"""Similarity from which a name counts as a misspelling of another, 0..1; qos_depht and qos_depth have 0.9."""

_known: set[str] = set()
"""Parameters of all nodes of this process: values for all nodes also reach those without the parameter."""


def unknown_overrides(
    node: Node, declared: Collection[str], cli_args: Sequence[str] = (), *, own_only: bool = False
) -> list[str]:
    """Describe each parameter that was set for this node and that it does not have, one line each.

    A value for all nodes (`-p name:=value`, or the section `/**` of a parameter file) may be meant for
    another node, so it is only reported if its name resembles one of this node's, and not at all if
    `own_only`.
    """
    _known.update(declared)
    # Not part of rclpy's interface; without it nothing is reported.
    overrides: Mapping[str, Any] = getattr(node, "_parameter_overrides", {})
    unknown = [name for name in overrides if not node.has_parameter(name) and name not in _known]
    unknown = [name for name in unknown if not name.startswith("qos_overrides.")]
    if not unknown:
        return []
    own = set(_names_of_own_sections(node.get_name(), [*sys.argv, *cli_args]))
    lines = []
    for name in sorted(unknown):
        similar = difflib.get_close_matches(name, declared, 1, _SIMILAR)
        if name not in own and (own_only or not similar):
            continue
        hint = f"did you mean '{similar[0]}'?" if similar else f"there are {', '.join(sorted(declared))}"
        lines.append(f"there is no parameter '{name}'; {hint}")
    return lines


def _names_of_own_sections(node: str, arguments: Sequence[str]) -> Iterator[str]:
    """Names of parameters in those sections of the parameter files that end in the name of the node."""
    for option, value in pairwise(arguments):
        if option != "--params-file":
            continue
        try:
            tree = parse_yaml(read_file(value))
        except (OSError, InputError):
            continue
        for name, values in sections(tree):
            if name.rpartition("/")[2] == node:
                yield from map(str, values)
