"""Rotation between two views from their features: robust least squares with the camera's own geometry."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.camera import Pinhole
from edgetpu_perception.confidence import ramp
from edgetpu_perception.heading.features import Grid
from edgetpu_perception.heading.rotation import Matrix, to_matrix

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
        return math.sqrt(float(features @ features) / features.size)


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
        self._ends = np.array([[grid.columns], [grid.rows]], np.float32)
        self._projection = _Projection(camera, height, width, grid)
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
        self.blocks = len(self._starts)
        """Blocks of residuals that are taken as independent."""
        left, right = self._rays[:, [np.argmin(self._rays[0]), np.argmax(self._rays[0])]].T
        self.field_of_view = math.atan(float(right[0])) - math.atan(float(left[0]))
        """Horizontal angle that the points cover, rad."""
        self.cells_per_radian = float(np.abs(self._motion[1, 0]).mean())
        """Image motion of a turn about y, cells."""
        self._floor = (grid.floor / self.cells_per_radian) ** 2

    def covariance(self, influence: NDArray[np.float64]) -> Matrix:
        """Covariance of a turn with these influences, [3, blocks], rad^2."""
        covariance: Matrix = influence @ influence.T
        covariance.flat[::4] += self._floor
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

        A guess wrong by up to 2 cells of image motion will do. Each point is compared with the feature next
        to where it should be, by an expansion with the mean of both gradients, which is exact to second order
        (Benhimane and Malis 2004), so that nothing has to be interpolated.
        """
        rotation, gain, near, converged = guess, np.float32(1.0), False, False
        for _ in range(MAX_ITERATIONS):
            inside, value = self._compare(key, view, rotation)
            pull, stiffness = _robust(value - gain * key.points[0], inside, near)
            normal = ((key.jacobian * stiffness.ravel()) @ key.jacobian.T).astype(np.float64)
            # Keeps an axis that nothing tells of from running away.
            rotational = normal.reshape(-1)[:12:5]
            rotational += RIDGE * (1.0 + rotational.max())
            normal[3, 3] += 1.0
            # For four unknowns OpenCV takes a fifth of the time of NumPy's solve.
            step = cv2.solve(normal, -(key.jacobian @ pull.ravel()).astype(np.float64))[1].ravel()
            rotation = rotation @ to_matrix(step[:3])
            gain += np.float32(step[3])
            size = float(np.abs(step[:3]).max()) * self.cells_per_radian
            converged = near and size < CONVERGED
            if converged:
                break
            near = size < NEAR
        blocks = self._by_block(key.jacobian * pull.ravel(), len(value)) * key.leverage
        influence = cv2.solve(normal, -blocks.astype(np.float64))[1][:3]
        similarity, overlap, contrast = _similarity(key, value, inside)
        # Noise of the key's gradients, too, makes them look steeper than they are.
        influence /= max(similarity, LEAST_SIMILARITY)
        return Alignment(rotation, influence, similarity, overlap, contrast, converged)

    def _compare(self, key: Key, view: View, rotation: Matrix) -> tuple[Floats, Floats]:
        """Which points of the key are in view, 1 or 0, and the view's features there."""
        offset = self._projection.cells(rotation, self._rays)
        place = np.rint(offset)
        offset -= place
        in_view = self._inside(place)
        index = ((place[1] * np.float32(self._columns) + place[0]) * in_view).astype(np.intp)
        there = view.planes.take(index, axis=2, mode="clip")  # clipping is faster than checking
        there[1:] += key.points[1:]
        value = there[1]
        value *= offset[0]
        there[2] *= offset[1]
        value += there[2]
        value *= np.float32(0.5)
        value += there[0]
        return in_view.astype(np.float32), value

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


