"""Rotation between two views from their features: robust least squares with the camera's geometry.

Products use `dot`, which takes half the time of `@` for arrays this small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.images.pinhole import Pinhole
from edgetpu_perception.visual_compass.compass_features import FeatureGrid
from edgetpu_perception.visual_compass.point_agreement import (
    ALL_FOLLOW,
    MAX_DEVIATION_CELLS,
    MIN_STANDING_SHARE,
    MOST_FOLLOW,
    MOVING_CELLS,
    MOVING_SHARE,
    PointAgreement,
)
from edgetpu_perception.visual_compass.ray_projection import Projection
from edgetpu_perception.visual_compass.robust_residuals import robust_pull
from edgetpu_perception.visual_compass.rotations import Matrix, Vector, to_matrix

Floats = NDArray[np.float32]

POINTS_PER_SIDE = 52
"""Features along the shorter side of which every second one is used, as on a chess board.

Derived: all of the 52 features of a 64x64 input; others are so alike that they add little.
"""

BLOCKS_PER_SIDE = 4
"""Blocks of residuals along each side that count as independent.

Derived: 52 / 4 = 13 px, the extent of a feature.
"""

MAX_ITERATIONS = 8
"""Largest number of steps of one alignment; limits the time."""

MAX_GUESS_ERROR_CELLS = 2.0
"""Error of a guess, cells of image motion, from which an alignment still converges.

Rows: compass, full turns, yaw error, first view recognised.
"""

CONVERGED_CELLS = 0.03
"""An alignment ends after a step smaller than this, cells.

Rows: compass, full turns, yaw rate RMSE per frame.
"""

TOLERATED_CELLS = 0.1
"""Deviation of a point, cells, that does not show another motion while little moves by itself, however
little noise there is.

Where most of a picture is flat its noise seems to be none. Each edge that is off by the error of the guess
would be left out, and the guess would stay. Rows: compass, full turns, yaw rate RMSE per frame; walking
camera, yaw RMSE: with 0.15 near things count too much;
test_edges_are_aligned_whatever_the_error_of_the_guess.
"""

LEVERAGE_SHARE = 0.9
"""A fit adapts to a block's residuals by the block's share of the information; they are enlarged accordingly.
Derived: with 0.9 those of a block with all information count ten times, not infinitely."""

MIN_NOISE_SIMILARITY = 0.2
"""Smallest similarity that is used as a measure of the noise of a view.

Rows: compass, turns past a blank wall, yaw error over its sigma.
"""

RIDGE_SHARE = 1e-3
"""Share of the strongest axis added to all axes, so that axes without information stay at their guess.

Rows: compass, turns past a blank wall, yaw error past the wall.
"""

NEWTON_STEP_CELLS = 0.25
"""After a step smaller than this, cells, Newton steps follow. Rows: compass, full turns, yaw rate RMSE per
frame."""


@dataclass(frozen=True)
class View:
    """Features of one image, prepared for alignment to a key."""

    planes: Floats
    """Every feature and its derivatives to x and y: [3, channels, rows * columns]."""

    @property
    def texture(self) -> float:
        """Root mean square of the features."""
        features = self.planes[0].ravel()
        return math.sqrt(float(features.dot(features)) / features.size)


@dataclass(frozen=True)
class Key:
    """A view that others are aligned to."""

    view: View
    points: Floats
    """The same at the used points: [3, channels, points]."""
    jacobian: Floats
    """Derivatives of the features at the points with respect to a turn about x, y and z, rad, and to a loss
    of contrast: [4, channels * points]."""
    leverage: Floats
    """Factor on the residuals of each block, which the fit has reduced: [4, blocks]."""
    contrast: float
    """Sum of squares of all features at the points."""
    spread: float
    """Evenness of the contrast, 0..1: share of the blocks that would hold all of it."""
    slack: Floats
    """Squared residual that a deviation by MAX_DEVIATION_CELLS explains: [channels, points]."""
    standing: Floats | None
    """1 for points to use, 0 for those that moved by themselves: [points]; None to use all."""


@dataclass(frozen=True)
class Alignment:
    """Rotation of the camera between a key and a view."""

    rotation: Matrix
    """From the key's optical frame to the view's."""
    influence: NDArray[np.float64]
    """Contribution of each block of residuals to the rotation, rad about the axes of the key's optical
    frame: [3, blocks]. Blocks are independent."""
    similarity: float
    """Normalised correlation over the overlap, -1..1."""
    overlap: float
    """Share of the key that is in view, 0..1."""
    contrast: float
    """Share of the key's squared contrast that is in view, 0..1."""
    converged: bool
    following: float
    """Share of the visible texture in the overlap that turns like this, 0..1."""
    tail: float
    """Standard deviation of the residuals over the one that the quiet ones imply; see TAIL_RANGE."""
    agreement: PointAgreement
    inside: Floats
    """1 for points of the key that are in view, else 0: [points]."""
    information: Matrix
    """Inverse covariance, [4, 4], of the rotation about the axes of the key's optical frame, rad, and of the
    contrast, for residuals with a standard deviation of 1."""

    def explained(self, noise: float, axis: Vector) -> float:
        """Variance of a turn about an axis of the key's frame, rad^2, that residuals of this size explain."""
        covariance = np.asarray(cv2.invert(self.information)[1])[:3, :3]
        return noise * noise * float(axis.dot(covariance).dot(axis))


