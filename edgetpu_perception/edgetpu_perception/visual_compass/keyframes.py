"""Keyframes: views with known orientations, and the rule when a new one is due.

A heading measured against keyframes does not drift.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.visual_compass.alignment_records import Key, RotationAlignment
from edgetpu_perception.visual_compass.moving_objects.undetected_object import NO_PULL, AddedPull
from edgetpu_perception.visual_compass.rotations import (
    Matrix,
    orthonormal,
    to_matrix,
    to_vector,
    trace,
)
from edgetpu_perception.visual_compass.view_recognition_limits import EVEN_SPREAD

MAX_KEYFRAMES = 200
"""Largest number of keyframes; then the oldest one but the first is discarded.

A full turn takes about 60. Limits the time; rows with more than a full turn do not exist.
"""

KEYFRAME_SPAN_SHARE = 0.11
"""Turn since a keyframe, as a share of the field of view, at which a new one is taken.

Rows: compass, full turns and lens distortion, yaw error by keyframes; full turns, yaws within one sigma.
"""

MIN_SPAN_CELLS = 4.0
"""Smallest such turn, as image motion in cells: with large cells each new keyframe costs more accuracy.

Rows: compass, model gabor_64x64_p4, yaw error by keyframes. Uncritical for the suite's own features.
"""

MIN_SIMILARITY_SHARE = 0.75
"""A keyframe is replaced if the similarity of views to it falls below this share of the initial one.

Rows: compass, walking camera, yaw RMSE.
"""

MIN_CONTRAST_SHARE = 0.35
"""Share of the keyframe's squared contrast in view below which a new keyframe is taken.

Rows: compass, turns past a blank wall, yaw error past the wall.
"""


MAX_GROWTH = 0.1
"""Growth of the picture since the keyframe above which a new one is due, if the growth is measured.

Rows: compass, drives through rooms, yaw RMSE. Uncritical from 0.08 to 0.15.
"""


@dataclass(eq=False)
class Keyframe:
    """A view and the orientation of the camera when it was taken."""

    key: Key
    stamp: float
    orientation: Matrix
    """From the view's optical frame to the world, the optical frame of the first view."""
    covariance: Matrix
    """Covariance of the orientation, as a small rotation about the world's axes, rad^2."""
    similarity: float = math.nan
    """Similarity of the first view aligned to it, below 1 because of noise; NaN before."""
    chain: int = 0
    """Number of losses before it; keyframes of one chain were measured against each other."""
    root_variance: float = 0.0
    """Variance of the first keyframe of the chain, rad^2; it is common to all keyframes of the chain."""
    pull: AddedPull = NO_PULL
    """Errors that a foreground causes; not in the covariance, by which keyframes are chosen."""
    sideways_variance: float = 0.0
    """Variance of the apparent turn due to sideways motion, rad^2; not in the covariance either."""
    parent: Keyframe | None = None
    """The keyframe that it was measured against; None for the first one."""

    @property
    def variance(self) -> float:
        """Sum of the variances about all axes, rad^2."""
        return trace(self.covariance)

    @property
    def error_variance(self) -> float:
        """Variance of all errors that add up from keyframe to keyframe, rad^2."""
        return self.variance + self.pull.variance

    def lineage(self) -> list[Keyframe]:
        """The keyframes through which it was measured, from itself back to the first one."""
        chain = [self]
        while (parent := chain[-1].parent) is not None:
            chain.append(parent)
        return chain

    def follow(self, change: _Change) -> None:
        """Apply a change of this keyframe, or of one that it was measured against, directly or not."""
        self.orientation = change.turn.dot(self.orientation)
        self.covariance = self.covariance + change.covariance
        self.pull = self.pull.less(change.pull)
        self.sideways_variance = max(self.sideways_variance - change.sideways, 0.0)

    @property
    def unevenness(self) -> float:
        """Factor on systematic errors, at least 1: errors of few parts of the picture cancel less."""
        return max(EVEN_SPREAD / self.key.spread, 1.0) ** 2

    def variance_to(self, other: Keyframe) -> float:
        """Upper limit of the variance of the rotation to another keyframe, rad^2."""
        common = self.root_variance + other.root_variance if self.chain == other.chain else 0.0
        return max(self.variance + other.variance - common, 0.0)


