"""What the scheduler knows of a stick, and which of several sticks is to take a request."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from edgetpu_driver.host.inference_statistics import InferenceStatistics

if TYPE_CHECKING:
    from edgetpu_driver.host.request import Lane, Request

STUCK_SECONDS = 0.05
"""Real time after which nobody waits any more for a stick that is simulated to be free earlier."""


@dataclass(eq=False)
class StickSlot:
    """One stick as the scheduler sees it; guarded by the scheduler's lock."""

    number: int
    wake: Callable[[Request | None], None]
    """Hands a request to the worker, which is idle, or has it look for work."""
    post: Callable[[Callable[[], None]], None]
    """Has the worker do something between two pieces of work."""
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
    """Requests begun here that wait for a calculation."""
    began: float = 0.0
    """When the request that is running was taken, s."""
    expected: float = 0.0
    """When it is expected to be done, on the device's clock."""
    origin: float = 0.0
    """What the device's clock showed when the stick had had no work."""
    statistics: InferenceStatistics = field(default_factory=InferenceStatistics)

    def has_parameters_of(self, lane: Hashable) -> bool:
        """Whether the requests of a lane need no upload here."""
        replica = cast("Lane", lane).model.replicas.get(self.number)
        return replica is not None and replica.resident

    def start_clock(self, others: Sequence[StickSlot]) -> None:
        """Begin with as much work behind it as the least loaded of the others has."""
        if self.simulated_time is not None:
            behind = [other.load() for other in others if other.serving and other is not self]
            self.origin = self.simulated_time() - min(behind, default=0.0)

    def load(self) -> float:
        """Time until it is free on its clock; that of a real stick stands still while it is idle."""
        if self.simulated_time is None:
            return 0.0
        now = self.simulated_time()
        return max(now, self.expected if self.running is not None else now) - self.origin

    def is_stuck(self, now: float) -> bool:
        """Whether its present work takes longer than others should wait for."""
        return self.running is not None and now - self.began > STUCK_SECONDS


def may_take(slot: StickSlot, candidates: Sequence[StickSlot], waiting: int, now: float) -> bool:
    """Whether a stick that is free is the one to take a request, of `waiting` ones.

    candidates: all sticks that can run it once they are free. A stick that is hot leaves it to cooler ones
    unless there are more requests than those can begin with; a simulated one leaves it to those that are free
    earlier by their own clocks.
    """
    for other in candidates:
        if other is slot or other.is_stuck(now):
            continue
        if slot.throttled != other.throttled:
            if slot.throttled and (other.idle or waiting <= len(candidates) - 1):
                return False
        elif slot.simulated_time is not None and other.load() < slot.load():
            return False
    return True


def best_of(idle: Sequence[StickSlot], is_resident: Callable[[StickSlot], bool]) -> StickSlot:
    """The idle stick that is to run a request.

    It is a cool one if there is one, the one that was free earliest, or one that has the parameters in its
    memory.
    """
    return min(idle, key=lambda slot: (slot.throttled, slot.load(), not is_resident(slot), slot.number))
