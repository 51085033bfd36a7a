"""When a stick attaches models again after the processes of their graphs have died."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf

from edgetpu_driver.host.models.model_replica import ModelReplica


class PendingAttachments:
    """When a stick next attempts to attach a model. Used by the thread that owns it; reads no clock."""

    def __init__(self, replicas: Callable[[], Iterable[ModelReplica]]) -> None:
        """replicas: returns the replicas on the stick."""
        self._replicas = replicas
        self._due = inf

    def plan(self) -> None:
        """Determine when the next attempt is due, after the replicas or their attempts have changed."""
        self._due = min((replica.attempts.due for replica in self._replicas()), default=inf)

    def is_due(self, now: float) -> bool:
        """Whether an attempt is due, at monotonic time `now`, s."""
        return now >= self._due

    def seconds_left(self, now: float) -> float | None:
        """Seconds until the next attempt, 0 or more; None if none is planned."""
        return None if self._due == inf else max(0.0, self._due - now)
