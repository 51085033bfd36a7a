"""The waiting requests of a host: admission, order and expiry."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence

from edgetpu_driver.host.requests import weight_access
from edgetpu_driver.host.requests.admission import Admission, Backlog
from edgetpu_driver.host.requests.answers import Answers
from edgetpu_driver.host.requests.request import Kind, Request
from edgetpu_driver.host.requests.request_deadlines import is_overdue
from edgetpu_driver.host.requests.request_queue import RequestQueue, Staying
from edgetpu_driver.host.requests.request_terms import Priority

LOOK_PERIOD = 0.25
"""Seconds by which the answer to a request that has waited too long may be late."""
PATIENCE = 1.0
"""Seconds after which bulk work that waits is treated as normal, so that it makes progress in any case."""


class WaitingRequests:
    """A RequestQueue that also counts the waiting swaps of each model. Not thread-safe."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._queue: RequestQueue[Request] = RequestQueue()
        self._promoted = self._looked = 0.0

    def __len__(self) -> int:
        return len(self._queue)

    def __iter__(self) -> Iterator[Request]:
        return iter(self._queue)

    def admit(self, client: str, sticks: int, others: Sequence[WaitingRequests]) -> None:
        """Raise BusyError if no further request of a client may wait.

        sticks: number that share the work. others: queues whose requests count for the limits as well.
        """
        queues = [self._queue, *(each._queue for each in others)]
        self._admission.admit(client, Backlog.of(queues, client, sticks))

    def push(self, request: Request) -> None:
        """Add a request."""
        swap = request.model.requests.swap
        weight_access.note_waiting(request)
        self._queue.push(request)
        if swap is not None and request.kind is not Kind.INVOKE and request.priority < swap.priority:
            # A swap is as urgent as a request that waits for its end; inferences do not wait for it.
            waiting = self._queue.remove(lambda each: each is swap)
            swap.priority = request.priority
            for each in waiting:
                self._queue.push(each)

    def pop(self, may_run: Callable[[Hashable], bool], staying: Staying, stick: int) -> Request | None:
        """Take out the request that a stick is to run next; None if it can run none."""
        self._promote(staying.now)
        request = self._queue.pop(may_run, staying, staying.now, stick)
        if request is not None:
            weight_access.note_taken(request)
        return request

    def most_urgent(self, may_run: Callable[[Hashable], bool]) -> int | None:
        """The class of the request that `pop` would return."""
        return self._queue.most_urgent(may_run)

    def charge(self, client: str, priority: int, seconds: float) -> None:
        """See RequestQueue.charge."""
        self._queue.charge(client, priority, seconds)

    def expire(self, now: float) -> list[Request]:
        """Take out the requests whose deadline has passed."""
        return self._taken(self._queue.expire(now))

    def overdue(self, now: float, sticks: int) -> Answers:
        """Take out the requests that have waited for `max_wait`, each with its error.

        sticks: number that share the work.
        """
        if now - self._looked < LOOK_PERIOD:
            return []
        self._looked, limits = now, self._admission.limits
        requests = self.remove(lambda each: is_overdue(each, limits, now))
        backlog = Backlog.of([self._queue], "", sticks)
        return [(request, self._admission.overdue(backlog)) for request in requests]

    def remove(self, unwanted: Callable[[Request], bool]) -> list[Request]:
        """Take out the requests that are `unwanted`, in the order of their arrival."""
        return self._taken(self._queue.remove(unwanted))

    def _taken(self, requests: list[Request]) -> list[Request]:
        for request in requests:
            weight_access.note_taken(request)
        return requests

    def _promote(self, now: float) -> None:
        if now - self._promoted < PATIENCE:
            return
        self._promoted, normal = now, int(Priority.NORMAL)
        for request in self._queue.remove(
            lambda each: each.priority > normal and now - each.arrived >= PATIENCE
        ):
            request.priority = normal
            self._queue.push(request)
