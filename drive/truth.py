"""Ground truth of a world, and the nodes' measurements, for the plots of the report."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from drive.worlds.world import World
from edgetpu_msgs.msg import Heading, PlaceMatch, TimeToContact

LONGEST_CONTACT = 20.0
"""Seconds; a longer time to contact is not plotted."""


@dataclass(frozen=True)
class Truth:
    """The ground truth at one time."""

    time: float
    """s since the world was entered."""
    x: float
    """m."""
    y: float
    yaw: float
    """rad, left positive."""
    time_to_contact: float
    """s until the camera is where its axis meets a surface, at the present speed; NaN: more than
    LONGEST_CONTACT, or the robot does not drive forward."""

    @classmethod
    def of(cls, world: World, seconds: float) -> Truth:
        """Return the present ground truth."""
        speed = world.velocity[0]
        contact = world.distance_ahead() / speed if speed > 0.01 else math.inf
        return cls(seconds, *world.pose, contact if contact <= LONGEST_CONTACT else math.nan)


@dataclass(frozen=True)
class Measured:
    """One number that a node measured in an image."""

    time: float
    """Of the image, s since the world was entered."""
    value: float
    sigma: float


@dataclass
class Record:
    """What happened in one world."""

    truths: list[Truth] = field(default_factory=list)
    measured: dict[str, list[Measured]] = field(default_factory=dict)
    """By quantity: `yaw`, rad, `time to contact`, s."""
    places: list[tuple[float, PlaceMatch]] = field(default_factory=list)
    """The answers of place recognition, each with the time of its image, s."""

    def measure(self, message: Any, seconds: float) -> None:
        """Store the result of an image of this time, if its truth is known."""
        if isinstance(message, Heading) and message.valid:
            self._add("yaw", Measured(seconds, message.yaw, message.yaw_sigma))
        if isinstance(message, TimeToContact) and message.valid and message.ttc <= LONGEST_CONTACT:
            self._add("time to contact", Measured(seconds, message.ttc, message.ttc_sigma))
        if isinstance(message, PlaceMatch):
            self.places.append((seconds, message))

    def _add(self, quantity: str, measured: Measured) -> None:
        self.measured.setdefault(quantity, []).append(measured)
