"""Decides when to take requests of megabytes from the middleware, so that urgent ones need not wait."""

from __future__ import annotations

import math
import time
from array import array
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.service import Service

from edgetpu_driver.host.background_thread import BackgroundThread
from edgetpu_driver.host.requests.request_queue import LONGEST_NEGLECT
from edgetpu_driver.node_kit.executor.executor_calls import executor_calls
from edgetpu_driver.node_kit.executor.request_intake import REST_AFTER_URGENT
from edgetpu_driver.node_kit.process.touched_memory import touch_memory

QUICK = 0.001
"""Processor time, s, below which taking a request is not postponed. Derived: half of the time that others may
add to an urgent request. Taking 3 MB needs as much."""

USUAL_BYTES = 16 << 20
"""Size that the first large request is expected to have: a matrix of 2048 x 2048 in float32."""

_BLOCKS = 2
"""Blocks of the size of a request that are allocated at the same time while it is taken. Given by
rmw_fastrtps and rclpy: the middleware's and the message in C, then that and the one in Python."""

_ATTRIBUTE = "edgetpu_large_requests"


class LargeRequests:
    """Postpones requests that take long to read, until no urgent one is under way or expected soon.

    rclpy holds the interpreter lock while it takes a request: 5.5 ms for one of 16 MiB, and 36 ms if the heap
    has to get the memory for it. Meanwhile no other request can be taken and no answer sent. A request is
    expected to be like the last one to its service; the first is expected to be large. While urgent requests
    come, a request that is expected to be large waits until another thread has got the memory and no urgent
    request is under way: control loops send the next one a period after the answer. It waits for
    LONGEST_NEGLECT at most.
    """

    def __init__(self, node: Node) -> None:
        self.postponed: set[Service] = set()
        """The services whose requests the executor is to leave in the middleware."""
        self._calls = executor_calls(node)
        self._patience = node.create_timer(
            LONGEST_NEGLECT, self._give_turns, clock=Clock(clock_type=ClockType.STEADY_TIME)
        )
        self._patience.cancel()
        self._turns: set[Service] = set()
        """Services from which one request is always taken."""
        self._seconds: dict[Service, float] = {}
        """Processor time for taking the last request, s."""
        self._bytes = USUAL_BYTES
        """Size of the last large request, bytes."""
        self._memory = BackgroundThread("edgetpu memory")
        self._under_way: set[object] = set()
        """The urgent requests without an answer."""
        self._last_urgent = -math.inf

    def apply_to(self, service: Service) -> None:
        """Expect large requests to this service."""
        setattr(service, _ATTRIBUTE, self)

    def noting_urgent(self, respond: Callable[[Any], None]) -> Callable[[Any], None]:
        """Note an urgent request; returns the function that sends its answer, which may be called twice."""
        request = object()
        self._under_way.add(request)
        self._last_urgent = time.monotonic()

        def respond_and_note(response: Any) -> None:
            respond(response)
            self._under_way.discard(request)
            if self.postponed and not (self._under_way or self._memory.pending):
                self._give_turns()

        return respond_and_note

    def may_take(self, service: Service) -> bool:
        """Whether the executor is to take a request to the service now; otherwise it is postponed."""
        if service in self._turns:
            self._turns.discard(service)
            return True
        is_quick = self._seconds.get(service, QUICK) < QUICK
        if is_quick or time.monotonic() - self._last_urgent >= REST_AFTER_URGENT:
            return True
        self.postponed.add(service)
        self._patience.reset()
        with suppress(RuntimeError):  # no thread can be started
            self._memory.submit(partial(touch_memory, _BLOCKS * self._bytes))
        return False

    def took(self, service: Service, request: Any, seconds: float) -> bool:
        """Note the processor time, s, that taking a request needed; returns whether it was a large one."""
        self._seconds[service] = seconds
        if seconds < QUICK:
            return False
        self._bytes = _bytes_of(request)
        return True

    def _give_turns(self) -> None:
        """Have one request to each postponed service taken; may be called by any thread."""
        services = set(self.postponed)
        self._turns |= services
        self.postponed -= services
        self._calls.add(self._end_patience)  # which wakes the executor

    def _end_patience(self) -> None:
        if not self.postponed:
            self._patience.cancel()


def _bytes_of(request: Any) -> int:
    """Size of the largest array in a request, bytes."""
    fields = [getattr(request, name) for name in request.get_fields_and_field_types()]
    return max((len(each) * each.itemsize for each in fields if isinstance(each, array)), default=0)


def large_requests_of(service: Any) -> LargeRequests | None:
    """The object that decides when to take requests to a service; None: as soon as they arrive."""
    large: LargeRequests | None = getattr(service, _ATTRIBUTE, None)
    return large