class RotationAligner:
    """Aligns views of one camera, with one model."""

    def __init__(self, camera: Pinhole, height: int, width: int, grid: FeatureGrid) -> None:
        """`height`, `width`: size of the model's input, px, which shows the whole image of the camera."""
        self._rows, self._columns = grid.rows, grid.columns
        self._quiet = grid.quiet, NormalDist().inv_cdf(0.5 + grid.quiet / 2.0)
        self._strides = np.array([1, grid.columns], np.float32)
        self._projection = Projection(camera, height, width, grid)
        step = max(round(min(self._rows, self._columns) / POINTS_PER_SIDE), 1)
        y, x = np.mgrid[: self._rows : step, : self._columns : step]
        y, x = ((each[(x + y) // step % 2 == 0]) for each in (y, x))
        known = np.isfinite(self._projection.rays(x, y)).all(axis=0)
        y, x = y[known], x[known]
        # Block by block, so that a block is a slice.
        block = (y * BLOCKS_PER_SIDE // self._rows) * BLOCKS_PER_SIDE + x * BLOCKS_PER_SIDE // self._columns
        order = np.argsort(block, kind="stable")
        y, x, block = y[order], x[order], block[order]
        self._index = y * self._columns + x
        self._starts = np.flatnonzero(np.diff(block, prepend=-1))
        self._rays = self._projection.rays(x, y)
        motion = self._motion_of_rays()
        self._motion = motion[:3]
        self.motion_ahead = motion[3]
        """Image motion of each point for a move ahead by its distance, cells: [2, 1, points]."""
        # One column for each point: NumPy compares arrays of equal shape in a third of the time.
        self._ends = np.repeat(np.array([[grid.columns], [grid.rows]], np.float32), len(x), axis=1)
        self.little_moves = True
        """Whether little of the picture moves by itself; see TOLERATED_CELLS."""
        self.blocks = len(self._starts)
        """Number of blocks of residuals."""
        left, right = self._rays[:, [np.argmin(self._rays[0]), np.argmax(self._rays[0])]].T
        self.field_of_view = math.atan(float(right[0])) - math.atan(float(left[0]))
        """Horizontal angle that the points cover, rad."""
        self.cells_per_radian = float(np.abs(self._motion[1, 0]).mean())
        """Mean image motion of a turn about y, cells/rad."""
        self.floor = (grid.floor / self.cells_per_radian) ** 2
        """Variance of a turn between noise-free frames, rad^2."""
        self._floors = np.eye(3) * self.floor

    def covariance(self, influence: NDArray[np.float64]) -> Matrix:
        """Covariance of a turn, rad^2, from the contributions of blocks [3, blocks]."""
        covariance: Matrix = influence.dot(influence.T) + self._floors
        return covariance

    def key(self, view: View, known: Alignment | None = None) -> Key:
        """Prepare a view for others to be aligned to it.

        `known`: this view aligned to another key; what moved by itself there is left out of the new key.
        """
        points = view.planes[..., self._index]
        jacobian = np.empty((4, *points.shape[1:]), np.float32)
        np.multiply(self._motion[:, 0], points[1], out=jacobian[:3])
        jacobian[:3] += self._motion[:, 1] * points[2]
        np.negative(points[0], out=jacobian[3])
        standing = self._standing(known) if known is not None and known.following < ALL_FOLLOW else None
        if standing is not None:
            jacobian *= standing
        jacobian = jacobian.reshape(4, -1)
        information = self._by_block(jacobian * jacobian, len(points[0]))
        leverage = 1.0 / (
            1.0 - LEVERAGE_SHARE * information / (information.sum(axis=1, keepdims=True) + np.float32(1e-9))
        )
        information = information[3]
        contrast = float(information.sum()) + 1e-9
        spread = max(contrast**2 / (float(information @ information) * self.blocks + 1e-9), 1.0 / self.blocks)
        slack = np.float32(MAX_DEVIATION_CELLS**2) * (points[1] * points[1] + points[2] * points[2])
        return Key(view, points, jacobian, leverage, contrast, spread, slack, standing)

    def _standing(self, known: Alignment) -> Floats:
        """0 at points of an aligned view that show what moves by itself, else 1: [points].

        At least MIN_STANDING_SHARE of the points are 1: those around which most of the texture follows.
        """
        planes = np.zeros((2, self._rows * self._columns), np.float32)
        planes[:, self._index] = known.agreement.moving(known.inside)
        moving, texture = (
            cv2.boxFilter(each.reshape(self._rows, self._columns), -1, (MOVING_CELLS,) * 2) for each in planes
        )
        share = (moving / (texture + np.float32(2e-3))).ravel()
        cell = np.rint(self._projection.cells(known.rotation.T, self._rays))
        inside = self._inside(cell)
        moves = np.zeros(len(self._index), np.float32)
        moves[inside] = share[self._strides.dot(cell).astype(np.intp)[inside]]
        limit = max(MOVING_SHARE, float(np.quantile(moves, MIN_STANDING_SHARE)))
        return (moves <= limit).astype(np.float32)

    def not_following(self, found: Alignment) -> Floats:
        """1 at points of a key around which texture does not follow an alignment, else 0: [points]."""
        plane = np.zeros((self._rows, self._columns), np.float32)
        plane.ravel()[self._index] = found.agreement.moving(found.inside)[0] > 0.0
        around: Floats = cv2.dilate(plane, np.ones((MOVING_CELLS,) * 2)).ravel()
        there: Floats = around[self._index]
        return there

    def _by_block(self, values: Floats, channels: int) -> Floats:
        """Sums over the points of each block and all channels: [4, blocks] of [4, channels * points]."""
        sums = np.add.reduceat(values.reshape(4, channels, -1), self._starts, axis=2)
        return sums.sum(axis=1) if channels > 1 else sums[:, 0]

    def search(self, key: Key, view: View) -> Matrix:
        """Guess the rotation from the key's optical frame to the view's without prior knowledge.

        The left, middle and right half of the key are searched for all over the view, so that motions by up
        to half of the picture are found.
        """
        before, after = (
            each.planes[0].sum(axis=0).reshape(self._rows, self._columns) for each in (key.view, view)
        )
        rows, columns = self._rows // 2, self._columns // 2
        top = self._rows // 4
        best, guess = -1.0, (0.0, 0.0, 0, 0)
        for left in (0, self._columns // 4, self._columns - columns):
            half = before[top : top + rows, left : left + columns]
            score = cv2.matchTemplate(after, half, cv2.TM_CCORR_NORMED)
            _, peak, _, (x, y) = cv2.minMaxLoc(score)
            if peak > best:
                best, guess = peak, (left + columns / 2, top + rows / 2, x - left, y - top)
        x0, y0, dx, dy = guess
        rays = self._projection.rays(np.array([x0, x0 + dx]), np.array([y0, y0 + dy])).astype(np.float64)
        axis = np.cross(*(rays / np.linalg.norm(rays, axis=0)).T)
        sine = float(np.linalg.norm(axis))
        return to_matrix(axis * (math.asin(min(sine, 1.0)) / sine)) if sine else np.eye(3)

    def contrast_in_view(self, key: Key, rotation: Matrix) -> float:
        """Share of a key's squared contrast that is in a view with this rotation, 0..1."""
        inside = self._inside(np.rint(self._projection.cells(rotation, self._rays)))
        contrast = (key.points[0] ** 2).sum(axis=0)
        return float(contrast[inside].sum()) / key.contrast

    def any_in_view(self, points: Floats, rotation: Matrix) -> bool:
        """Whether a view with this rotation shows any point of a key that is not 0: [points]."""
        inside = self._inside(np.rint(self._projection.cells(rotation, self._rays)))
        return bool(points[inside].any())

    def align(self, key: Key, view: View, guess: Matrix) -> Alignment:
        """Find the rotation from the key's optical frame to the view's, starting from a guess.

        The guess may be wrong by up to MAX_GUESS_ERROR_CELLS. Each point is compared with the feature nearest
        to its projection, by an expansion with the mean of both gradients. That is exact to second order
        (Benhimane and Malis 2004) and needs no interpolation.
        """
        rotation, gain, near, converged = guess, np.float32(1.0), False, False
        share = (TOLERATED_CELLS / MAX_DEVIATION_CELLS) ** 2 if self.little_moves else 0.0
        tolerated = np.float32(share) * key.slack
        for _ in range(MAX_ITERATIONS):
            inside, value = self._compare(key, view, rotation)
            seen = inside if key.standing is None else inside * key.standing
            expected = gain * key.points[0]
            residual = expected - value
            pull, stiffness, noise, tail = robust_pull(residual, seen, near, self._quiet, tolerated)
            normal = _regularised((key.jacobian * stiffness).dot(key.jacobian.T))
            # For four unknowns OpenCV takes a fifth of the time of NumPy's solve.
            step = cv2.solve(normal, key.jacobian.dot(pull).astype(np.float64))[1].ravel()
            rotation = rotation.dot(to_matrix(step[:3]))
            x, y, z, change = step.tolist()
            gain += np.float32(change)
            size = max(abs(x), abs(y), abs(z)) * self.cells_per_radian
            converged = near and size < CONVERGED_CELLS
            if converged:
                break
            near = size < NEWTON_STEP_CELLS
        blocks = self._by_block(key.jacobian * pull, len(value)) * key.leverage
        influence = cv2.solve(normal, blocks.astype(np.float64))[1][:3]
        agreement = PointAgreement(expected, value, key.slack, seen, noise)
        similarity, following, _ = agreement.measure()
        # Noise of the key's gradients makes them look steeper than they are. And where parts of the picture
        # disagree, some of those that seem to follow do not.
        certainty = max(similarity * min(following / MOST_FOLLOW, 1.0), MIN_NOISE_SIMILARITY)
        influence /= certainty
        overlap, contrast = float(inside.dot(inside)) / inside.size, _contrast(key, seen)
        return Alignment(
            rotation,
            influence,
            similarity,
            overlap,
            contrast,
            converged,
            following,
            tail,
            agreement,
            inside,
            normal * certainty**2,
        )

    def _compare(self, key: Key, view: View, rotation: Matrix) -> tuple[Floats, Floats]:
        """Whether the view has each point of the key, 1 or 0: [points]; and the view's features there."""
        offset = self._projection.cells(rotation, self._rays)
        cell = np.rint(offset)
        offset -= cell
        index = self._strides.dot(cell).astype(np.intp)
        there = view.planes.take(index, axis=2, mode="clip")  # clipping is faster than checking
        change = there[1:]
        change += key.points[1:]
        change *= offset[:, np.newaxis]
        value = change[0] + change[1]
        value *= np.float32(0.5)
        value += there[0]
        return self._inside(cell).astype(np.float32), value

    def _inside(self, cell: Floats) -> NDArray[np.bool_]:
        """Whether columns and rows, whole numbers [2, n], are those of a feature."""
        within = (cell >= 0) & (cell < self._ends)
        inside: NDArray[np.bool_] = within[0] & within[1]
        return inside

    def _motion_of_rays(self) -> Floats:
        """Image motion of each point: [4, 2, 1, points].

        For a turn about x, y and z, cells/rad, and for a move ahead, cells over a share of the distance.
        Numerical derivatives of the projection, which include the distortion.
        """
        small = 1e-3
        pairs = [(to_matrix(vector), to_matrix(-vector)) for vector in np.eye(3) * small]
        pairs.append((np.diag((1.0, 1.0, 1.0 - small)), np.diag((1.0, 1.0, 1.0 + small))))
        motion = np.empty((4, 2, 1, self._rays.shape[1]), np.float32)
        for number, pair in enumerate(pairs):
            ahead, behind = (self._projection.cells(each, self._rays, np.float64) for each in pair)
            motion[number, :, 0] = (ahead - behind) / (2 * small)
        return motion


def _regularised(normal: NDArray[Any]) -> Matrix:
    """Normal equations with a ridge, so that axes without information do not diverge."""
    regularised = normal.astype(np.float64)
    strongest = max(normal[0, 0], normal[1, 1], normal[2, 2])
    regularised.reshape(-1)[:12:5] += RIDGE_SHARE * (1.0 + strongest)
    regularised[3, 3] += 1.0
    return regularised


def _contrast(key: Key, seen: Floats) -> float:
    """Share of a key's squared contrast that is at points that are seen."""
    here = (key.points[0] * seen).ravel()
    return float(here.dot(here)) / key.contrast