def has_moved_on(alignment: RotationAlignment) -> bool:
    """Whether the camera has left the keyframe's position, if the growth of the picture is measured."""
    growth = alignment.growth
    return growth is not None and abs(growth.mean) > MAX_GROWTH


@dataclass(frozen=True)
class KeyframeRule:
    """Decides when the present view is to become a keyframe."""

    span: float
    """Turn since the keyframe above which a new one is due, rad."""

    @classmethod
    def of(cls, field_of_view: float, cells_per_radian: float) -> KeyframeRule:
        """The rule for a camera's field of view, rad, and the resolution of its feature map."""
        return cls(max(KEYFRAME_SPAN_SHARE * field_of_view, MIN_SPAN_CELLS / cells_per_radian))

    def is_due(self, keyframe: Keyframe, turned: float, alignment: RotationAlignment) -> bool:
        """Whether the camera has left the keyframe's view or position, or the scene looks different.

        `turned`: turn since the keyframe, rad; `alignment`: the view aligned to the keyframe.
        """
        differs = alignment.similarity < MIN_SIMILARITY_SHARE * keyframe.similarity
        return (
            differs
            or has_moved_on(alignment)
            or turned > self.span
            or alignment.contrast < MIN_CONTRAST_SHARE
        )


@dataclass(frozen=True)
class _Change:
    """What closing a loop changes in a keyframe, and in those that were measured against it."""

    turn: Matrix
    """Rotation in the world."""
    covariance: Matrix
    """Added to the keyframe's covariance, rad^2."""
    pull: float
    """Subtracted from the variance of the pulls, rad^2."""
    sideways: float
    """Subtracted from the variance of the apparent turn, rad^2."""

    @classmethod
    def of(cls, keyframe: Keyframe, common: Keyframe, turn: Matrix, share: float) -> _Change:
        """Change of a keyframe that takes a share of the correction; `common`: where the loop begins."""
        # As in a Brownian bridge, both of whose ends are known.
        return cls(
            turn,
            share * (common.covariance - keyframe.covariance),
            share * max(keyframe.pull.variance - common.pull.variance, 0.0),
            share * max(keyframe.sideways_variance - common.sideways_variance, 0.0),
        )


