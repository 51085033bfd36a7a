"""Spinning until a condition holds, and a node with the executor under test."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import rclpy
from rclpy.client import Client
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node

from edgetpu_driver.node_kit.middleware.fast_dds_memory.lost_ports import LOOK_PERIOD, PortWatch
from edgetpu_driver.node_kit.process.periodic import Periodic
from testdata.timeouts import PATIENCE

RESEND_SECONDS = 0.25


def spin_until(
    condition: Callable[[], bool], spin_once: Callable[[], object], seconds: float = PATIENCE
) -> None:
    """Call `spin_once` until the condition holds; fail if it does not hold within `seconds`.

    As in nodes, ports of this process that another process has replaced are renewed in the meantime.
    """
    end = time.monotonic() + seconds
    ports = Periodic(LOOK_PERIOD, PortWatch().look)
    while not condition():
        assert time.monotonic() < end, "the condition did not come true"
        ports.run_when_due()
        spin_once()


def ask_until_answered(client: Client, request: Any, spin_once: Callable[[], object]) -> Any:
    """Send a request repeatedly until one is answered; return the answer.

    Answers of a node that has not discovered the client yet are lost (ros2/rmw_fastrtps issue 842).
    """
    futures: list[Any] = []
    resend_at = 0.0

    def answered() -> bool:
        nonlocal resend_at
        if client.service_is_ready() and time.monotonic() > resend_at:
            futures.append(client.call_async(request))
            resend_at = time.monotonic() + RESEND_SECONDS
        return any(future.done() for future in futures)

    spin_until(answered, spin_once)
    return next(future.result() for future in futures if future.done())


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

    def ask(self, client: Client, request: Any) -> Any:
        """Send a request repeatedly until one is answered; return the answer."""
        return ask_until_answered(client, request, lambda: self.executor.spin_once(0.1))

    def spin_until(self, condition: Callable[[], bool]) -> None:
        """Spin until the condition holds."""
        spin_until(condition, lambda: self.executor.spin_once(0.1))
