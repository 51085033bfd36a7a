"""What the heading filter knows at a time, and what it tells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.visual_compass.keyframes import Keyframe
from edgetpu_perception.visual_compass.rotations import Matrix, Vector


@dataclass(frozen=True)
class Heading:
    """What one view tells."""

    confidence: float
    previous_stamp: float
    """When the view was taken since which the rates are means, s."""
    yaw: float
    """rad, unwrapped, counter-clockwise seen from above."""
    yaw_sigma: float
    yaw_rate: float
    """rad/s"""
    yaw_rate_sigma: float
    velocity: Vector
    """Angular velocity in the optical frame, rad/s."""
    velocity_covariance: Matrix
    turning: Vector
    """The angular velocity by this view and the one before alone."""
    unrest: float
    """Variance of the angular acceleration lately, beyond that of an even turn, (rad/s^2)^2."""


@dataclass(frozen=True)
class Pose:
    """The camera's orientation at one view, as measured against one keyframe."""

    stamp: float
    orientation: Matrix
    """From the optical frame to the world."""
    keyframe: Keyframe
    turn: Vector
    """Since the keyframe, about the world's axes, rad."""
    influence: NDArray[np.float64]
    """By how much each block of residuals has turned it about the world's axes, rad: [3, blocks]."""
    similarity: float
    """Of the view and the keyframe."""


@dataclass(frozen=True)
class Fix:
    """A pose, how the camera turns there, and what was told of it."""

    pose: Pose
    yaw: float
    """rad, unwrapped"""
    turning: Vector
    """Angular velocity in the optical frame by this view and the one before alone, rad/s."""
    heading: Heading | None = None
    """None where the view was compared with none before."""


@dataclass(frozen=True)
class Loss:
    """How the camera was lost."""

    stamp: float
    """Of the last view that was known, s."""
    chain: int
    """The latest one when it was lost; later ones are not believed yet."""
    left_behind: bool
    """Whether the keyframe went out of view, so that what comes into view is the scene's next part."""


@dataclass(frozen=True)
class Sighting:
    """A view from before that seems to be there again."""

    known: Keyframe
    correction: Matrix
    """What it makes of the present orientation, in the world."""
    witnesses: int
