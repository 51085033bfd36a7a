"""Rotation between two views from their features: robust least squares with the camera's geometry.

Products use `dot`, which takes half the time of `@` for arrays this small.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.camera_intrinsics import Pinhole
from edgetpu_perception.visual_compass.alignment_records import Growth, Key, RotationAlignment, View
from edgetpu_perception.visual_compass.compared_points import ComparedPoints
from edgetpu_perception.visual_compass.compass_features import FeatureGrid
from edgetpu_perception.visual_compass.growth_solver import GrowthSolver
from edgetpu_perception.visual_compass.moving_objects.point_agreement import (
    ALL_FOLLOW,
    MAX_DEVIATION_CELLS,
    MIN_STANDING_SHARE,
    MOVING_CELLS,
    MOVING_SHARE,
    PointAgreement,
    certainty_of,
)
from edgetpu_perception.visual_compass.ray_projection import Projection
from edgetpu_perception.visual_compass.robust_residuals import QuietResiduals, robust_pull
from edgetpu_perception.visual_compass.rotation_solver import RotationSolver
from edgetpu_perception.visual_compass.rotations import Matrix, Vector, to_matrix

Floats = NDArray[np.float32]

MAX_ITERATIONS = 8
"""Largest number of steps of one alignment; limits the time."""

MAX_GUESS_ERROR_CELLS = 2.0
"""Error of a guess, as image motion in cells, up to which an alignment converges.

Rows: compass, full turns, yaw error, first view recognised.
"""

CONVERGED_CELLS = 0.03
"""An alignment ends after a step smaller than this, cells.

Rows: compass, full turns, yaw rate RMSE per frame.
"""

LEVERAGE_SHARE = 0.9
"""A fit reduces a block's residuals by the block's share of the information; they are enlarged accordingly.
Derived: with 0.9, the residuals of a block with all information count ten times, not infinitely."""

AREA_CELLS = 7
"""Side in cells of the neighbourhood of a cell in which two alignments are compared.

