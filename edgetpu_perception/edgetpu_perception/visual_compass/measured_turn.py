"""The turn from one view to the next: by a common keyframe, and directly where the scene is not far away."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.visual_compass.heading_filter_state import Pose, TrackedPose
from edgetpu_perception.visual_compass.rotation_alignment import (
    NEWTON_STEP_CELLS,
    TAIL_RANGE,
    Alignment,
    RotationAligner,
    View,
)
from edgetpu_perception.visual_compass.rotations import Matrix, Vector, to_matrix, to_vector

COMMON_ERROR = 0.5
"""Variance of the mean of two measurements over the square of their difference.

Derived: (1 + r) / (4 (1 - r)) for a correlation r of their errors, which are those of the same view, of 1/3.
"""


@dataclass(frozen=True)
class MeasuredTurn:
    """A turn about the optical axes of the later view, rad."""

    vector: Vector
    influence: NDArray[np.float64]
    """Contribution of each block of residuals: [3, blocks]."""
    difference: Vector
    """Of the two measurements that this is the mean of, direct minus by keyframe; 0 if there is one."""

    @property
    def by_keyframe(self) -> Vector:
        """The turn by the keyframe alone, which goes on steadily where one of two motions is followed."""
        return self.vector - self.difference / 2.0

    @property
    def difference_covariance(self) -> Matrix:
        """Covariance, rad^2, that the difference shows."""
        covariance: Matrix = COMMON_ERROR * self.difference[:, np.newaxis] * self.difference
        return covariance


def by_keyframe(before: Pose, found: Pose) -> MeasuredTurn:
    """The difference of two poses."""
    # Errors of a common keyframe cancel, block by block.
    common = before.influence if before.keyframe is found.keyframe else 0.0
    return MeasuredTurn(
        to_vector(before.orientation.T.dot(found.orientation)),
        found.orientation.T.dot(found.influence - common),
        np.zeros(3),
    )


def with_direct_comparison(
    turn: MeasuredTurn, aligner: RotationAligner, last: TrackedPose, view: View, alignment: Alignment
) -> MeasuredTurn:
    """The mean of a turn by a keyframe and of the direct comparison with the last view, where that helps.

    `view`, `alignment`: the later view and how it was aligned to the keyframe. A camera that is carried along
    sees near things move against the keyframe. Each view then follows other parts of the picture, and their
    difference jumps; from one view to the next things hardly move.
    """
    if alignment.tail <= TAIL_RANGE[0] or last.view is None or last.alignment is None:
        return turn
    key = aligner.key(last.view, last.alignment)
    direct = aligner.align(key, view, to_matrix(-turn.vector))
    vector = -to_vector(direct.rotation)  # from the view before to this one, about axes that it leaves
    difference = vector - turn.vector
    if not direct.converged or np.abs(difference).max() * aligner.cells_per_radian > 2.0 * NEWTON_STEP_CELLS:
        return turn
    # Both influences are by blocks of the picture, whose errors are the same.
    influence = (turn.influence - direct.rotation.dot(direct.influence)) / 2.0
    return MeasuredTurn(turn.vector + difference / 2.0, influence, difference)
