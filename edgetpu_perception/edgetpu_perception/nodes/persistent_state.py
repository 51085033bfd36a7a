"""State that services have set and that survives a restart, in one JSON file for each node."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgetpu_driver.errors import InputError
from edgetpu_driver.files.file_access import read_file, write_file
from edgetpu_driver.node_kit.base_node import BaseNode
from edgetpu_driver.node_kit.printable_text import one_line
from edgetpu_driver.node_kit.state_paths import KEEP_STATE, state_file

FORMAT = 1
"""Version of the files; others are not read."""

LARGEST_FILE = 1_000_000
"""Largest file that is read, bytes; a template of 32x32 px has 25 000."""


class StateError(InputError):
    """A kept state that cannot be used."""


class PersistentState:
    """The state of one node, a JSON file named after the node's full name, replaced atomically.

    It applies only while the node's `parameters` have the values with which it was saved; otherwise the node
    starts as the parameters say. With `keep_state: false` nothing is read or written. A file that cannot be
    read or written is logged as a warning; the node works without it.
    """

    def __init__(self, node: BaseNode, *parameters: str) -> None:
        self._node = node
        self._parameters = {name: _plain(node.values[name]) for name in parameters}
        self._enabled = bool(node.values[KEEP_STATE.name])
        self.problem = ""
        """Why the values saved last are not in the file, in one line; empty if they are."""

    @property
    def path(self) -> Path:
        """The file of this node."""
        return state_file(f"{self._node.full_name}.json")

    def load(self) -> Mapping[str, Any]:
        """Return the values last passed to `save`; empty if there are none that apply."""
        if not self._enabled:
            return {}
        try:
            state = self._read()
        except FileNotFoundError:
            return {}
        except (OSError, StateError) as error:
            self.ignore(error)
            return {}
        if state["parameters"] != self._parameters:
            saved = state["parameters"]
            names = [name for name, value in self._parameters.items() if saved.get(name) != value]
            self._node.get_logger().info(
                f"{self.path} is not used: it is for other values of {', '.join(names or self._parameters)}"
            )
            return {}
        return dict(state["values"])

    def save(self, values: Mapping[str, Any]) -> None:
        """Replace the saved values by others that JSON can hold.

        Returns once they are on disk, or `problem` says why they are not.
        """
        if not self._enabled:
            return
        self.problem = ""
        state = {"format": FORMAT, "parameters": self._parameters, "values": dict(values)}
        try:
            write_file(self.path, json.dumps(state).encode())
        except OSError as error:
            reason = f"cannot write {self.path}: {error.strerror or error}"
            self.problem = one_line(f"not saved, a restart will undo this: {reason}")
            self._node.report_once("state", f"a restart will forget what was set: {reason}")

    def ignore(self, reason: Exception) -> None:
        """Warn that the kept state is not used."""
        text = reason.strerror if isinstance(reason, OSError) and reason.strerror else reason
        self._node.get_logger().warning(
            one_line(f"{self.path} is not used, the parameters apply instead: {text}")
        )

    def _read(self) -> dict[str, Any]:
        data = read_file(self.path, LARGEST_FILE)
        try:
            state = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise StateError(f"expected JSON: {error}") from error
        if not isinstance(state, dict) or state.get("format") != FORMAT:
            got = f"format {state.get('format')}" if isinstance(state, dict) else f"a {type(state).__name__}"
            raise StateError(f"expected a state of format {FORMAT}; got {got}")
        parts = [state.get(key) for key in ("parameters", "values")]
        if not all(isinstance(each, dict) for each in parts):
            got = " and ".join(type(each).__name__ for each in parts)
            raise StateError(f"expected parameters and values by name; got {got}")
        return state


def _plain(value: Any) -> Any:
    """A parameter's value as JSON gives it back."""
    return value if isinstance(value, (str, bool, int, float)) else list(value)
