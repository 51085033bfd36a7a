"""Spin until something has happened; and a node with the executor under test that spins it."""

from __future__ import annotations

import time
from collections.abc import Callable

import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node

from testdata.timeouts import PATIENCE


def spin_until(
    condition: Callable[[], bool], spin_once: Callable[[], object], seconds: float = PATIENCE
) -> None:
    """Call `spin_once` as long as the condition does not hold; fail if it does not in time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition did not come true"
        spin_once()


class SpinningNode:
    """A node in an executor of a given kind, in a separate context."""

    def __init__(self, executor: type[SingleThreadedExecutor]) -> None:
        self.context = rclpy.context.Context()
        rclpy.init(context=self.context)
        self.node = Node("tested", context=self.context)
        self.executor = executor(context=self.context)
        self.executor.add_node(self.node)

    def close(self) -> None:
        """Destroy everything."""
        self.executor.shutdown()
        self.node.destroy_node()
        self.context.try_shutdown()

    def spin_until(self, condition: Callable[[], bool]) -> None:
        """Spin as long as the condition does not hold."""
        spin_until(condition, lambda: self.executor.spin_once(0.1))
