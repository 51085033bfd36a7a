"""Orientations of views from their alignments to keyframes, with their uncertainty and confidence."""

from __future__ import annotations

import math

import numpy as np

from edgetpu_perception.confidence_ramp import ramp
from edgetpu_perception.visual_compass import view_recognition_limits as limits
from edgetpu_perception.visual_compass.alignment_records import RotationAlignment
from edgetpu_perception.visual_compass.keyframes import Keyframe
from edgetpu_perception.visual_compass.moving_objects.undetected_object import (
    DISAGREEMENT_CELLS,
    FIXED_PULL_SHARE,
    ForegroundPull,
)
from edgetpu_perception.visual_compass.orientation_tracker_state import Pose
from edgetpu_perception.visual_compass.rotation_alignment import RotationAligner
from edgetpu_perception.visual_compass.rotations import Matrix, Vector, to_matrix, to_vector


class OrientationEstimator:
    """Orientation of the camera at a view that was aligned to a keyframe."""

    def __init__(self, aligner: RotationAligner, up: Vector) -> None:
        """`up`: vertical unit vector in the world."""
        self._aligner = aligner
        self._up = up
        self.foreground = ForegroundPull((DISAGREEMENT_CELLS / aligner.cells_per_radian) ** 2)
        """How far a foreground may pull the headings."""

    def measured(self, stamp: float, keyframe: Keyframe, alignment: RotationAlignment) -> Pose:
        """The pose of a view, taken at `stamp` s, by its alignment to a keyframe."""
        to_world = -keyframe.orientation  # the rotation is from the keyframe to the view
        turn, influence = to_world.dot(to_vector(alignment.rotation)), to_world.dot(alignment.influence)
        orientation = to_matrix(turn).dot(keyframe.orientation)
        pull = math.hypot(self.foreground.pull(alignment, self._up.dot(to_world)), math.sqrt(alignment.doubt))
        fixed = FIXED_PULL_SHARE * abs(float(self._up.dot(turn))) if self._aligner.leaves_out else 0.0
        return Pose(
            stamp, orientation, keyframe, turn, influence, alignment.similarity, pull, alignment, fixed
        )

    def at(self, keyframe: Keyframe) -> Pose:
        """The pose of a keyframe itself."""
        still, influence = np.zeros(3), np.zeros((3, self._aligner.blocks))
        return Pose(
            keyframe.stamp, keyframe.orientation, keyframe, still, influence, limits.TYPICAL_SIMILARITY
        )

    def covariance(self, pose: Pose) -> Matrix:
        """Covariance of a pose's orientation about the world's axes, rad^2."""
        keyframe = pose.keyframe
        systematic = limits.SYSTEMATIC_TURN_ERROR * keyframe.unevenness * pose.turn
        measured = self._aligner.covariance(pose.influence) + systematic * systematic[:, np.newaxis]
        covariance: Matrix = keyframe.covariance + measured
        return covariance

    def confidence(self, alignment: RotationAlignment, keyframe: Keyframe) -> float:
        """Confidence, 0..1, that a view shows the keyframe and that its yaw is known."""
        certainty = alignment.certainty_about(keyframe.orientation.T.dot(self._up))
        about_y = alignment.influence[1]
        sigma = self._aligner.cells_per_radian * math.sqrt(float(about_y.dot(about_y)) + self._aligner.floor)
        sharp = 1.0 - ramp(sigma, *limits.SIGMA_RANGE_CELLS)
        return (
            ramp(alignment.similarity, *limits.SIMILARITY_RANGE)
            * ramp(alignment.overlap, *limits.OVERLAP_RANGE)
            * ramp(certainty, *limits.CERTAINTY_RANGE)
            * sharp
        )
