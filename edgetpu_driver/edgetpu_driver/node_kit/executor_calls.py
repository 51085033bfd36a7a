"""Calls that other threads hand to the thread of a node's executor."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from weakref import WeakKeyDictionary

from rclpy.exceptions import InvalidHandle
from rclpy.node import Node


class ExecutorCalls:
    """Runs functions in the thread of a node's executor, in the order in which they were added."""

    def __init__(self, node: Node) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._guard = node.create_guard_condition(self._run)

    def add(self, call: Callable[[], None]) -> None:
        """Have the executor call this function soon; may be called by any thread."""
        self._waiting.append(call)
        with suppress(InvalidHandle):  # the node was destroyed: nobody waits for the call
            self._guard.trigger()

    def _run(self) -> None:
        try:
            while self._waiting:
                self._waiting.popleft()()
        finally:
            if self._waiting:  # a call has raised: the others are made in the next round
                self._guard.trigger()


_of_nodes: WeakKeyDictionary[Node, ExecutorCalls] = WeakKeyDictionary()


def executor_calls(node: Node) -> ExecutorCalls:
    """The calls of a node; all its users share one guard condition."""
    calls = _of_nodes.get(node)
    if calls is None:
        calls = _of_nodes[node] = ExecutorCalls(node)
    return calls
