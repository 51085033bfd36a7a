"""The features of a map at which two views are compared, block by block."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.camera_intrinsics import CameraError
from edgetpu_perception.visual_compass.compass_features import FeatureGrid
from edgetpu_perception.visual_compass.ray_projection import Projection
from edgetpu_perception.visual_compass.rotations import to_matrix

Floats = NDArray[np.float32]

POINTS_PER_SIDE = 52
"""Features along the shorter side; of these every second one is used, as on a chess board.

Derived: all of the 52 features of a 64x64 input; those in between are so alike that they add little.
"""

BLOCKS_PER_SIDE = 4
"""Blocks of residuals along each side that count as independent.

Derived: 52 / 4 = 13 px, the extent of a feature.
"""

_SMALL = 1e-3
"""Turn (rad) and move (over the scene's distance) of the numerical derivatives. Uncritical."""


@dataclass(frozen=True)
class ComparedPoints:
    """Every second feature of a map, block after block, so that a block is a slice."""

    index: NDArray[np.intp]
    """Index of each point in the flattened map: [points]."""
    rays: Floats
    """Direction of each point in the optical frame, with z = 1: [3, points]."""
    heights: Floats
    """Distance of each point below the middle row, as a share of the picture's height: [points]."""
    falls: Floats
    """Change of the heights with a turn about x, y and z, 1/rad: [3, points]."""
    turns: Floats
    """Image motion of each point for a turn about x, y and z, cells/rad: [3, 2, 1, points]."""
    moves: Floats
    """The same for a move along x, y and z, cells per distance of the point."""
    starts: NDArray[np.intp]
    """The first point of each block: [blocks]."""
    block: NDArray[np.intp]
    """The block of each point: [points]."""

    @classmethod
    def of(cls, projection: Projection, grid: FeatureGrid) -> ComparedPoints:
        """Choose the points of a map that are in the range of the lens model.

        Raises CameraError if there are none.
        """
        step = max(round(min(grid.rows, grid.columns) / POINTS_PER_SIDE), 1)
        y, x = np.mgrid[: grid.rows : step, : grid.columns : step]
        y, x = ((each[(x + y) // step % 2 == 0]) for each in (y, x))
        rays = projection.rays(x, y)
        known = np.isfinite(rays).all(axis=0)
        if not known.any():
            raise CameraError("expected a picture with directions within 80 degrees of the optical axis")
        y, x, rays = y[known], x[known], rays[:, known]
        block = (y * BLOCKS_PER_SIDE // grid.rows) * BLOCKS_PER_SIDE + x * BLOCKS_PER_SIDE // grid.columns
        order = np.argsort(block, kind="stable")
        # `take` keeps each row contiguous, which makes products with rays faster.
        y, x, block, rays = y[order], x[order], block[order], rays.take(order, axis=1)
        projection.include(rays)
        turns, moves = _motion(projection, rays)
        starts = np.flatnonzero(np.diff(block, prepend=-1))
        numbers = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(block)))
        heights = projection.heights(y.astype(np.float32))
        falls = turns[:, 1, 0] * np.float32(projection.heights_per_row)
        return cls(y * grid.columns + x, rays, heights, falls, turns, moves, starts, numbers)

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return len(self.starts)

    @property
    def field_of_view(self) -> float:
        """Horizontal angle that the points cover, rad."""
        left, right = self.rays[:, [np.argmin(self.rays[0]), np.argmax(self.rays[0])]].T
        return math.atan(float(right[0])) - math.atan(float(left[0]))

    @property
    def cells_per_radian(self) -> float:
        """Mean image motion of a turn about y, cells/rad."""
        return float(np.abs(self.turns[1, 0]).mean())

    def by_block(self, values: Floats) -> Floats:
        """Sums over the points of each block and all channels: [n, blocks] of [n, channels * points]."""
        sums = np.add.reduceat(values.reshape(len(values), -1, len(self.index)), self.starts, axis=2)
        return sums.sum(axis=1) if sums.shape[1] > 1 else sums[:, 0]


def _motion(projection: Projection, rays: Floats) -> tuple[Floats, Floats]:
    """ComparedPoints.turns and .moves: numerical derivatives of the projection with its distortion."""
    motion = np.empty((2, 3, 2, 1, rays.shape[1]), np.float32)
    still = np.eye(3)
    for axis, change in enumerate(still * _SMALL):
        turned = [projection.cells(to_matrix(each), rays, np.float64) for each in (change, -change)]
        moved = [
            projection.cells(still, rays - each[:, np.newaxis], np.float64) for each in (change, -change)
        ]
        for number, (ahead, behind) in enumerate((turned, moved)):
            motion[number, axis, :, 0] = (ahead - behind) / (2 * _SMALL)
    return motion[0], motion[1]
