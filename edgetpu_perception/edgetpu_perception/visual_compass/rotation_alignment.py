"""Rotation between two views from their features: robust least squares with the camera's own geometry.

Products of arrays this small take half the time as `dot` of what they take as `@`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.confidence import ramp
from edgetpu_perception.images.pinhole import Pinhole
from edgetpu_perception.visual_compass.compass_features import Grid
from edgetpu_perception.visual_compass.ray_projection import Projection
from edgetpu_perception.visual_compass.rotations import Matrix, to_matrix

Floats = NDArray[np.float32]

POINTS = 52
"""Features along the shorter side; every second one is looked at, as the black fields of a chess board. The
others are so alike that they would add little."""

BLOCKS = 4
"""Blocks of residuals along each side that are taken as independent; features reach 13 px."""

OUTLIER = (3.0, 1.1)
"""Residuals of so many deviations count a quarter (Geman and McClure): the first number where they are those
of noise, the second where some are far larger. When the camera is carried along, much of the picture is near
and moves otherwise than in a rotation: that must count as good as nothing."""

TAIL = (1.2, 1.6)
"""Standard deviation of residuals over what their median tells of it: just noise up to the first, with parts
that move otherwise from the second on. About 1.1 where a camera only turns, 2 where a person carries it."""

MAX_ITERATIONS = 8

REACH = 2.0
"""An alignment finds the way from a guess that is wrong by so much, cells of image motion."""

CONVERGED = 0.03
"""Step, px, after which the next one would be too small to matter."""

LEVERAGE = 0.9
"""The fit bends to a block's residuals by the share that the block has in what is known. Those of a block
that alone tells everything would vanish; they count ten times then."""

LEAST_SIMILARITY = 0.2
"""Below, similarity is no measure of how much of a view is noise."""

RIDGE = 1e-3
"""Share of the strongest axis that is added to all: one that the picture tells nothing of stays put."""

NEAR = 0.25
"""Step, px, after which the next one is a Newton step."""

_MAD = 1.4826
"""From the median of absolute residuals to their standard deviation."""


@dataclass(frozen=True)
class View:
    """One image's features, ready to be aligned to a key."""

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
    """The same where they are looked at: [3, channels, points]."""
    jacobian: Floats
    """By how much features at the points change when the view turns by 1 rad about x, y and z, and when the
    contrast falls to nothing: [4, channels * points]."""
    leverage: Floats
    """By how much residuals of each block are larger than the fit leaves them: [4, blocks]."""
    contrast: float
    """Sum of the squares of all features at the points."""
    spread: float
    """How evenly contrast is spread over the blocks of points, 0..1: the share that would hold it all."""


@dataclass(frozen=True)
class Alignment:
    """How the camera is turned in one view relative to another, the key."""

    rotation: Matrix
    """From the key's optical frame to the view's."""
    influence: NDArray[np.float64]
    """By how much each block of residuals has turned the result, rad about the axes of the key's optical
    frame: [3, blocks]. Blocks are independent."""
    similarity: float
    """Normalised correlation of what both views show, -1..1."""
    overlap: float
    """Share of the key that is in view, 0..1."""
    contrast: float
    """Share of the key's contrast, squared, that is in view, 0..1."""
    converged: bool


