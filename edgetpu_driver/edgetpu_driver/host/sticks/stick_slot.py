"""The scheduler's view of a stick."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, cast

from edgetpu_driver.backends.backend import Placement
from edgetpu_driver.host.inference_statistics import InferenceStatistics

if TYPE_CHECKING:
    from edgetpu_driver.host.models.hosted_model import HostedModel
    from edgetpu_driver.host.requests.request import Lane, Request

STUCK_SECONDS = 0.05
"""Seconds of real time after which requests are no longer left to a busy stick expected to finish first."""

UPLOAD_SECONDS = 0.0002
UPLOAD_RATE = 210e6
"""Fixed time of an upload, s, and its rate on USB 3, bytes/s, as for the virtual stick; on USB 2 it takes
longer."""


@dataclass(eq=False)
class StickSlot:
    """One stick as the scheduler sees it; guarded by the scheduler's lock."""

    number: int
    wake: Callable[[Request | None], None]
    """Hands a request to the idle worker, or has it look for work."""
    post: Callable[[Callable[[], None]], None]
    """Has the worker call a function between two pieces of work."""
    serving: bool = False
    """Whether its device is open."""
    idle: bool = False
    """Whether its worker waits for work."""
    looks_again: bool = False
    """Whether the idle worker looks for work again by itself, after STUCK_SECONDS."""
    throttled: bool = False
    """Whether its clock is reduced because it is hot."""
    simulated_time: Callable[[], float] | None = None
    """The clock of a simulated device; None for a real one."""
    running: Request | None = None
    parked: set[Request] = field(default_factory=set)
    """Requests begun here that wait for a calculation."""
    began: float = inf
    """When the request that is running was taken or, without one, the present command began, s."""
    expected: float = 0.0
    """Expected end of the running request, on the clock of a simulated device, s."""
    origin: float = 0.0
    """Time on the clock of a simulated device from which its work is counted, s."""
    statistics: InferenceStatistics = field(default_factory=InferenceStatistics)

    def has_parameters_of(self, lane: Hashable) -> bool:
        """Whether the requests of a lane need no upload here."""
        replica = cast("Lane", lane).model.replicas.get(self.number)
        return replica is not None and replica.resident

    def start_clock(self, others: Sequence[StickSlot]) -> None:
        """Start with as much accumulated work as the least loaded of the others; see `load`."""
        if self.simulated_time is not None:
            behind = [other.load() for other in others if other.serving and other is not self]
            self.origin = self.simulated_time() - min(behind, default=0.0)

    def load(self) -> float:
        """Accumulated work of a simulated device, s, including the running request; 0 for a real one."""
        if self.simulated_time is None:
            return 0.0
        now = self.simulated_time()
        return max(now, self.expected if self.running is not None else now) - self.origin

    def upload_seconds(self, model: HostedModel) -> float:
        """Time that an upload of the model's parameters takes, s; 0 if they are in the stick's memory."""
        replica = model.replicas.get(self.number)
        if model.placement is not Placement.CACHED or replica is None or replica.resident:
            return 0.0
        return UPLOAD_SECONDS + model.parameter_bytes / UPLOAD_RATE

    def remaining(self, now: float) -> float:
        """Expected time until its present work is done, s."""
        return (
            0.0 if self.running is None else max(0.0, self.began + self.running.model.expected.engine - now)
        )

    def is_stuck(self, now: float) -> bool:
        """Whether its present work takes longer than other requests should wait."""
        return not self.idle and now - self.began > STUCK_SECONDS

    def look_for_work(self) -> None:
        """Have the idle worker look for work."""
        self.idle, self.began = False, inf
        self.wake(None)