class Keyframes:
    """Keyframes in the order of their creation, each measured against an earlier one."""

    def __init__(self) -> None:
        self._frames: list[Keyframe] = []

    def __len__(self) -> int:
        return len(self._frames)

    def __contains__(self, keyframe: Keyframe) -> bool:
        return keyframe in self._frames

    @property
    def first(self) -> Keyframe:
        """The keyframe that all others were measured against, directly or not; IndexError if none exists."""
        return self._frames[0]

    def add(self, keyframe: Keyframe) -> None:
        """Add a keyframe; discard the second one if there are more than MAX_KEYFRAMES."""
        self._frames.append(keyframe)
        if len(self._frames) > MAX_KEYFRAMES:
            self.discard(self._frames[1])
        else:
            self._index()

    def discard(self, keyframe: Keyframe) -> None:
        """Remove a keyframe, unless it is the first one."""
        if keyframe is self.first:
            return
        self._frames.remove(keyframe)
        for each in self._frames:
            if each.parent is keyframe:
                each.parent = keyframe.parent
        self._index()

    def discard_chains(self, after: int) -> None:
        """Remove the keyframes of all chains after `after`."""
        self._frames = [each for each in self._frames if each.chain <= after]
        self._index()

    def add_variance_to_chains(self, after: int, covariance: Matrix) -> None:
        """Add a common covariance, rad^2, to the keyframes of all chains after `after`."""
        for each in self._frames:
            if each.chain > after:
                each.covariance = each.covariance + covariance
                each.root_variance += trace(covariance)
        self._index()

    def older(self, chain: int, orientation: Matrix, reach: float) -> list[Keyframe]:
        """Keyframes of chains before `chain` within `reach` rad of an orientation."""
        near = self._cosines(orientation) >= math.cos(min(reach, math.pi))
        return [
            each for each, is_near in zip(self._frames, near, strict=True) if is_near and each.chain < chain
        ]

    def most_certain(self, orientation: Matrix, reach: float) -> list[Keyframe]:
        """Keyframes within `reach` rad of an orientation, the one with the smallest variance first."""
        cosines, least = self._cosines(orientation).tolist(), math.cos(reach)
        near = [each for each, cosine in zip(self._frames, cosines, strict=True) if cosine > least]
        return sorted(near, key=lambda each: each.variance)

    def later_than(self, stamp: float) -> list[Keyframe]:
        """Keyframes made after a time, s."""
        return [each for each in self._frames if each.stamp > stamp]

    def turn(self, keyframe: Keyframe, by: Matrix, covariance: Matrix) -> None:
        """Turn a keyframe by a rotation in the world; `covariance`: of the rotation, rad^2."""
        keyframe.orientation = orthonormal(by @ keyframe.orientation)
        keyframe.covariance = keyframe.covariance + covariance
        self._index()

    def close_loop(
        self, correction: Matrix, found: Keyframe, since_found: float, known: Keyframe, since_known: float
    ) -> None:
        """Distribute the difference of two measurements of one view over the keyframes they rest on.

        `correction`: rotation in the world from the orientation by the keyframe `found` to the one by
        `known`; `since_found`, `since_known`: variances of the turns from them to the view, rad^2. Errors add
        up from keyframe to keyframe, so each gets a share in proportion to its variance since the last
        keyframe that both measurements have in common. Keyframes that were measured against it follow.
        """
        one, other = found.lineage(), known.lineage()
        while one and other and one[-1] is other[-1]:
            common = one.pop()
            other.pop()
        before = common.error_variance
        since = found.error_variance + since_found, known.error_variance + since_known
        total = sum(since) - 2.0 * before
        vector = to_vector(correction)
        shares = {id(each): _share(each.error_variance - before, total) for each in one + other}
        changes: dict[int, _Change | None] = {
            id(each): _Change.of(each, common, to_matrix(sign * shares[id(each)] * vector), shares[id(each)])
            for chain, sign in ((one, 1.0), (other, -1.0))
            for each in chain
        }
        for keyframe in self._frames:
            change = _change_of(keyframe, changes)
            if change:
                keyframe.follow(change)
                root = max(keyframe.root_variance - before, 0.0)
                keyframe.root_variance -= _share(root, total) * root
        for each in one:  # keyframes in its second half are known better from the other end of the loop
            if shares[id(each)] <= 0.5:
                break
            each.parent, known = known, each
        self._index()

    def _index(self) -> None:
        self._orientations = np.array([frame.orientation.ravel() for frame in self._frames])

    def _cosines(self, orientation: Matrix) -> NDArray[np.float64]:
        """Cosine of the angle to each keyframe: the trace of a rotation is 1 + 2 cos."""
        cosines: NDArray[np.float64] = (self._orientations @ orientation.ravel() - 1.0) / 2.0
        return cosines


def _change_of(keyframe: Keyframe, changes: dict[int, _Change | None]) -> _Change | None:
    """The change of the nearest changed keyframe in a lineage; noted for all keyframes up to it."""
    passed: list[Keyframe] = []
    nearest: Keyframe | None = keyframe
    while nearest and id(nearest) not in changes:
        passed.append(nearest)
        nearest = nearest.parent
    change = changes[id(nearest)] if nearest else None
    changes.update((id(each), change) for each in passed)
    return change


def _share(part: float, total: float) -> float:
    return min(max(part / total, 0.0), 1.0) if total > 0.0 else 0.0