class _Projection:
    """From directions to features, numbered from 0 by column and row, and back."""

    def __init__(self, camera: Pinhole, height: int, width: int, grid: Grid) -> None:
        self._camera = camera
        # Cells per px of the image, and the image's px (-0.5, -0.5) in cells.
        self._scale = np.array([width / camera.width, height / camera.height]) / grid.cell
        self._origin = (-0.5 - grid.first) / grid.cell
        focal = np.array([camera.fx, camera.fy]) * self._scale
        self._widening = _widened(focal, grid.blur) / focal
        center = (np.array([camera.cx, camera.cy]) + 0.5) * self._scale + self._origin
        self._matrix = _camera_matrix(_widened(focal, grid.blur), center)
        self._camera_matrix = _camera_matrix(focal, center)
        self._distortion = np.array(camera.distortion)
        right, bottom = np.array([camera.width, camera.height]) * self._scale + self._origin
        # Not the corners alone: they may lie where the lens model says nothing.
        x, y = np.meshgrid(np.linspace(self._origin, right, 13), np.linspace(self._origin, bottom, 13))
        self._reach = 1.1 * float(np.nanmax((self.rays(x.ravel(), y.ravel())[:2] ** 2).sum(axis=0)))

    def rays(self, x: NDArray[Any], y: NDArray[Any]) -> Floats:
        """Directions of features, columns x and rows y, in the optical frame with z = 1: [3, n].

        NaN where the lens model says nothing.
        """
        u = (x - self._origin) / self._scale[0] - 0.5
        v = (y - self._origin) / self._scale[1] - 0.5
        plane = np.tan([self._camera.bearing(*pixel) for pixel in zip(u.tolist(), v.tolist(), strict=True)])
        plane /= self._widening
        return np.vstack([plane.T, np.ones(len(plane))]).astype(np.float32)

    def cells(
        self, rotation: Matrix, rays: Floats, dtype: type[np.float32] | type[np.float64] = np.float32
    ) -> Floats:
        """Columns and rows, with fractions, where turned rays [3, n] meet the features: [2, n]."""
        plain = not self._distortion.any()
        matrix: NDArray[Any] = (self._matrix @ rotation if plain else rotation).astype(dtype)
        turned: Floats = matrix @ rays
        plane, depth = turned[:2], turned[2]
        np.maximum(depth, 0.1, out=depth)  # a ray that points backwards does not meet them
        plane /= depth
        if plain:
            return plane
        x, y = plane * self._widening[:, np.newaxis].astype(dtype)
        far = x * x + y * y > self._reach
        places = np.stack(self._distorted(x, y))
        places[0, far] = -1.0e3  # far out of view distortion can fold back into it
        return places

    def _distorted(self, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Columns and rows of points of the plane z = 1, through the lens as OpenCV models it."""
        (fx, _, cx), (_, fy, cy), _ = self._camera_matrix.tolist()
        if len(self._distortion) > len(_PLAIN):
            plane = np.stack([x, y, np.ones_like(x)], axis=1).astype(np.float64)
            nothing = np.zeros(3)
            points = cv2.projectPoints(plane, nothing, nothing, self._camera_matrix, self._distortion)[0]
            x, y = points[:, 0].T.astype(x.dtype)
            return x, y
        # The same for up to eight coefficients, ten times as fast.
        k1, k2, p1, p2, k3, k4, k5, k6 = (*self._distortion.tolist(), *_PLAIN)[:8]
        xx, xy, yy = x * x, x * y, y * y
        r = xx + yy
        radial = ((k3 * r + k2) * r + k1) * r + 1.0
        if k4 or k5 or k6:
            radial /= ((k6 * r + k5) * r + k4) * r + 1.0
        column = (x * radial + (2.0 * p1) * xy + p2 * (r + 2.0 * xx)) * fx + cx
        row = (y * radial + p1 * (r + 2.0 * yy) + (2.0 * p2) * xy) * fy + cy
        return column, row


_PLAIN = (0.0,) * 8
"""Coefficients k1 k2 p1 p2 k3 k4 k5 k6 of no distortion."""


def _camera_matrix(focal: NDArray[np.float64], center: NDArray[np.float64]) -> Matrix:
    return np.array([[focal[0], 0, center[0]], [0, focal[1], center[1]], [0, 0, 1]])


def _widened(focal: NDArray[np.float64], blur: float) -> NDArray[np.float64]:
    """Focal lengths, px, that describe how *features* move.

    A turn stretches the picture towards its border. A feature is a mean over some px; of a picture that is
    stretched on one side of it, this mean lies off the true place, by sigma^2 times the second derivative of
    the motion (half of it from the place, half from the contrast that grows with the stretch). That is
    2 sigma^2 / f^2 of the turn, about 0.2 %, always ahead, and as if the focal length were 2 sigma^2 / f
    longer. What counts as sigma^2 depends on the pictures; it was taken from rendered turns.
    """
    return focal + 2.0 * blur / focal


def _robust(residual: Floats, inside: Floats, near: bool) -> tuple[Floats, Floats]:
    """How much each residual pulls, psi(r) of Geman and McClure, and how stiffly; 0 out of view.

    The stiffness is psi'(r), kept from being negative, for Newton steps near the solution; else psi(r) / r,
    which converges slowly but from anywhere. The scale is the median absolute residual.
    """
    size = (residual * inside).ravel()
    np.abs(size, out=size)
    count = int(inside @ inside) * len(residual)
    middle = tail = 0.0
    if count:
        # What is out of view is 0 and comes before all others.
        place = size.size - count + count // 2
        size.partition(place)
        middle = _MAD * float(size[place])
        tail = math.sqrt(float(size @ size) / count) / (middle + 1e-3)
    outlier = OUTLIER[0] + (OUTLIER[1] - OUTLIER[0]) * ramp(tail, *TAIL)
    ratio = residual * np.float32(1.0 / (outlier * middle + 1e-3))
    np.multiply(ratio, ratio, out=ratio)
    reach = np.reciprocal(ratio + 1.0)
    stiffness = reach * reach
    stiffness *= inside
    pull = stiffness * residual
    if near:
        stiffness *= reach
        stiffness *= np.maximum(1.0 - 3.0 * ratio, 0.0)
    return pull, stiffness


def _similarity(key: Key, value: Floats, inside: Floats) -> tuple[float, float, float]:
    """Normalised correlation over what is in view, and the shares of points and of contrast that are."""
    seen = (key.points[0] * inside).ravel()
    there = (value * inside).ravel()
    contrast = float(seen @ seen)
    energy = contrast * float(there @ there)
    similarity = float(seen @ there) / math.sqrt(energy) if energy > 0 else 0.0
    return similarity, float(inside.sum()) / inside.size, contrast / key.contrast
