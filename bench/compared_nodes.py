"""The nodes that are compared with plain nodes, each with its model."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from edgetpu_driver.node_kit.node_table import node_table
from edgetpu_driver.node_kit.result_topics import ResultTopic

MODELS = {
    "looming": "looming_64x64",
    "optical_flow": "features1_64x64",
    "pattern_tracker": "pattern_64x64_16x16",
    "spot_tracker": "spot_bright_64x64",
    "visual_compass": "features1_64x64",
}
"""Name of each node's graph, the one that the suite's node uses."""


def result_topics() -> Mapping[str, ResultTopic]:
    """The result topic of each of these nodes, by name. Imports the nodes."""
    return {name: result_topic(name) for name in MODELS}


@functools.cache
def result_topic(name: str) -> ResultTopic:
    """The result topic of a node of the suite. Imports the node."""
    topic: ResultTopic = node_table()[name].load().results
    return topic


def package_of(name: str) -> str:
    """The package that installs the executable of a node."""
    return node_table()[name].package
