"""Projection of directions to positions in a model's feature map, and back, by the camera's geometry."""

from __future__ import annotations

import math
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.camera_intrinsics import Pinhole
from edgetpu_perception.visual_compass.compass_features import FeatureGrid
from edgetpu_perception.visual_compass.rotations import Matrix

Floats = NDArray[np.float32]

FARTHEST = math.tan(math.radians(80.0))
"""Largest distance from the optical axis, in the plane z = 1, of a direction that is used.

Derived: towards 90 degrees it grows without limit, so that a small turn moves a direction out of the plane.
"""


class Projection:
    """Projection from directions to features, numbered from 0 by column and row, and back."""

    def __init__(self, camera: Pinhole, height: int, width: int, grid: FeatureGrid) -> None:
        """`height`, `width`: size in px of the model's input, which shows the whole image of the camera."""
        self._camera = camera
        # Cells per px of the image, and the image's px (-0.5, -0.5) in cells.
        self._scale = np.array([width / camera.width, height / camera.height]) / grid.cell
        self._origin = (-0.5 - grid.first) / grid.cell
        focal = np.array([camera.fx, camera.fy]) * self._scale
        self._widening = _widened(focal, grid.blurs) / focal
        center = (np.array([camera.cx, camera.cy]) + 0.5) * self._scale + self._origin
        self._matrix = _camera_matrix(_widened(focal, grid.blurs), center)
        self._camera_matrix = _camera_matrix(focal, center)
        self._distortion = np.array(camera.distortion)
        self._undistorted = not self._distortion.any() and not camera.fisheye
        right, bottom = np.array([camera.width, camera.height]) * self._scale + self._origin
        # More than the corners, as these may be outside the range of the lens model.
        x, y = np.meshgrid(np.linspace(self._origin, right, 13), np.linspace(self._origin, bottom, 13))
        self._reach = 0.0
        self.include(self.rays(x.ravel(), y.ravel()))

    def include(self, rays: Floats) -> None:
        """Let `cells` project rays [3, n] that it would otherwise take to be too far from the axis."""
        squares = np.square(rays[:2]).sum(axis=0)
        self._reach = max(self._reach, 1.1 * float(np.nan_to_num(squares).max()))

    def rays(self, x: NDArray[Any], y: NDArray[Any]) -> Floats:
        """Directions of features, columns x and rows y, in the optical frame with z = 1: [3, n].

        NaN outside the range of the lens model, and beyond FARTHEST.
        """
        u = (x - self._origin) / self._scale[0] - 0.5
        v = (y - self._origin) / self._scale[1] - 0.5
        plane = np.tan([self._camera.bearing(*pixel) for pixel in zip(u.tolist(), v.tolist(), strict=True)])
        plane /= self._widening
        plane[np.hypot(*plane.T) > FARTHEST] = math.nan
        return np.vstack([plane.T, np.ones(len(plane))]).astype(np.float32)

    def heights(self, y: Floats) -> Floats:
        """Distance of rows y below the middle one, as a share of the picture's height: [n]."""
        heights: Floats = (y - np.float32(self._origin)) * np.float32(self.heights_per_row) - np.float32(0.5)
        return heights

    @property
    def heights_per_row(self) -> float:
        """Distance of two rows as a share of the picture's height."""
        return 1.0 / (self._camera.height * float(self._scale[1]))

    def cells(
        self, rotation: Matrix, rays: Floats, dtype: type[np.float32] | type[np.float64] = np.float32
    ) -> Floats:
        """Columns and rows, with fractions, of rotated rays [3, n] in the feature map: [2, n]."""
        matrix: NDArray[Any] = (self._matrix.dot(rotation) if self._undistorted else rotation).astype(dtype)
        turned: Floats = matrix.dot(rays)
        plane, depth = turned[:2], turned[2]
        np.maximum(depth, 0.1, out=depth)  # rays that point backwards
        plane /= depth
        if self._undistorted:
            return plane
        x, y = plane * self._widening[:, np.newaxis].astype(dtype)
        far = x * x + y * y > self._reach
        cells_xy = np.stack(self._distorted(x, y))
        cells_xy[0, far] = -1.0e3  # distortion can fold far rays back into view
        return cells_xy

    def _distorted(self, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Columns and rows of points of the plane z = 1, through the lens as OpenCV models it."""
        (fx, _, cx), (_, fy, cy), _ = self._camera_matrix.tolist()
        if self._camera.fisheye:
            k1, k2, k3, k4 = (*self._distortion.tolist(), *_NO_DISTORTION)[:4]
            radius = np.maximum(np.sqrt(x * x + y * y), 1e-9)
            angle = np.arctan(radius)
            square = angle * angle
            ratio = angle * ((((k4 * square + k3) * square + k2) * square + k1) * square + 1.0) / radius
            return x * ratio * fx + cx, y * ratio * fy + cy
        if len(self._distortion) > len(_NO_DISTORTION):
            plane = np.stack([x, y, np.ones_like(x)], axis=1).astype(np.float64)
            nothing = np.zeros(3)
            points = cv2.projectPoints(plane, nothing, nothing, self._camera_matrix, self._distortion)[0]
            x, y = points[:, 0].T.astype(x.dtype)
            return x, y
        # The same for up to eight coefficients, in a tenth of the time.
        k1, k2, p1, p2, k3, k4, k5, k6 = (*self._distortion.tolist(), *_NO_DISTORTION)[:8]
        xx, xy, yy = x * x, x * y, y * y
        r = xx + yy
        radial = ((k3 * r + k2) * r + k1) * r + 1.0
        if k4 or k5 or k6:
            radial /= ((k6 * r + k5) * r + k4) * r + 1.0
        column = (x * radial + (2.0 * p1) * xy + p2 * (r + 2.0 * xx)) * fx + cx
        row = (y * radial + p1 * (r + 2.0 * yy) + (2.0 * p2) * xy) * fy + cy
        return column, row


_NO_DISTORTION = (0.0,) * 8
"""Coefficients k1 k2 p1 p2 k3 k4 k5 k6 of a lens without distortion. Given by OpenCV."""


def _camera_matrix(focal: NDArray[np.float64], center: NDArray[np.float64]) -> Matrix:
    return np.array([[focal[0], 0, center[0]], [0, focal[1], center[1]], [0, 0, 1]])


def _widened(focal: NDArray[np.float64], blurs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Focal lengths in cells that describe how *features* move, from those of the camera in cells.

    A turn stretches the picture towards its border. A feature is a mean over some px. If the picture is
    stretched on one side of it, this mean is off the true position by sigma^2 times the second derivative of
    the motion (half of it due to the position, half to the contrast, which grows with the stretch). That is
    2 sigma^2 / f^2 of the turn, about 0.2 %, always ahead, as if the focal length were longer by
    2 sigma^2 / f. The effective sigma^2 depends on the pictures; it was measured on rendered turns.
    """
    return focal + 2.0 * blurs / focal
