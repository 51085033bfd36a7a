"""The scheduler's view of a stick, and the choice of the stick that takes a request."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, cast

from edgetpu_driver.backends.backend import Placement
from edgetpu_driver.host.inference_statistics import InferenceStatistics

if TYPE_CHECKING:
    from edgetpu_driver.host.hosted_model import HostedModel
    from edgetpu_driver.host.request import Lane, Request

STUCK_SECONDS = 0.05
"""Seconds of real time after which waiting for a stick that is free earlier in simulated time ends."""

UPLOAD_SECONDS = 0.0002
UPLOAD_RATE = 210e6
"""Time of an upload's transfers, s, and their rate on USB 3, bytes/s; on USB 2 it takes longer."""


class Queued(NamedTuple):
    """The requests that wait while a stick is chosen."""

    requests: int
    """Number of them, including the one in question."""
    now: float


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
    throttled: bool = False
    """Whether its clock is reduced because it is hot."""
    simulated_time: Callable[[], float] | None = None
    """The clock of a simulated device; None for a real one."""
    running: Request | None = None
    parked: set[Request] = field(default_factory=set)
    """Number of requests begun here that wait for a calculation."""
    began: float = 0.0
    """When the request that is running was taken, s."""
    expected: float = 0.0
    """Expected end of that request, on the device's clock."""
    origin: float = 0.0
    """Time on the device's clock when the stick last had no work."""
    statistics: InferenceStatistics = field(default_factory=InferenceStatistics)

    def has_parameters_of(self, lane: Hashable) -> bool:
        """Whether the requests of a lane need no upload here."""
        replica = cast("Lane", lane).model.replicas.get(self.number)
        return replica is not None and replica.resident

    def start_clock(self, others: Sequence[StickSlot]) -> None:
        """Start with as much accumulated work as the least loaded of the others."""
        if self.simulated_time is not None:
            behind = [other.load() for other in others if other.serving and other is not self]
            self.origin = self.simulated_time() - min(behind, default=0.0)

    def load(self) -> float:
        """Time until it is free on its clock; the clock of a real stick stands still while it is idle."""
        if self.simulated_time is None:
            return 0.0
        now = self.simulated_time()
        return max(now, self.expected if self.running is not None else now) - self.origin

    def upload_seconds(self, model: HostedModel) -> float:
        """Time that an upload of the model's parameters takes; 0 if they are in the stick's memory."""
        replica = model.replicas.get(self.number)
        if model.placement is not Placement.CACHED or replica is None or replica.resident:
            return 0.0
        return UPLOAD_SECONDS + model.parameter_bytes / UPLOAD_RATE

    def remaining(self, now: float) -> float:
        """Expected time until its present work is done."""
        return 0.0 if self.running is None else max(0.0, self.began + self.running.model.seconds - now)

    def is_stuck(self, now: float) -> bool:
        """Whether its present work takes longer than other requests should wait."""
        return self.running is not None and now - self.began > STUCK_SECONDS


def may_take(slot: StickSlot, model: HostedModel, candidates: Sequence[StickSlot], queued: Queued) -> bool:
    """Whether a stick that is free is the one to take a request for a model.

    candidates: all sticks that can run it once they are free. A stick that is hot leaves it to cooler ones
    unless there are more requests than those can begin with. One that would have to upload the parameters
    leaves it to a busy one that has them if that is done earlier; a simulated stick leaves it to those that
    are done earlier by their own clocks.
    """
    upload = slot.upload_seconds(model)
    for other in candidates:
        if other is slot or other.is_stuck(queued.now):
            continue
        if slot.throttled != other.throttled:
            if slot.throttled and (other.idle or queued.requests <= len(candidates) - 1):
                return False
        elif slot.simulated_time is not None:
            if other.load() + other.upload_seconds(model) < slot.load() + upload:
                return False
        elif upload and other.running is not None and not other.upload_seconds(model):
            wait = other.remaining(queued.now) + (queued.requests - 1) * model.seconds
            if wait < upload:
                return False
    return True


def best_of(idle: Sequence[StickSlot], model: HostedModel) -> StickSlot:
    """The idle stick that is to run a request for a model.

    It is a cool one if there is one, and the one that is done first, an upload included.
    """
    return min(idle, key=lambda slot: (slot.throttled, slot.load() + slot.upload_seconds(model), slot.number))
