"""Messages to matrix nodes, and the results that they publish."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from std_msgs.msg import Float32MultiArray

from edgetpu_msgs.srv import (
    TrainReadout,
)
from testdata.timeouts import PATIENCE

MATRIX = "edgetpu_matrix"
QUEUE_DEPTH = 1000
"""Number of messages, large enough to lose none if a process stands still for a while."""


def options(directory: Path) -> dict[str, Any]:
    """Parameters of every matrix node: it writes to the directory, and loses no message."""
    return {
        "model_dir": directory,
        "directory": directory,
        "model": "dense_64",
        "qos_reliability": "reliable",
        "qos_depth": QUEUE_DEPTH,
    }


def start_matrix_driver(start_node: Callable[..., Any], directory: Path) -> Any:
    """Start a driver with a virtual stick and the models of that directory."""
    return start_node("edgetpu_driver", "edgetpu_node", backend="virtual", model_dirs=f"['{directory}']")


def numbers(values: Any) -> Float32MultiArray:
    """A message of these values."""
    return Float32MultiArray(data=np.atleast_1d(values).astype(np.float32).tolist())


def time_of(seconds: float) -> Time:
    """The stamp of a time, s."""
    nanoseconds = round(seconds * 1e9)
    return Time(sec=nanoseconds // 10**9, nanosec=nanoseconds % 10**9)


class Exchange:
    """Publishes on a topic of a node, and waits for the results."""

    def __init__(
        self, graph: Any, kind: Any, topic: str, result: Any, results: str, listeners: int = 1
    ) -> None:
        self._graph = graph
        self._publisher = graph.node.create_publisher(kind, topic, QUEUE_DEPTH)
        self.results = graph.collect(result, results, QUEUE_DEPTH)
        graph.spin_until(lambda: self._publisher.get_subscription_count() == listeners)
        graph.meet(results.rpartition("/")[0])
        graph.spin_until(lambda: graph.node.count_publishers(results) > 0)

    def say(self, message: Any) -> None:
        """Publish a message."""
        self._publisher.publish(message)

    def wait(self, count: int = 1) -> list[Any]:
        """Wait for `count` results, remove them and return them."""
        self._graph.spin_until(lambda: len(self.results) >= count)
        found: list[Any] = self.results[:count]
        del self.results[:count]
        return found

    def ask(self, message: Any) -> Any:
        """Publish a message, and wait for its result."""
        self.results.clear()
        self.say(message)
        return self.wait()[0]

    def ask_again(self, message: Any) -> Any:
        """As `ask`, for a node without state: publish again if the driver did not answer the node in time."""
        self.results.clear()
        while not self.results:
            self.say(message)
            self._graph.spin_for(PATIENCE / 4, lambda: bool(self.results))
        return self.wait()[0]


def train(graph: Any, node: str, samples: int, **options: Any) -> Any:
    """Train a readout as soon as `samples` samples with targets have arrived; return the answer."""
    answers: list[Any] = []

    def trained() -> bool:
        answers.append(graph.call(TrainReadout, f"{node}/train_readout", **options))
        return bool(answers[-1].samples >= samples)

    graph.spin_until(trained)
    return answers[-1]


EMBEDDINGS = np.random.default_rng(8).normal(size=(150, 80))
"""Embeddings of 150 places."""
