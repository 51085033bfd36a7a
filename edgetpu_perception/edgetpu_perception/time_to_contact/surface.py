"""One surface in view: a plane that moves for itself, and whether it comes closer."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from edgetpu_perception.time_to_contact.homography_alignment import Map, Matrix, inverse
from edgetpu_perception.time_to_contact.plane_slant import PlaneSlant
from edgetpu_perception.time_to_contact.relative_depth import RelativeDepth

CLAIM_RATE = 0.15
"""A surface comes closer when its rate, 1/s, is above this ..."""

CLAIM_SIGMAS = 4.5
"""... and that many standard deviations above zero ..."""

DOUBT_SIGMAS = 2.0
"""... and may come closer when it is above this many."""

_FOLLOW = 0.5
"""Share of the newest frame in the motion that is expected for the next one. The slope of fine textures is
too small by up to a third, which makes steps too long; a motion that followed at once could swing up."""

_LONGEST_REACH = 5.0
"""How many times longer than between the last two images a motion is believed to go on: the closer they were,
the noisier it is."""

_LARGEST_RISE = 0.4
"""Share by which the growth may be expected to rise: noise must not swing up either."""

_STILL = np.eye(3)


@dataclass
class Surface:
    """What is known about one surface."""

    part: Map
    """Share 0..1 to which each element belongs to it."""
    warp: Matrix = field(default_factory=lambda: np.eye(3))
    """From the present image to the keyframe."""
    motion: Matrix = field(default_factory=lambda: np.zeros((3, 3)))
    """What the last frames added to the warp, per second ..."""
    seconds: float = 1.0
    """... of which the last one took so many."""
    depth: RelativeDepth = field(default_factory=RelativeDepth)
    slant: PlaneSlant = field(default_factory=PlaneSlant)
    log_depth: float = 0.0
    slant_error: float = 0.0
    """Standard deviation of the rate, 1/s, that comes from the slant."""
    overlap: float = 1.0
    evidence: float = 0.0
    """By how much it explains the image better than the main surface, as a chi-square."""
    established: bool = False
    frames: int = 0
    nearest: bool = False
    """Whether it was found to come closer sooner than the main one."""

    @property
    def rate(self) -> float:
        """Speed over depth, 1/s."""
        return self.depth.rate

    @property
    def rate_sigma(self) -> float:
        """One standard deviation."""
        return math.hypot(self.depth.rate_sigma, self.slant_error)

    @property
    def approaches(self) -> bool:
        """Whether it certainly comes closer."""
        return self.rate > max(CLAIM_RATE, CLAIM_SIGMAS * self.rate_sigma)

    @property
    def undecided(self) -> bool:
        """Whether it may come closer, but not certainly."""
        return not self.approaches and self.rate > max(CLAIM_RATE, DOUBT_SIGMAS * self.rate_sigma)

    def next_step(self, seconds: float) -> Matrix:
        """What is expected to be added to the warp: the same motion, and a growth that rises like the rate.

        The motion is an average, 1 / _FOLLOW frames old in the middle of the coming one.
        """
        seconds = min(seconds, _LONGEST_REACH * self.seconds)
        step: Matrix = _STILL + seconds * self.motion
        rise = min(max(self.rate * seconds / _FOLLOW, -_LARGEST_RISE), _LARGEST_RISE)
        growth = rise * seconds * (self.motion[0, 0] + self.motion[1, 1]) / 2
        step[0, 0] += growth
        step[1, 1] += growth
        return step

    def move(self, warp: Matrix, seconds: float) -> None:
        """Take the warp that was found so many seconds after the last one."""
        step = inverse(self.warp) @ warp
        self.motion += _FOLLOW * ((step / step[2, 2] - _STILL) / seconds - self.motion)
        self.warp, self.seconds = warp, seconds
