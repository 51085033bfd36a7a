"""Holds requests taken from the middleware until they are handled, the most urgent first."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable

from rclpy.clock import Clock, ClockType
from rclpy.node import Node

from edgetpu_driver.host.requests.request_queue import LONGEST_NEGLECT
from edgetpu_driver.host.requests.request_terms import Priority
from edgetpu_driver.node_kit.executor.executor_calls import executor_calls

HANDLED_AT_ONCE = 2
"""Requests that are handled before the executor looks for new ones, which may be more urgent.

Rows: fairness, a client at 60 Hz during 50 in flight, p99 of the client. A check costs half of a request.
"""

MAX_WAITING = 500
"""Requests that may wait; a round handles any further ones, so that the middleware limits what clients can
send. Given by 50 clients with 10 requests in flight."""

REST = 0.001
"""Seconds between two rounds that handle requests while a client sends urgent ones. Without it,
a flood would take the interpreter and the processor from the thread that works on an urgent request.

Rows: fairness, a client at 60 Hz during 50 in flight, added p99 in the driver."""

REST_AFTER_URGENT = 0.1
"""Seconds after an urgent request in which the next is expected. Given by control loops of 10 Hz or more."""

MAX_NEGLECT = LONGEST_NEGLECT
"""Seconds after which a class of requests gets a turn, however many more urgent ones there are."""

MAX_WAIT = 1.0
"""Seconds after which a request is handled in the order of arrival. Single turns of its class would take 25 s
for MAX_WAITING requests."""


class RequestIntake:
    """Hands requests to their handlers in the executor's thread, a few in each of its rounds.

    The middleware gives requests in the order of their arrival. Taking one costs little, handling it much:
    all are taken as soon as they arrive, so that an urgent one need not wait for those before it. A
    request of `Priority.REAL_TIME` is handled when it is taken.
    """

    def __init__(self, node: Node) -> None:
        self._calls = executor_calls(node)
        self._wake = node.create_guard_condition(self._in_this_round)
        self._rest = node.create_timer(REST, self._end_rest, clock=Clock(clock_type=ClockType.STEADY_TIME))
        self._rest.cancel()
        self._last_urgent = -math.inf
        self._waiting: dict[int, deque[tuple[float, Callable[[], None]]]] = {}
        """Times of arrival and handlers by priority."""
        self._turns: dict[int, float] = {}
        """When each priority that waits has had its last turn, or has begun to wait."""
        self._count = 0

    def add(self, priority: int, handle: Callable[[], None]) -> None:
        """Have a request handled. A lower priority goes first; the executor gets exceptions of `handle`."""
        if priority <= Priority.REAL_TIME:
            self._last_urgent = time.monotonic()
            handle()
            return
        now = time.monotonic()
        if priority not in self._waiting:
            self._waiting[priority], self._turns[priority] = deque(), now
        self._waiting[priority].append((now, handle))
        self._count += 1
        if self._count == 1:
            self._in_this_round()

    def _in_this_round(self) -> None:
        """Handle requests when the executor has taken all that have arrived."""
        self._calls.add(self._handle_some)

    def _handle_some(self) -> None:
        try:
            for _ in range(min(max(HANDLED_AT_ONCE, self._count - MAX_WAITING), self._count)):
                self._pop()()
        finally:  # what one of them raises must not hold up the others
            self._go_on()

    def _go_on(self) -> None:
        """Have the executor make another round, if there are requests left."""
        if not self._count:
            return
        if time.monotonic() - self._last_urgent < REST_AFTER_URGENT and self._count < MAX_WAITING:
            self._rest.reset()
        else:
            self._wake.trigger()

    def _end_rest(self) -> None:
        self._rest.cancel()
        self._in_this_round()

    def _pop(self) -> Callable[[], None]:
        """Take out the request that is to be handled next."""
        now = time.monotonic()
        priority = self._next_class(now)
        _, handle = self._waiting[priority].popleft()
        self._turns[priority] = now
        if not self._waiting[priority]:
            del self._waiting[priority], self._turns[priority]
        self._count -= 1
        return handle

    def _next_class(self, now: float) -> int:
        oldest = min(self._waiting, key=lambda priority: self._waiting[priority][0][0])
        if now - self._waiting[oldest][0][0] > MAX_WAIT:
            return oldest
        longest = min(self._turns, key=self._turns.__getitem__)
        return longest if now - self._turns[longest] > MAX_NEGLECT else min(self._waiting)
