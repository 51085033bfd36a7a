"""Which requests may wait, and when clients whose requests are refused should try again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgetpu_driver.errors import BusyError
from edgetpu_driver.host.client_limits import ClientLimits
from edgetpu_driver.host.requests.request_queue import RequestQueue

SOONEST = 0.001
LATEST = 60.0
"""Limits of `retry_after`, s: about the time of an inference, and the longest time that a user would wait.
Uncritical: between them it follows from the waiting work."""
AFTER_WAITING = 1.0
"""Least `retry_after`, s, of a request that has waited for `max_wait`: the estimate does not include the
more urgent requests before it. Uncritical: it prevents immediate retries."""
LOADING = 1.0
"""`retry_after`, s, if too many models wait to be loaded: about the time to load one."""


@dataclass(frozen=True)
class Backlog:
    """The requests that wait."""

    waiting: int
    """Number of requests."""
    seconds: float
    """Expected engine time of the requests, s."""
    waiting_of_client: int
    """Number of requests of one client."""
    sticks: int
    """Number of sticks that share the work."""

    @classmethod
    def of(cls, queues: Sequence[RequestQueue[Any]], client: str, sticks: int) -> Backlog:
        """The backlog of several queues; the sticks share the work of the first queue."""
        first, *others = queues
        waiting, of_client = len(first), first.waiting_of(client)
        for queue in others:
            waiting += len(queue)
            of_client += queue.waiting_of(client)
        return cls(waiting, first.cost, of_client, sticks)


class Admission:
    """Decides on requests by a host's limits. Not thread-safe."""

    def __init__(self, limits: ClientLimits) -> None:
        self.limits = limits
        self.refused = 0
        """Number of requests answered BUSY."""

    def admit(self, client: str, backlog: Backlog) -> None:
        """Raise BusyError if no further request of the client may wait."""
        limits = self.limits
        if backlog.waiting_of_client >= limits.waiting_per_client:
            self.refused += 1
            whose = f"of '{client}'" if client else "of anonymous clients"
            raise _busy(f"{backlog.waiting_of_client} requests {whose} wait", backlog)
        if backlog.waiting >= limits.waiting:
            self.refused += 1
            raise _busy(f"{backlog.waiting} requests wait", backlog)

    def overdue(self, backlog: Backlog) -> BusyError:
        """The error for a request that has waited for its turn for `max_wait`."""
        self.refused += 1
        what = f"waited {self.limits.wait:g} s for its turn; {backlog.waiting} requests wait"
        return _busy(what, backlog, soonest=AFTER_WAITING)

    def check_loading(self, of_client: int, waiting: int) -> None:
        """Raise BusyError if no further model of a client may wait to be loaded.

        of_client, waiting: number of models that wait, of the client and in all.
        """
        if of_client >= self.limits.waiting_per_client or waiting >= self.limits.waiting:
            self.refused += 1
            raise BusyError(f"{waiting} models wait to be loaded; try again in {LOADING:g} s", LOADING)

    def check_loaded(self, names: int, file_bytes: int, more_bytes: int) -> None:
        """Raise BusyError if no further model may be loaded next to `names` models of `file_bytes`."""
        limits = self.limits
        if names >= limits.models:
            raise BusyError(f"expected at most {limits.models} loaded models; unload one first", LATEST)
        if file_bytes + more_bytes > limits.model_bytes:
            raise BusyError(
                f"expected loaded models of at most {limits.model_bytes} bytes; with this one they have "
                f"{file_bytes + more_bytes}; unload one first",
                LATEST,
            )


def _busy(what: str, backlog: Backlog, soonest: float = SOONEST) -> BusyError:
    """The error; `retry_after` is the expected time until half of the waiting work is done."""
    seconds = backlog.seconds / max(backlog.sticks, 1) / 2
    retry_after = min(max(seconds, soonest), LATEST)
    return BusyError(f"{what}; try again in {retry_after:.3g} s", retry_after)
