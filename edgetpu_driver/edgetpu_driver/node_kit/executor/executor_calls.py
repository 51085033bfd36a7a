"""Calls that other threads pass to the thread of a node's executor."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from weakref import WeakKeyDictionary

from rclpy.exceptions import InvalidHandle
from rclpy.node import Node


class ExecutorCalls:
    """Runs functions in the thread of a node's executor, in the order in which they were added.

    An executor that looks for calls before it waits need not be woken for them while it works: it sets
    `awake` then, and calls `fall_asleep` before it waits.
    """

    def __init__(self, node: Node) -> None:
        self.awake = False
        """Whether the executor will look for calls without being woken."""
        self.guard = node.create_guard_condition(self._run)
        """Wakes the executor; its callback makes the calls that wait."""
        self._waiting: deque[Callable[[], None]] = deque()

    def __len__(self) -> int:
        """The number of calls that wait."""
        return len(self._waiting)

    def add(self, call: Callable[[], None]) -> None:
        """Have the executor call this function soon; may be called by any thread."""
        self._waiting.append(call)
        if not self.awake:
            self._wake()

    def fall_asleep(self) -> None:
        """Have the executor woken for calls again, including those that it has not seen."""
        self.awake = False
        if self._waiting:
            self._wake()

    def _run(self) -> None:
        try:
            for _ in range(len(self._waiting)):
                self._waiting.popleft()()
        finally:
            if self._waiting and not self.awake:  # a call has raised, or has added others
                self._wake()

    def _wake(self) -> None:
        with suppress(InvalidHandle):  # the node was destroyed; the call has no receiver
            self.guard.trigger()


_of_nodes: WeakKeyDictionary[Node, ExecutorCalls] = WeakKeyDictionary()


def executor_calls(node: Node) -> ExecutorCalls:
    """The calls of a node; all its users share one guard condition."""
    calls = _of_nodes.get(node)
    if calls is None:
        calls = _of_nodes[node] = ExecutorCalls(node)
    return calls


def calls_of(nodes: Iterable[Node]) -> list[ExecutorCalls]:
    """The calls of those nodes that have any users."""
    return [_of_nodes[node] for node in nodes if node in _of_nodes]
