"""Normal equations of a turn and a forward motion in a scene whose distance differs from block to block.

A forward motion enlarges the picture in proportion to the distance travelled over that of the scene. As the
distance of each block is unknown, each has a growth of its own, which is eliminated (Schur complement); the
remaining equations give the turn.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.visual_compass.alignment_records import Growth, Key
from edgetpu_perception.visual_compass.compared_points import ComparedPoints
from edgetpu_perception.visual_compass.rotation_solver import RotationSolver, regularised
from edgetpu_perception.visual_compass.rotations import Matrix, Vector, to_matrix, to_vector

Floats = NDArray[np.float32]

DEPTH_SPREAD = 0.7
"""Standard deviation of the growth of the blocks over their mean: in a room, near objects grow several times
as fast as the wall ahead. Rows: compass, drives through rooms, yaw RMSE. Uncritical."""

GROWTH_SPREAD = 0.003
"""The least standard deviation of the growth of the blocks. Uncritical."""

SIDEWAYS_SPREAD = 0.5
"""Standard deviation of sideways over forward motion: the camera of a robot looks ahead, within 30 deg.

Rows: compass, drives through rooms, yaws within one sigma.
"""

LEAST_NOISE = 0.05
"""Noise that rounding leaves, grey levels, added to that of the residuals. Uncritical."""

MAX_GROWTH = 0.6
"""Largest growth of a block: beyond it the key shows little of what is in view. Uncritical."""

_AHEAD = 4
"""Index of the growth among the unknowns: after the turn, 0 to 2, and the contrast, 3."""


class GrowthSolver(RotationSolver):
    """Solves for a turn, a loss of contrast, and the growth of each block."""

    def __init__(
        self, points: ComparedPoints, key: Key, guess: Matrix, ahead: Vector, start: Growth | None
    ) -> None:
        """`guess`: of the rotation; `ahead`: direction of motion, a unit vector in the optical frame.

        `start`: growth of an earlier view since the key.
        """
        super().__init__(points, key)
        # Half-way through a curve it points along the chord.
        direction = to_matrix(-to_vector(guess) / 2.0).dot(ahead)
        self._direction = direction.astype(np.float32)[:, np.newaxis]
        moves = points.moves[:, 0] * key.points[1] + points.moves[:, 1] * key.points[2]
        if key.standing is not None:
            moves *= key.standing
        along = np.tensordot(self._direction[:, 0], moves, axes=1).reshape(1, -1)
        self._jacobian = np.concatenate((key.jacobian, along))
        self._across: Floats = moves[:2]
        self._blocks = np.zeros(points.blocks) if start is None else start.blocks.copy()
        self._mean = 0.0 if start is None else start.mean
        self._normal: Matrix = np.eye(5)
        self._weighted = self._jacobian
        self._coupling = self._pulls = np.zeros((5, points.blocks))
        self._own = np.ones(points.blocks)

    @property
    def information(self) -> Matrix:
        """As RotationSolver.information, with the growth unknown: [4, 4]."""
        information: Matrix = np.linalg.inv(np.linalg.inv(self._normal)[:4, :4])
        return information

    @property
    def rays(self) -> Floats:
        """Directions of the key's points after the move, before the turn: [3, points]."""
        moved: Floats = self._points.rays - self._direction * self._growth_of_points()
        return moved

    def _growth_of_points(self) -> Floats:
        growth: Floats = self._blocks.astype(np.float32)[self._points.block]
        return growth

    def solve(self, pull: Floats, stiffness: Floats, noise: float) -> Vector:
        """The step of turn and contrast: [4]; the growth takes its step here."""
        jacobian, by_block = self._jacobian, self._points.by_block
        self._weighted = jacobian * stiffness
        normal = self._weighted.dot(jacobian.T).astype(np.float64)
        self._coupling = by_block(self._weighted * jacobian[_AHEAD]).astype(np.float64)
        self._pulls = by_block(jacobian * pull).astype(np.float64)
        spread = max(DEPTH_SPREAD * abs(self._mean), GROWTH_SPREAD)
        known = ((noise + LEAST_NOISE) / spread) ** 2
        self._own = self._coupling[_AHEAD] + known
        own_pull = self._pulls[_AHEAD] - known * (self._blocks - self._mean)
        pulls = self._pulls.sum(axis=1) - self._coupling.dot(own_pull / self._own)
        self._normal = regularised(normal - (self._coupling / self._own).dot(self._coupling.T))
        step: Vector = np.linalg.solve(self._normal, pulls)
        self._mean += float(step[_AHEAD])
        self._blocks += step[_AHEAD] + (own_pull - step.dot(self._coupling)) / self._own
        np.clip(self._blocks, -MAX_GROWTH, MAX_GROWTH, out=self._blocks)
        return step[:4]

    def influence(self) -> NDArray[np.float64]:
        """Contribution of each block of residuals to the last step of the turn, rad: [3, blocks]."""
        blocks = self._pulls - self._coupling * (self._pulls[_AHEAD] / self._own)
        blocks[:4] *= self._key.leverage
        influence: NDArray[np.float64] = np.linalg.solve(self._normal, blocks)[:3]
        return influence

    def growth(self, noise: float) -> Growth:
        """How the picture has grown; `noise`: of the residuals, grey levels."""
        inverse = np.linalg.inv(self._normal).astype(np.float64, copy=False)
        variance = float(inverse[_AHEAD, _AHEAD]) * noise**2
        return Growth(
            self._blocks, self._mean, variance, SIDEWAYS_SPREAD * self._turn_of_sideways_motion(inverse)
        )

    def _turn_of_sideways_motion(self, inverse: Matrix) -> float:
        """Apparent turn of a sideways motion as long as the forward one, rad: RMS over x and y."""
        across = (self._across * self._growth_of_points()).reshape(2, -1)
        pulls = self._weighted.dot(across.T).astype(np.float64)
        for axis, slope in enumerate(across):
            own_pull = self._points.by_block(self._weighted[_AHEAD:] * slope)[0]
            pulls[:, axis] -= self._coupling.dot(own_pull / self._own)
        turns = inverse[:2].dot(pulls)
        return math.sqrt(float(np.square(turns).sum()) / 2.0)