Derived: half of the extent of a feature.
"""

MIN_GAIN = 0.02
"""Mean difference of the misfits there, 0..1, above which one of the alignments is better. Uncritical."""

NEWTON_STEP_CELLS = 0.25
"""Step in cells below which Newton steps follow. Rows: compass, full turns, yaw rate RMSE per frame."""


class RotationAligner:
    """Aligns views of one camera, with one model."""

    def __init__(self, camera: Pinhole, height: int, width: int, grid: FeatureGrid) -> None:
        """`height`, `width`: size in px of the model's input, which shows the whole image of the camera."""
        self._rows, self._columns = grid.rows, grid.columns
        self._quiet = QuietResiduals(grid.quiet, grid.rounding)
        self._strides = np.array([1, grid.columns], np.float32)
        self._projection = Projection(camera, height, width, grid)
        self.points = ComparedPoints.of(self._projection, grid)
        # One column for each point: NumPy compares arrays of equal shape in a third of the time.
        ends = np.array([[grid.columns], [grid.rows]], np.float32)
        self._ends = np.repeat(ends, len(self.points.index), axis=1)
        self.little_moves = True
        """Whether little of the picture moves independently; see `Key.tolerated`."""
        self.ahead: Vector | None = None
        """Direction of motion, a unit vector in the optical frame; None if alignments find turns only."""
        self.features = grid.rows * grid.columns
        """Number of features of a map."""
        self._used: tuple[Floats, Floats] | None = None
        """1 for features, and for points, that are used, 0 for those fixed to the camera; None to use all."""
        self.blocks = self.points.blocks
        """Number of blocks of residuals."""
        self.field_of_view = self.points.field_of_view
        """Horizontal angle that the points cover, rad."""
        self.cells_per_radian = self.points.cells_per_radian
        """Mean image motion of a turn about y, cells/rad."""
        self.floor = (grid.floor / self.cells_per_radian) ** 2
        """Variance of a turn between noise-free frames, rad^2."""
        self._floors = np.eye(3) * self.floor

    def covariance(self, influence: NDArray[np.float64]) -> Matrix:
        """Covariance of a turn in rad^2, [3, 3], from the contributions of blocks, [3, blocks]."""
        covariance: Matrix = influence.dot(influence.T) + self._floors
        return covariance

    def leave_out(self, fixed: NDArray[np.bool_]) -> None:
        """Leave features that are fixed to the camera out of all alignments: [rows * columns]."""
        used = np.float32(1.0) - fixed
        self._used = (used, used[self.points.index]) if fixed.any() else None

    @property
    def leaves_out(self) -> bool:
        """Whether features that are fixed to the camera are left out of alignments."""
        return self._used is not None

    def key(self, view: View, known: RotationAlignment | None = None) -> Key:
        """Prepare a view for others to be aligned to it.

        `known`: this view aligned to another key; points that moved independently are then left out.
        """
        points = self._at_points(view.planes)
        jacobian = np.empty((4, *points.shape[1:]), np.float32)
        np.multiply(self.points.turns[:, 0], points[1], out=jacobian[:3])
        jacobian[:3] += self.points.turns[:, 1] * points[2]
        np.negative(points[0], out=jacobian[3])
        standing = self._standing(known) if known is not None and known.following < ALL_FOLLOW else None
        if standing is not None:
            jacobian *= standing
        if self._used is not None:
            jacobian *= self._used[1]
        jacobian = jacobian.reshape(4, -1)
        information = self.points.by_block(jacobian * jacobian)
        total = information.sum(axis=1, keepdims=True)
        leverage = 1.0 / (1.0 - LEVERAGE_SHARE * information / (total + np.float32(1e-9)))
        contrast = float(total[3, 0]) + 1e-9
        square = float(information[3].dot(information[3]))
        spread = max(contrast**2 / (square * self.blocks + 1e-9), 1.0 / self.blocks)
        slack = np.float32(MAX_DEVIATION_CELLS**2) * (points[1] * points[1] + points[2] * points[2])
        velocity = None if known is None else known.velocity
        return Key(view, points, jacobian, leverage, contrast, spread, slack, standing, velocity)

    def _at_points(self, planes: Floats) -> Floats:
        """Features of maps, [..., rows * columns], at the points: [..., points].

        `take` is faster than an index, and its result is contiguous.
        """
        return planes.take(self.points.index, axis=-1)

    def _standing(self, known: RotationAlignment) -> Floats:
        """0 at points of an aligned view that move independently, else 1: [points].

        At least MIN_STANDING_SHARE of the points are 1: those around which most of the texture follows.
        """
        moving, texture = self._averaged(known.agreement.moving(known.inside), MOVING_CELLS)
        share = (moving / (texture + np.float32(2e-3))).ravel()
        cell = np.rint(self._projection.cells(known.rotation.T, self.points.rays))
        moves = share.take(self._strides.dot(cell).astype(np.intp), mode="clip") * self._inside(cell)
        standing = moves <= MOVING_SHARE
        last = int(MIN_STANDING_SHARE * (len(moves) - 1))
        if np.count_nonzero(standing) <= last:
            standing = moves <= np.partition(moves, last)[last]
        used: Floats = standing.astype(np.float32)
        return used

    def not_following(self, found: RotationAlignment) -> Floats:
        """1 at points of a key around which texture does not follow an alignment, else 0: [points]."""
        around: Floats = self._around(found.agreement.moving(found.inside)[0] > 0.0)[self.points.index]
        return around

    def _around(self, points: NDArray[np.bool_]) -> Floats:
        """1 for features around points of the map, [points], else 0: [rows * columns]."""
        around: Floats = cv2.dilate(self._map(points), np.ones((MOVING_CELLS,) * 2)).ravel()
        return around

    def _map(self, values: NDArray[Any]) -> Floats:
        """Values of points, [points], at their places in a map that is 0 elsewhere: [rows, columns]."""
        plane = np.zeros(self.features, np.float32)
        plane[self.points.index] = values
        return plane.reshape(self._rows, self._columns)

    def area_share(self, one: RotationAlignment, other: RotationAlignment) -> float:
        """Area that the first of two alignments explains better, over the area where they differ, 0..1."""
        return share_of_gains(self.gain(one, other))

    def gain(self, one: RotationAlignment, other: RotationAlignment, weight: float = 1.0) -> Floats:
        """How much better the first of two alignments explains the picture around each feature, -1..1.

        Features are those of the key, [rows * columns]; magnitudes above MIN_GAIN are certain. `weight`:
        factor for the misfit of the first alignment.
        """
        noise = min(one.agreement.noise, other.agreement.noise)
        both = one.inside * other.inside
        own = np.float32(weight) * one.agreement.misfit(noise)
        change = both * (other.agreement.misfit(noise) - own)
        gain, seen = self._averaged((change, both), AREA_CELLS)
        gain /= seen + np.float32(1e-3)
        around: Floats = gain.ravel()
        return around

    def misfits(self, one: RotationAlignment, other: RotationAlignment) -> Sequence[Floats]:
        """Mean misfit around each feature of the key, 0..1, of two alignments: [rows * columns] each.

        It is 0 where they do not both show the picture.
        """
        noise = min(one.agreement.noise, other.agreement.noise)
        both = one.inside * other.inside
        of_one, of_other = (both * each.agreement.misfit(noise) for each in (one, other))
        *means, seen = self._averaged((of_one, of_other, both), AREA_CELLS)
        seen += np.float32(1e-3)
        return [(each / seen).ravel() for each in means]

    def unturned(self, found: RotationAlignment, view: View) -> RotationAlignment:
        """The alignment `found` as if the camera had not turned, at the same gain."""
        agreement = dataclasses.replace(found.agreement, view=self._at_points(view.planes[0]))
        everywhere = np.ones_like(found.inside)
        return dataclasses.replace(found, rotation=np.eye(3), agreement=agreement, inside=everywhere)

    def in_view(self, rotation: Matrix) -> Floats:
        """1 for points of a key that a view with this rotation shows, else 0: [points]."""
        inside = self._inside(np.rint(self._projection.cells(rotation, self.points.rays)))
        return inside.astype(np.float32)

    def _averaged(self, values: Sequence[Floats], cells: int) -> Sequence[Floats]:
        """Means of values at points, [points] each, over a square of `cells` a side around each feature.

        Features that are not compared count as 0. Each result is [rows, columns].
        """
        return [cv2.boxFilter(self._map(each), -1, (cells, cells)) for each in values]

    def search(self, key: Key, view: View) -> Matrix:
        """Guess the rotation from the key's optical frame to the view's without prior knowledge.

        The left, middle and right half of the key are searched for all over the view, so that motions of up
        to half of the picture are found.
        """
        return self._motion_of_rows(self._plane(key.view), self._plane(view), self._rows // 4)[0]

    def guesses(self, key: Key, view: View, points: Floats | None = None) -> list[Matrix]:
        """Guess the rotation as `search` does, and from the upper and the lower half of the picture alone.

        Seen from a car in a curve, the road in the lower half hardly moves. Equal motions give one guess.
        `points`: 1 at points of the picture to use, else 0: [points]; None to use all.
        """
        before, after = self._plane(key.view), self._plane(view)
        if points is not None:
            shown = self._around(points > 0.0).reshape(before.shape)
            before, after = before * shown, after * shown
        tops = self._rows // 4, 0, self._rows - self._rows // 2
        found = {
            motion: guess for guess, motion in (self._motion_of_rows(before, after, top) for top in tops)
        }
        return list(found.values())

    def _plane(self, view: View) -> Floats:
        """Sum of the features of a view: [rows, columns]."""
        plane: Floats = view.planes[0].sum(axis=0).reshape(self._rows, self._columns)
        return plane

    def _motion_of_rows(self, before: Floats, after: Floats, top: int) -> tuple[Matrix, tuple[int, int]]:
        """Rotation by the rows from `top`, half of all, and the motion of these along x and y in cells."""
        rows, columns = self._rows // 2, self._columns // 2
        best, center, motion = -1.0, (0.0, 0.0), (0, 0)
        for left in (0, self._columns // 4, self._columns - columns):
            half = before[top : top + rows, left : left + columns]
            score = cv2.matchTemplate(after, half, cv2.TM_CCORR_NORMED)
            _, peak, _, (x, y) = cv2.minMaxLoc(score)
            if peak > best:
                best, center, motion = peak, (left + columns / 2, top + rows / 2), (x - left, y - top)
        (x0, y0), (dx, dy) = center, motion
        rays = self._projection.rays(np.array([x0, x0 + dx]), np.array([y0, y0 + dy])).astype(np.float64)
        axis = np.cross(*(rays / np.linalg.norm(rays, axis=0)).T)
        sine = float(np.linalg.norm(axis))
        return to_matrix(axis * (math.asin(min(sine, 1.0)) / sine)) if sine > 0.0 else np.eye(3), motion

    def contrast_in_view(self, key: Key, rotation: Matrix) -> float:
        """Share of a key's squared contrast that is in a view with this rotation, 0..1."""
        inside = self._inside(np.rint(self._projection.cells(rotation, self.points.rays)))
        contrast = (key.points[0] ** 2).sum(axis=0)
        return float(contrast[inside].sum()) / key.contrast

    def any_in_view(self, points: Floats, rotation: Matrix) -> bool:
        """Whether a view with this rotation shows any of the points of a key that are not 0: [points]."""
        return bool((points * self.in_view(rotation)).any())

    def align(
        self,
        key: Key,
        view: View,
        guess: Matrix,
        growth: Growth | None = None,
        most_noise: float = math.inf,
    ) -> RotationAlignment:
        """Find the rotation from the key's optical frame to the view's, starting from a guess.

        The guess may be wrong by up to MAX_GUESS_ERROR_CELLS. `growth`: that of an earlier view since the
        key, at which the search starts if the camera moves ahead. `most_noise`: of the features, grey
        levels; larger noise is taken for another motion. Each point is compared with the feature nearest to
        its projection, by an expansion with the mean of both gradients. That is exact to second order
        (Benhimane and Malis 2004) and needs no interpolation.
        """
        solver = RotationSolver(self.points, key)
        if self.ahead is not None:
            solver = GrowthSolver(self.points, key, guess, self.ahead, growth)
        rotation, converged, inside, agreement, stiffness, tail = self._converge(
            key, view, guess, solver, most_noise
        )
        similarity, following, _ = agreement.measure()
        certainty = certainty_of(similarity, following)
        influence = solver.influence()
        influence /= certainty
        return RotationAlignment(
            rotation,
            influence,
            similarity,
            self._overlap(inside),
            _contrast(key, agreement.used),
            converged,
            following,
            tail,
            agreement,
            inside,
            solver.information,
            certainty,
            stiffness,
            solver.growth(agreement.noise),
        )

    def _converge(
        self, key: Key, view: View, guess: Matrix, solver: RotationSolver, most_noise: float
    ) -> tuple[Matrix, bool, Floats, PointAgreement, Floats, float]:
        """Take steps from a guess until they are small, or MAX_ITERATIONS of them.

        Returns rotation, converged, inside, agreement, stiffness and tail of the RotationAlignment.
        """
        rotation, gain, near, converged = guess, np.float32(1.0), False, False
        tolerated = key.tolerated if self.little_moves or self.ahead is not None else np.float32(0.0)
        for _ in range(MAX_ITERATIONS):
            inside, value = self._compare(key, view, rotation, solver.rays)
            seen = inside if key.standing is None else inside * key.standing
            expected = gain * key.points[0]
            residual = expected - value
            pull, stiffness, noise, tail = robust_pull(
                residual, seen, near, self._quiet, tolerated, most_noise
            )
            step = solver.solve(pull, stiffness, noise)
            rotation = rotation.dot(to_matrix(step[:3]))
            x, y, z, change = step.tolist()
            gain += np.float32(change)
            size = max(abs(x), abs(y), abs(z)) * self.cells_per_radian
            converged = near and size < CONVERGED_CELLS
            if converged:
                break
            near = size < NEWTON_STEP_CELLS
        agreement = PointAgreement(expected, value, key.slack, seen, noise)
        return rotation, converged, inside, agreement, stiffness, tail

    def _compare(self, key: Key, view: View, rotation: Matrix, rays: Floats) -> tuple[Floats, Floats]:
        """Whether the view shows each point of the key, 1 or 0: [points]; and the view's features there."""
        offset = self._projection.cells(rotation, rays)
        cell = np.rint(offset)
        offset -= cell
        index = self._strides.dot(cell).astype(np.intp)
        there = view.planes.take(index, axis=2, mode="clip")  # clipping is faster than checking
        change = there[1:]
        change += key.points[1:]
        change *= offset[:, np.newaxis]
        value = change[0] + change[1]
        value *= 0.5
        value += there[0]
        inside = self._inside(cell).astype(np.float32)
        if self._used is not None:
            cells, points = self._used
            inside *= points
            inside *= cells.take(index, mode="clip")
        return inside, value

    def _overlap(self, inside: Floats) -> float:
        """Share of the points not fixed to the camera that are in view, 0..1."""
        in_use = inside.size if self._used is None else max(float(self._used[1].sum()), 1.0)
        return float(inside.dot(inside)) / in_use

    def _inside(self, cell: Floats) -> NDArray[np.bool_]:
        """Whether columns and rows, whole numbers [2, n], are inside the map: [n]."""
        within = (cell >= 0) & (cell < self._ends)
        inside: NDArray[np.bool_] = within[0] & within[1]
        return inside


def share_of_gains(gain: Floats) -> float:
    """Share of the certain gains with which the first alignment is the better one, 0..1: see `gain`."""
    better, worse = int(np.count_nonzero(gain > MIN_GAIN)), int(np.count_nonzero(gain < -MIN_GAIN))
    return better / max(better + worse, 1)


def _contrast(key: Key, seen: Floats) -> float:
    """Share of a key's squared contrast that is at points that are seen."""
    here = (key.points[0] * seen).ravel()
    return float(here.dot(here)) / key.contrast
