"""Calls that other threads pass to the thread of a node's executor."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from weakref import WeakKeyDictionary

from rclpy.exceptions import InvalidHandle
from rclpy.node import Node

SOON = 0.003
"""Seconds for which the executor waits for a call that came as soon the last time. Derived: the nodes of
perception start their work on an image within 1 ms, and an inference on a stick on USB 3 takes 0.9 ms."""


class ExecutorCalls:
    """Runs functions in the thread of a node's executor, in the order in which they were added.

    An executor that looks for calls before it waits need not be woken for them while it works: it sets
    `awake` then, and calls `fall_asleep` before it waits.
    """

    def __init__(self, node: Node) -> None:
        self.awake: threading.Event | None = None
        """Set for each call, if the executor will look for calls without being woken; else None."""
        self.guard = node.create_guard_condition(self._run)
        """Wakes the executor; its callback makes the calls that wait."""
        self._waiting: deque[Callable[[], None]] = deque()
        self._asked: float | None = None
        self._comes_soon = False

    def __len__(self) -> int:
        """The number of calls that wait."""
        return len(self._waiting)

    def expect(self) -> None:
        """Note that another thread is now asked for a call."""
        self._asked = time.monotonic()

    @property
    def due(self) -> float:
        """Until when the executor should wait for a call before it does anything else: monotonic time, s.

        In the past if no call is expected, or if the last one that was expected took longer than SOON.
        """
        asked = self._asked
        return asked + SOON if asked is not None and self._comes_soon else 0.0

    def add(self, call: Callable[[], None]) -> None:
        """Have the executor call this function soon; may be called by any thread."""
        asked, self._asked = self._asked, None
        if asked is not None:
            self._comes_soon = time.monotonic() - asked <= SOON
        self._waiting.append(call)
        awake = self.awake
        if awake is None:
            self._wake()
        else:
            awake.set()

    def fall_asleep(self) -> None:
        """Have the executor woken for calls again, including those that it has not seen."""
        self.awake = None
        if self._waiting:
            self._wake()

    def _run(self) -> None:
        try:
            for _ in range(len(self._waiting)):
                self._waiting.popleft()()
        finally:
            if self._waiting and self.awake is None:  # a call has raised, or has added others
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
