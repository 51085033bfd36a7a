"""The taught classes of a learner, kept over a restart in a file for each node."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from edgetpu_driver.errors import EdgeTpuError
from edgetpu_driver.node_kit.base_node import BaseNode
from edgetpu_driver.node_kit.printable_text import counted, one_line
from edgetpu_driver.node_kit.state_paths import KEEP_STATE, state_file
from edgetpu_vision.learning.taught_examples import TaughtExamples


class PersistentClasses:
    """The examples of one node, in a file named after its full name and the parameter `classes`.

    After a change of that parameter the node therefore starts with the classes that it names. With
    `keep_state: false` nothing is read or written. If the file cannot be read or written, the node logs a
    warning and continues.
    """

    def __init__(self, node: BaseNode) -> None:
        self._node = node
        self._enabled = bool(node.values[KEEP_STATE.name])
        self.problem = ""
        """Why the classes saved last are not in the file, in one line; empty if they are."""

    @property
    def path(self) -> Path:
        """The file of this node."""
        names = (self._node.full_name, self._node.values["classes"], "npz")
        return state_file(".".join(name for name in names if name))

    def load(self) -> TaughtExamples | None:
        """Return the examples saved last; None if there are none."""
        if not self._enabled or not os.path.exists(self.path):
            return None
        try:
            # The capacity limits what is added: a lower one must not make the next lesson replace the file.
            examples = TaughtExamples.load(self.path, sys.maxsize)
        except EdgeTpuError as error:
            line = f"what was taught before the restart is not used: {error}"
            self._node.get_logger().warning(one_line(line))
            return None
        examples.capacity = self._node.values["capacity"]
        if not len(examples):
            return examples
        classes = ", ".join(examples.classes)
        self._node.get_logger().info(
            f"{counted(len(examples), 'example')} from before the restart: {classes}"
        )
        return examples

    def save(self, examples: TaughtExamples) -> None:
        """Replace the saved examples; returns once they are on disk, or `problem` says why they are not."""
        if not self._enabled:
            return
        self.problem = ""
        try:
            examples.save(self.path)
        except EdgeTpuError as error:
            self.problem = f"not saved, a restart will undo this: {error}"
            self._node.report_once("state", f"a restart will forget what was taught: {error}")
