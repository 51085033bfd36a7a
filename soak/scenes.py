"""The scenes of a run's two cameras: one looks around, the other drives towards a wall and back.

Each repeats its frames. The stamp of an image identifies its frame, which determines what every result must
be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from edgetpu_dashboard.scene.scene import Pose, Scene

FRAMES = 60
"""Number of frames after which each scene repeats."""
_FRAMES_PER_SECOND = 10.0
"""Frame rate of the motion, Hz. Images that are stamped at another rate make it slower or faster."""


@dataclass(frozen=True)
class LookingAround(Scene):
    """The camera looks around in a room with a lamp and a poster; sometimes the lamp is off."""

    rate: float = _FRAMES_PER_SECOND
    frames: int = FRAMES
    dark: tuple[float, float] = (4.0, 4.6)
    turn: tuple[float, float] = (math.inf, math.inf)

    def pose(self, time: float) -> Pose:
        """Pose of the camera at a time, s; it repeats after FRAMES."""
        phase = 2 * math.pi * time * self.rate / self.frames
        yaw, tilt = math.radians(11.0) * math.sin(phase), math.radians(7.0) * math.sin(2 * phase)
        return Pose(np.zeros(3), yaw, tilt)


@dataclass(frozen=True)
class Driving(Scene):
    """The camera drives straight to a wall and back, at constant speed except where it reverses."""

    rate: float = _FRAMES_PER_SECOND
    frames: int = FRAMES
    turn: tuple[float, float] = (math.inf, math.inf)
    speed: float = 0.7
    ramp: float = 0.6
    """Duration of a reversal, s."""

    @property
    def way(self) -> float:
        """Duration of one way, s."""
        return self.frames / self.rate / 2

    def pose(self, time: float) -> Pose:
        """Pose of the camera at a time, s; it repeats after FRAMES."""
        ahead = time % (2 * self.way)
        ahead = min(ahead, 2 * self.way - ahead)
        half = self.ramp / 2
        near_end = min(ahead, self.way - ahead)
        if near_end < half:  # a parabola at each reversal
            rounded = (near_end * near_end + half * half) / (2 * half)
            ahead = rounded if ahead < self.way / 2 else self.way - rounded
        return Pose(np.array([0.0, 0.0, self.speed * ahead]), 0.0, 0.0)

    def velocity(self, time: float) -> float:
        """Speed towards the wall, m/s; NaN while it reverses."""
        ahead = time % (2 * self.way)
        near_end = min(ahead % self.way, self.way - ahead % self.way)
        if near_end < self.ramp / 2:
            return math.nan
        return self.speed if ahead < self.way else -self.speed


@dataclass(frozen=True)
class Stamps:
    """The stamps of the images of a run: `start_ns`, and one every `period_ns` after that."""

    start_ns: int
    period_ns: int

    def index(self, stamp_ns: int) -> int | None:
        """Number of the image of this stamp, from 0; None if no image has it."""
        index, rest = divmod(stamp_ns - self.start_ns, self.period_ns)
        return index if index >= 0 and rest == 0 else None

    def stamp_ns(self, index: int) -> int:
        """The stamp of an image."""
        return self.start_ns + index * self.period_ns

    @property
    def period(self) -> float:
        """Time between two images, s."""
        return 1e-9 * self.period_ns
