"""Which points of a keyframe turn like most of the picture, and which belong to moving objects.

Points count by area: the contrast of each saturates at a multiple of the noise, so that a bright person does
not outvote a dim wall.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.confidence_ramp import ramp

Floats = NDArray[np.float32]

VISIBLE_DEVIATIONS = 3.0
"""Feature or residual, in standard deviations of the noise, at which its weight is one half.

Rows: compass, static camera, frames within 0.3 deg.
"""

ROUNDING = 0.3
"""The same for features without noise, grey levels. Derived: 3 times the rounding of the model's output."""

MAX_DEVIATION_CELLS = 0.15
"""Tolerated deviation from the common turn in cells: views are not compared more exactly.

Rows: compass, static camera, frames within 0.3 deg. Uncritical from 0.1 to 0.3.
"""

FOLLOWING_RANGE = (0.2, 0.5)
"""Share of the visible texture that follows one turn: up to the first value it may be any turn, from the
second on it is certainly the camera's. Derived: half of the picture."""

MOVING_SLACK = 9.0
"""A point moves by itself if its squared residual exceeds what VISIBLE_DEVIATIONS of noise and this multiple
of the slack explain.

Derived: three times the tolerated deviation; less takes near objects for moving ones when the camera is
carried. Rows: compass, walking camera, yaw RMSE; an object crosses, noise 8, ends within 1 deg.
"""

ALL_FOLLOW = 0.9
"""Share of the texture that follows the alignment of a view, from which nothing seems to move by itself.

Rows: compass, an object crosses, camera turning, ends within 1 deg. Uncritical.
"""

MOST_FOLLOW = 0.85
"""Share of the texture that follows, below which sigmas grow as the share falls.

Rows: compass, static camera, yaws within one sigma, and views lost: with 0.9 one view becomes too uncertain.
"""

MOVING_SHARE = 0.5
"""Share of the texture around a point that does not follow, above which the point moves by itself.

Derived: half.
"""

MOVING_CELLS = 3
"""Side of the area around a point, cells. Rows: compass, an object crosses, camera turning, ends within
1 deg."""

MIN_STANDING_SHARE = 0.4
"""Least share of a key's points that stay in use when those that move by themselves are left out.

Derived: nearly half; with less it is unknown which part moves.
"""

TOLERATED_CELLS = 0.1
"""Deviation of a point in cells up to which it shows no other motion while little moves by itself, however
low the noise.

Where most of a picture is flat, the noise seems to be 0. Each edge that is off by the error of the guess
would be an outlier, and the guess would stay. Rows: compass, full turns, yaw rate RMSE per frame; walking
camera, yaw RMSE: with 0.15 near objects count too much;
test_edges_are_aligned_whatever_the_error_of_the_guess.
"""

MIN_NOISE_SIMILARITY = 0.2
"""Smallest similarity that is used as a measure of the noise of a view.

Rows: compass, turns past a blank wall, yaw error over its sigma.
"""


@dataclass(frozen=True)
class PointAgreement:
    """How well the points of a key agree with a view under an alignment."""

    key: Floats
    """Features of the key, times the gain: [channels, points]."""
    view: Floats
    """Features of the view at the same points: [channels, points]."""
    slack: Floats
    """Squared residual that MAX_DEVIATION_CELLS explains: [channels, points]."""
    used: Floats
    """1 for points that were aligned, else 0: [points]."""
    noise: float
    """Standard deviation of the features' difference."""

    def measure(self, noise: float | None = None) -> tuple[float, float, float]:
        """Similarity of key and view, the share of the visible texture that follows, and its amount.

        The similarity, -1..1, is the correlation of the points that follow, reduced if few follow. `noise`:
        to assume instead of the measured noise; alignments must be compared at the same noise.
        """
        visible = np.float32(self._visible(self.noise if noise is None else noise))
        here, there = (self.key * self.used).ravel(), (self.view * self.used).ravel()
        residual = here - there
        residual *= residual
        residual /= self.slack.ravel() + visible
        residual *= residual
        residual += 1.0
        weight = np.reciprocal(residual, out=residual)
        for features in (here, there):  # x / sqrt(1 + x^2) of each
            saturated = features * features
            saturated += visible
            features /= np.sqrt(saturated, out=saturated)
        area = float(here.dot(here))
        weighted = weight * here
        agreeing = float(weighted.dot(here))
        both = float(weighted.dot(there))
        there *= there
        energy = agreeing * float(weight.dot(there))
        if energy <= 0.0:
            return 0.0, 0.0, 0.0
        following = agreeing / area
        return both / math.sqrt(energy) * ramp(following, *FOLLOWING_RANGE), following, both

    def misfit(self, noise: float) -> Floats:
        """Disagreement of each point, 0..1, if the noise is `noise`: [points]."""
        square = np.square(self.key - self.view)
        return _mean_of_channels(square / (square + self.slack + np.float32(self._visible(noise))))

    def moving(self, inside: Floats) -> tuple[Floats, Floats]:
        """Weight of the texture at each point, 0 where it follows; and weight of all texture: [points] each.

        `inside`: 1 for points in view, else 0: [points]. Points that were not used are judged as well.
        """
        visible = np.float32(self._visible(self.noise))
        tolerated = np.float32(MOVING_SLACK) * self.slack + visible
        residual = _mean_of_channels(np.square(self.key - self.view) / tolerated)
        square = _mean_of_channels(np.maximum(np.square(self.key), np.square(self.view)))
        texture = inside * square / (square + visible)
        return texture * (residual > 1.0), texture

    @staticmethod
    def _visible(noise: float) -> float:
        return (VISIBLE_DEVIATIONS * noise + ROUNDING) ** 2


def _mean_of_channels(values: Floats) -> Floats:
    """Mean over all channels, of which most models have one: [points] of [channels, points]."""
    mean: Floats = values.mean(axis=0) if len(values) > 1 else values[0]
    return mean


def certainty_of(similarity: float, following: float) -> float:
    """Share of the slopes of the features that is not noise, 0..1, from results of `PointAgreement.measure`.

    Noise makes the key's gradients look steeper than they are. And where parts of the picture disagree, some
    that seem to follow do not.
    """
    return max(similarity * min(following / MOST_FOLLOW, 1.0), MIN_NOISE_SIMILARITY)
