"""Normal equations of a turn: the step that residuals cause, and the contribution of each block."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.visual_compass.alignment_records import Growth, Key
from edgetpu_perception.visual_compass.compared_points import ComparedPoints
from edgetpu_perception.visual_compass.rotations import Matrix, Vector

Floats = NDArray[np.float32]

RIDGE_SHARE = 1e-3
"""Share of the largest information that is added to all axes, so that those without any stay at their guess.

Rows: compass, turns past a blank wall, yaw error past the wall.
"""


class RotationSolver:
    """Solves for a turn about the axes of a key's optical frame, rad, and for a loss of contrast."""

    def __init__(self, points: ComparedPoints, key: Key) -> None:
        self._points = points
        self._key = key
        self._normal: Matrix = np.zeros((4, 4))
        self._pull = key.jacobian[0]

    @property
    def information(self) -> Matrix:
        """Inverse covariance of turn and contrast for residuals with a standard deviation of 1: [4, 4]."""
        return self._normal

    @property
    def rays(self) -> Floats:
        """Directions of the key's points before the turn: [3, points]."""
        return self._points.rays

    def solve(self, pull: Floats, stiffness: Floats, _noise: float) -> Vector:
        """The step of the unknowns, from the results of `robust_pull`: [4]."""
        jacobian = self._key.jacobian
        self._pull = pull
        self._normal = regularised((jacobian * stiffness).dot(jacobian.T))
        right_side = jacobian.dot(pull).astype(np.float64)[:, np.newaxis]
        # For four unknowns OpenCV takes a fifth of the time of NumPy's solve. OpenCV 5 expects a column.
        step: Vector = cv2.solve(self._normal, right_side)[1].ravel()
        return step

    def influence(self) -> NDArray[np.float64]:
        """Contribution of each block of residuals to the last step of the turn, rad: [3, blocks]."""
        blocks = self._points.by_block(self._key.jacobian * self._pull) * self._key.leverage
        influence: NDArray[np.float64] = cv2.solve(self._normal, blocks.astype(np.float64))[1][:3]
        return influence

    def growth(self, _noise: float) -> Growth | None:
        """How the picture has grown; None, as a turn does not change its size."""
        return None


def regularised(normal: NDArray[Any]) -> Matrix:
    """A normal matrix [n, n] with a ridge, so that axes without information do not diverge.

    The unknowns are a turn about three axes, the contrast, and any others.
    """
    regularised = normal.astype(np.float64)
    ridge = RIDGE_SHARE * (1.0 + max(normal[0, 0], normal[1, 1], normal[2, 2]))
    diagonal = regularised.reshape(-1)[:: len(normal) + 1]
    contrast = diagonal[3] + 1.0
    diagonal += ridge
    diagonal[3] = contrast
    return regularised
