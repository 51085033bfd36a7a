"""Combines the messages of several topics into one observation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetpu_control.input_timeout import is_recent
from edgetpu_driver.errors import InputError


@dataclass(frozen=True)
class ObservedFields:
    """The source of some numbers of an observation."""

    topic: str
    message_type: str
    """package/msg/Type."""
    fields: str
    """Paths of fields, separated by commas."""


def parse_fields(text: str) -> ObservedFields:
    """Read "topic package/msg/Type field,field[0:3]"; InputError for anything else."""
    parts = text.split()
    if len(parts) < 3:
        raise InputError(
            "expected a topic, a type and fields, such as odom nav_msgs/msg/Odometry twist.twist.linear.x; "
            f"got {text!r}"
        )
    return ObservedFields(parts[0], parts[1], "".join(parts[2:]))


class ObservationBuffer:
    """The newest numbers of every source; complete as long as none is older than `timeout`."""

    def __init__(self, sources: int, timeout: float) -> None:
        """timeout: s."""
        self.timeout = timeout
        self._values: list[NDArray[np.float64] | None] = [None] * sources
        self._times = [-math.inf] * sources

    def put(self, source: int, values: NDArray[np.float64], now: float) -> None:
        """Take the numbers of a source, received at `now` s; InputError if one is not finite."""
        if not np.all(np.isfinite(values)):
            raise InputError(f"expected finite numbers; got {values}")
        self._values[source], self._times[source] = values, now

    def observation(self, now: float) -> NDArray[np.float64] | None:
        """Return the numbers of all sources in their order, float64[n]; None while one is missing or old."""
        found: Sequence[NDArray[np.float64] | None] = self._values
        if not all(is_recent(time, now, self.timeout) for time in self._times):
            return None
        return np.concatenate([each for each in found if each is not None])

    @property
    def oldest(self) -> float:
        """Time of the oldest numbers, s; -inf while a source is missing."""
        return min(self._times)

    def missing(self, now: float) -> list[int]:
        """Return the indices of the sources whose numbers are missing or old."""
        return [n for n, time in enumerate(self._times) if not is_recent(time, now, self.timeout)]
