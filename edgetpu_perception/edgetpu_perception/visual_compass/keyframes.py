"""Views with known orientations, which keep a heading measured against them from drifting."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.visual_compass.rotation_alignment import Key
from edgetpu_perception.visual_compass.rotations import Matrix, orthonormal, to_matrix, to_vector, trace

CAPACITY = 200
"""A full turn takes about 60; the oldest but the first goes when there are more."""


@dataclass(eq=False)
class Keyframe:
    """A view and how the camera was turned when it was taken."""

    key: Key
    stamp: float
    orientation: Matrix
    """From the view's optical frame to the world, which is the optical frame of the first view."""
    covariance: Matrix
    """Of the orientation: of a small rotation about the world's axes, rad^2."""
    similarity: float = math.nan
    """Of the first view that was aligned to it: what noise leaves of 1."""
    chain: int = 0
    """Counts up when the camera was lost: within a chain each one was measured against another."""
    root_variance: float = 0.0
    """Variance of the first one of its chain, rad^2: it is common to all of them."""

    @property
    def variance(self) -> float:
        """Sum of the variances about all axes, rad^2."""
        return trace(self.covariance)

    def variance_to(self, other: Keyframe) -> float:
        """Of the rotation from here to another keyframe, rad^2; at most so much."""
        common = self.root_variance + other.root_variance if self.chain == other.chain else 0.0
        return max(self.variance + other.variance - common, 0.0)


class Keyframes:
    """Keyframes in the order they were made, each measured against an earlier one."""

    def __init__(self) -> None:
        self._frames: list[Keyframe] = []

    def __len__(self) -> int:
        return len(self._frames)

    def __contains__(self, keyframe: Keyframe) -> bool:
        return keyframe in self._frames

    @property
    def first(self) -> Keyframe:
        """The one that all others were measured against in the end; IndexError when there is none."""
        return self._frames[0]

    def add(self, keyframe: Keyframe) -> None:
        """Put in a new keyframe; the first one stays whatever comes."""
        self._frames.append(keyframe)
        if len(self._frames) > CAPACITY:
            del self._frames[1]
        self._index()

    def discard(self, keyframe: Keyframe) -> None:
        """Take out a keyframe; the first one stays."""
        if keyframe is not self.first:
            self._frames.remove(keyframe)
            self._index()

    def discard_chains(self, after: int) -> None:
        """Take out the keyframes of all chains after one."""
        self._frames = [each for each in self._frames if each.chain <= after]
        self._index()

    def doubt_chains(self, after: int, covariance: Matrix) -> None:
        """Make the keyframes of all chains after one less sure, all in common."""
        for each in self._frames:
            if each.chain > after:
                each.covariance = each.covariance + covariance
                each.root_variance += trace(covariance)
        self._index()

    def older(self, chain: int, orientation: Matrix, reach: float) -> list[Keyframe]:
        """Keyframes of the chains before one turned by less than `reach` rad against an orientation."""
        near = self._cosines(orientation) >= math.cos(min(reach, math.pi))
        return [
            each for each, is_near in zip(self._frames, near, strict=True) if is_near and each.chain < chain
        ]

    def surest(self, orientation: Matrix, reach: float) -> list[Keyframe]:
        """Keyframes turned by less than `reach` rad against an orientation, the surest one first."""
        cosines = self._cosines(orientation)
        near = np.flatnonzero(cosines > math.cos(reach))
        return [self._frames[index] for index in near[np.argsort(self._variances[near], kind="stable")]]

    def close_loop(self, correction: Matrix, covariance: Matrix, known: Keyframe) -> None:
        """Spread what was found wrong with an orientation over the keyframes made since a known one.

        `correction` is to be applied to that orientation in the world, `covariance` belongs to it. Errors of
        a chain of measurements grow with its variance, so each keyframe takes its share in proportion.
        """
        vector = to_vector(correction)
        total = trace(covariance) - known.variance
        for keyframe in self._frames[self._frames.index(known) + 1 :]:
            share = _share(keyframe.variance - known.variance, total)
            root = keyframe.root_variance - known.variance
            if root > 0.0:
                keyframe.root_variance = known.variance + (1.0 - _share(root, total)) * root
            keyframe.orientation = orthonormal(to_matrix(share * vector) @ keyframe.orientation)
            added = keyframe.covariance - known.covariance
            # Known from both ends of the chain now, as of a Brownian bridge.
            keyframe.covariance = known.covariance + (1.0 - share) * added
        self._index()

    def _index(self) -> None:
        self._variances = np.array([frame.variance for frame in self._frames])
        self._orientations = np.array([frame.orientation.ravel() for frame in self._frames])

    def _cosines(self, orientation: Matrix) -> NDArray[np.float64]:
        """Of the angle of the rotation to each keyframe: the trace of a rotation is 1 + 2 cos."""
        cosines: NDArray[np.float64] = (self._orientations @ orientation.ravel() - 1.0) / 2.0
        return cosines


def _share(part: float, total: float) -> float:
    return min(max(part / total, 0.0), 1.0) if total > 0.0 else 0.0
