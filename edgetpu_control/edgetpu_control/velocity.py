"""Velocities of a robot that drives and turns, and those of the last seconds."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

FASTEST = 1000.0
"""m/s and rad/s. Far beyond any robot; a faster velocity is an error of its sender."""
LONGEST_HISTORY = 5.0
"""Seconds for which velocities are kept; older results come only after a failure, and are ignored."""


@dataclass(frozen=True)
class Velocity:
    """Velocity in the frame of the robot's base (REP-103: x forward, z up)."""

    linear: float = 0.0
    """Along x, m/s."""
    angular: float = 0.0
    """About z, counter-clockwise positive, rad/s."""

    @property
    def is_plausible(self) -> bool:
        """Whether both are numbers of at most FASTEST, so that sums and squares of them stay finite."""
        return abs(self.linear) <= FASTEST and abs(self.angular) <= FASTEST


STANDSTILL = Velocity()


class VelocityHistory:
    """The velocities of the last seconds, which give the robot's motion since an image was taken."""

    def __init__(self) -> None:
        self._entries: deque[tuple[float, Velocity]] = deque()

    def add(self, now: float, velocity: Velocity) -> None:
        """Note the velocity from now on. now: s; a time before the last one clears what is known."""
        entries = self._entries
        if entries and now < entries[-1][0]:  # the clock was set back
            entries.clear()
        entries.append((now, velocity))
        while len(entries) > 1 and entries[1][0] <= now - LONGEST_HISTORY:
            entries.popleft()

    @property
    def latest(self) -> tuple[float, Velocity]:
        """Time in s since which the latest velocity holds, and this velocity; -inf and standstill if none."""
        return self._entries[-1] if self._entries else (-math.inf, STANDSTILL)

    def at(self, time: float) -> Velocity:
        """Return the velocity at this time; standstill before the first one."""
        return next((velocity for start, velocity in reversed(self._entries) if start <= time), STANDSTILL)

    def linear_range(self, since: float, until: float) -> tuple[float, float]:
        """Return the least and the greatest linear velocity between two times in s."""
        found = [self.at(since).linear, self.at(until).linear]
        found += (velocity.linear for start, velocity in self._entries if since < start <= until)
        return min(found), max(found)

    def travelled(self, since: float, until: float) -> Velocity:
        """Return the integral of both velocities: m driven and rad turned."""
        linear = angular = 0.0
        end = until
        for start, velocity in reversed(self._entries):
            seconds = max(end - max(start, since), 0.0)
            linear += velocity.linear * seconds
            angular += velocity.angular * seconds
            end = min(end, start)
            if start <= since:
                break
        return Velocity(linear, angular)