class RotationAligner:
    """Aligns views of one camera through one size of model input."""

    def __init__(self, camera: Pinhole, height: int, width: int, grid: Grid) -> None:
        """`height`, `width`: size of the model's input, px, which shows the whole image of the camera."""
        self._rows, self._columns = grid.rows, grid.columns
        self._strides = np.array([1, grid.columns], np.float32)
        self._projection = Projection(camera, height, width, grid)
        step = max(round(min(self._rows, self._columns) / POINTS), 1)
        y, x = np.mgrid[: self._rows : step, : self._columns : step]
        y, x = ((each[(x + y) // step % 2 == 0]) for each in (y, x))
        known = np.isfinite(self._projection.rays(x, y)).all(axis=0)
        y, x = y[known], x[known]
        # Block by block, so that a block is a slice.
        block = (y * BLOCKS // self._rows) * BLOCKS + x * BLOCKS // self._columns
        order = np.argsort(block, kind="stable")
        y, x, block = y[order], x[order], block[order]
        self._index = y * self._columns + x
        self._starts = np.flatnonzero(np.diff(block, prepend=-1))
        self._rays = self._projection.rays(x, y)
        self._motion = self._motion_of_rays()
        # As long as the points: NumPy compares such arrays in a third of the time.
        self._ends = np.repeat(np.array([[grid.columns], [grid.rows]], np.float32), len(x), axis=1)
        self.blocks = len(self._starts)
        """Blocks of residuals that are taken as independent."""
        left, right = self._rays[:, [np.argmin(self._rays[0]), np.argmax(self._rays[0])]].T
        self.field_of_view = math.atan(float(right[0])) - math.atan(float(left[0]))
        """Horizontal angle that the points cover, rad."""
        self.cells_per_radian = float(np.abs(self._motion[1, 0]).mean())
        """Image motion of a turn about y, cells."""
        self.floor = (grid.floor / self.cells_per_radian) ** 2
        """Variance of a turn between perfect frames, rad^2."""
        self._floors = np.eye(3) * self.floor

    def covariance(self, influence: NDArray[np.float64]) -> Matrix:
        """Covariance of a turn with these influences, [3, blocks], rad^2."""
        covariance: Matrix = influence.dot(influence.T) + self._floors
        return covariance

    def key(self, view: View) -> Key:
        """Make a view ready to have others aligned to it."""
        points = view.planes[..., self._index]
        jacobian = np.empty((4, *points.shape[1:]), np.float32)
        np.multiply(self._motion[:, 0], points[1], out=jacobian[:3])
        jacobian[:3] += self._motion[:, 1] * points[2]
        np.negative(points[0], out=jacobian[3])
        jacobian = jacobian.reshape(4, -1)
        told = self._by_block(jacobian * jacobian, len(points[0]))
        leverage = 1.0 / (1.0 - LEVERAGE * told / (told.sum(axis=1, keepdims=True) + np.float32(1e-9)))
        told = told[3]
        contrast = float(told.sum()) + 1e-9
        spread = max(contrast**2 / (float(told @ told) * self.blocks + 1e-9), 1.0 / self.blocks)
        return Key(view, points, jacobian, leverage, contrast, spread)

    def _by_block(self, values: Floats, channels: int) -> Floats:
        """Sums over the points of each block and all channels: [4, blocks] of [4, channels * points]."""
        sums = np.add.reduceat(values.reshape(4, channels, -1), self._starts, axis=2)
        return sums.sum(axis=1) if channels > 1 else sums[:, 0]

    def search(self, key: Key, view: View) -> Matrix:
        """Guess the rotation from the key's optical frame to the view's where nothing is known of it.

        Halves of the key (left, middle and right) are looked for all over the view, so that a motion by half
        of the picture is found.
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
        """Share of a key's contrast, squared, that is in a view turned like this, 0..1."""
        inside = self._inside(np.rint(self._projection.cells(rotation, self._rays)))
        contrast = (key.points[0] ** 2).sum(axis=0)
        return float(contrast[inside].sum()) / key.contrast

    def align(self, key: Key, view: View, guess: Matrix) -> Alignment:
        """Find the rotation from the key's optical frame to the view's, starting from a guess.

        A guess wrong by up to REACH will do. Each point is compared with the feature next to where it should
        be, by an expansion with the mean of both gradients, which is exact to second order (Benhimane and
        Malis 2004), so that nothing has to be interpolated.
        """
        rotation, gain, near, converged = guess, np.float32(1.0), False, False
        for _ in range(MAX_ITERATIONS):
            seen, value = self._compare(key, view, rotation)
            pull, stiffness = _robust(gain * key.points[0] - value, seen, near)
            normal = _steadied((key.jacobian * stiffness).dot(key.jacobian.T))
            # For four unknowns OpenCV takes a fifth of the time of NumPy's solve.
            step = cv2.solve(normal, key.jacobian.dot(pull).astype(np.float64))[1].ravel()
            rotation = rotation.dot(to_matrix(step[:3]))
            x, y, z, change = step.tolist()
            gain += np.float32(change)
            size = max(abs(x), abs(y), abs(z)) * self.cells_per_radian
            converged = near and size < CONVERGED
            if converged:
                break
            near = size < NEAR
        blocks = self._by_block(key.jacobian * pull, len(value)) * key.leverage
        influence = cv2.solve(normal, blocks.astype(np.float64))[1][:3]
        similarity, overlap, contrast = _similarity(key, value, seen)
        # Noise of the key's gradients, too, makes them look steeper than they are.
        influence /= max(similarity, LEAST_SIMILARITY)
        return Alignment(rotation, influence, similarity, overlap, contrast, converged)

    def _compare(self, key: Key, view: View, rotation: Matrix) -> tuple[Floats, Floats]:
        """Which points of the key are seen in the view, 1 or 0, and the view's features there."""
        offset = self._projection.cells(rotation, self._rays)
        place = np.rint(offset)
        offset -= place
        index = self._strides.dot(place).astype(np.intp)
        there = view.planes.take(index, axis=2, mode="clip")  # clipping is faster than checking
        change = there[1:]
        change += key.points[1:]
        change *= offset[:, np.newaxis]
        value = change[0] + change[1]
        value *= np.float32(0.5)
        value += there[0]
        return self._inside(place).astype(np.float32), value

    def _inside(self, place: Floats) -> NDArray[np.bool_]:
        """Whether columns and rows, whole numbers [2, n], are those of a feature."""
        within = (place >= 0) & (place < self._ends)
        inside: NDArray[np.bool_] = within[0] & within[1]
        return inside

    def _motion_of_rays(self) -> Floats:
        """Image motion of each point when the view turns about x, y and z, cells/rad: [3, 2, 1, points].

        Turning the rays by +w about an axis; differences of the projection itself, so that they hold with
        distortion.
        """
        small = 1e-3
        motion = np.empty((3, 2, 1, self._rays.shape[1]), np.float32)
        for axis, vector in enumerate(np.eye(3) * small):
            ahead = self._projection.cells(to_matrix(vector), self._rays, np.float64)
            behind = self._projection.cells(to_matrix(-vector), self._rays, np.float64)
            motion[axis, :, 0] = (ahead - behind) / (2 * small)
        return motion


def _robust(residual: Floats, seen: Floats, near: bool) -> tuple[Floats, Floats]:
    """How much each residual pulls, psi(r) of Geman and McClure, and how stiffly; 0 where it is not seen.

    The stiffness is psi'(r), kept from being negative, for Newton steps near the solution; else psi(r) / r,
    which converges slowly but from anywhere. The scale is the median absolute residual. `residual` is
    overwritten.
    """
    residual *= seen
    size = np.abs(residual).ravel()
    count = int(seen.dot(seen)) * len(residual)
    middle = tail = 0.0
    if count:
        # What is not seen is 0 and comes before all others.
        place = size.size - count + count // 2
        size.partition(place)
        middle = _MAD * float(size[place])
        tail = math.sqrt(float(size.dot(size)) / count) / (middle + 1e-3)
    outlier = OUTLIER[0] + (OUTLIER[1] - OUTLIER[0]) * ramp(tail, *TAIL)
    reach = residual * np.float32(1.0 / (outlier * middle + 1e-3))
    reach *= reach
    reach += np.float32(1.0)
    np.reciprocal(reach, out=reach)
    stiffness = reach * reach
    stiffness *= seen
    pull = stiffness * residual
    if near:
        # Of reach = 1 / (1 + x^2) that is reach^2 (4 reach - 3).
        reach *= np.float32(4.0)
        reach -= np.float32(3.0)
        stiffness *= np.maximum(reach, np.float32(0.0))
    return pull.ravel(), stiffness.ravel()


def _steadied(normal: NDArray[Any]) -> Matrix:
    """Normal equations that keep an axis which nothing tells of from running away."""
    steadied = normal.astype(np.float64)
    strongest = max(normal[0, 0], normal[1, 1], normal[2, 2])
    steadied.reshape(-1)[:12:5] += RIDGE * (1.0 + strongest)
    steadied[3, 3] += 1.0
    return steadied


def _similarity(key: Key, value: Floats, seen: Floats) -> tuple[float, float, float]:
    """Normalised correlation over what is seen, and the shares of points and of contrast that are."""
    here, there = (key.points[0] * seen).ravel(), (value * seen).ravel()
    contrast = float(here.dot(here))
    energy = contrast * float(there.dot(there))
    similarity = float(here.dot(there)) / math.sqrt(energy) if energy > 0 else 0.0
    return similarity, float(seen.dot(seen)) / seen.size, contrast / key.contrast
