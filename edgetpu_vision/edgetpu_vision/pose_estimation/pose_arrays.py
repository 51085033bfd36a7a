"""Poses in px of a model's input, as arrays: the form that all decoders of poses produce."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgetpu_vision.pose_estimation.poses import KEYPOINT_NAMES, Keypoint, Pose
from edgetpu_vision.preprocessing.image_fit import Placement


class PoseArrays(NamedTuple):
    """n poses; the highest score first."""

    x: NDArray[np.float64]
    """x of the keypoints, [n, 17], px of the model's input, right positive."""
    y: NDArray[np.float64]
    """y of the keypoints, [n, 17], px of the model's input, down positive."""
    keypoint_scores: NDArray[Any]
    """Scores of the keypoints, [n, 17], 0..1."""
    scores: NDArray[Any]
    """Scores of the poses, [n], 0..1."""
    order: NDArray[np.intp]
    """Index of each pose among the model's poses, [n]."""

    @classmethod
    def of(cls, y_x: NDArray[Any], keypoint_scores: NDArray[Any], scores: NDArray[Any]) -> PoseArrays:
        """Sort poses by score; `y_x`: [n, 17, 2] or more, y before x."""
        order = np.argsort(-scores, kind="stable")
        positions = y_x[order].astype(np.float64)
        return cls(positions[..., 1], positions[..., 0], keypoint_scores[order], scores[order], order)

    def best(self, most: int, min_confidence: float) -> PoseArrays:
        """The poses with at least this score, at most the first `most`."""
        count = min(most, int(np.count_nonzero(self.scores >= min_confidence)))
        return PoseArrays(
            self.x[:count],
            self.y[:count],
            self.keypoint_scores[:count],
            self.scores[:count],
            self.order[:count],
        )

    def in_image(self, placement: Placement) -> tuple[Pose, ...]:
        """The poses in px of the image."""
        columns = placement.image_x(self.x).tolist()
        rows = placement.image_y(self.y).tolist()
        each = zip(self.scores.tolist(), columns, rows, self.keypoint_scores.tolist(), strict=True)
        return tuple(
            Pose(score, tuple(map(Keypoint, KEYPOINT_NAMES, xs, ys, keypoint_scores)))
            for score, xs, ys, keypoint_scores in each
        )
