"""A camera in a world: where points, balls and patches appear in its image."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]
"""Points of the world, m, [n, 3], or of an image, px right and down from the centre of the first pixel, [n,
2]."""


@dataclass(frozen=True)
class InImage:
    """Where something appears in an image."""

    x: float
    """Column of the middle, px from the centre of the first pixel; NaN behind the camera."""
    y: float
    """Row of the middle, px."""
    whole: bool
    """Whether all of it is in the image."""
    absent: bool
    """Whether nothing of it is in the image."""


@dataclass(frozen=True, eq=False)
class Camera:
    """A pinhole camera at one time, with its principal point in the middle of the image."""

    width: int
    """Width of the image, px."""
    height: int
    focal_length: float
    """Focal length, px."""
    position: NDArray[np.float64]
    """The centre of projection, m, [3]."""
    axes: NDArray[np.float64]
    """Unit vectors of the image's right, down and forward directions in the world: the rows of [3, 3]."""

    def rays(self, pixels: Points) -> Points:
        """Return the directions of pixels, [n, 2], in the world, as unit vectors: [n, 3]."""
        offsets = (pixels - self._middle) / self.focal_length
        rays = np.column_stack([offsets, np.ones(len(offsets))]) @ self.axes
        return np.asarray(rays / np.linalg.norm(rays, axis=1, keepdims=True))

    def pixels(self, points: Points) -> Points:
        """Return the pixels, [n, 2], at which points of the world, [n, 3], appear; NaN behind the camera."""
        x, y, z = self._from_here(points)
        ahead = np.where(z > 0, z, math.nan)
        return np.column_stack([x / ahead, y / ahead]) * self.focal_length + self._middle

    def ball(self, centre: NDArray[np.float64], radius: float) -> InImage:
        """Return where the outline of a ball appears; centre: [3], m, radius: m.

        The outline is an ellipse, whose centre is farther from the middle of the image than that of the ball.
        """
        x, y, z = self._from_here(centre[np.newaxis]).ravel()
        if z <= radius:
            return InImage(math.nan, math.nan, whole=False, absent=True)
        # Rays d touch the ball where (d c)^2 = d^2 (c^2 - r^2): a quadratic equation for each coordinate.
        left = z * z - radius * radius
        middle = np.array([x, y]) * z / left * self.focal_length + self._middle
        half = radius * np.sqrt(np.array([x * x, y * y]) + left) / left * self.focal_length
        return self._in_image(middle, middle - half, middle + half)

    def patch(self, middle: NDArray[np.float64], corners: Points) -> InImage:
        """Return where a flat patch appears; middle: [3], corners: [n, 3], m."""
        found = self.pixels(corners)
        if np.isnan(found).any():
            return InImage(math.nan, math.nan, whole=False, absent=True)
        return self._in_image(self.pixels(middle[np.newaxis])[0], found.min(axis=0), found.max(axis=0))

    def contains(self, pixels: Points) -> NDArray[np.bool_]:
        """Whether pixels, [n, 2], are in the image: bool [n]; False for NaN."""
        edge = np.array([self.width, self.height]) - 0.5
        return np.asarray(((pixels >= -0.5) & (pixels <= edge)).all(axis=1))

    def grid(self, columns: int, rows: int) -> Points:
        """Return the centres of columns x rows equal parts of the image, row by row: [columns * rows, 2]."""
        x, y = ((np.arange(count) + 0.5) / count for count in (columns, rows))
        across = np.stack(np.meshgrid(x, y), axis=2).reshape(-1, 2)
        return across * (self.width, self.height) - 0.5

    @property
    def _middle(self) -> NDArray[np.float64]:
        """The principal point, px."""
        return np.array([self.width - 1, self.height - 1]) / 2

    def _from_here(self, points: Points) -> NDArray[np.float64]:
        """The points, [n, 3], in the camera's coordinates (right, down, forward), m: [3, n]."""
        return np.asarray(self.axes @ (points - self.position).T)

    def _in_image(self, middle: NDArray[np.float64], low: Points, high: Points) -> InImage:
        """Position of an object; low, high: top left and bottom right corner of its bounding box, px, [2]."""
        edge = np.array([self.width, self.height]) - 0.5
        whole = bool((low >= -0.5).all() and (high <= edge).all())
        absent = bool((high < -0.5).any() or (low > edge).any())
        return InImage(float(middle[0]), float(middle[1]), whole, absent)


def image_motion(before: Camera, after: Camera, points: Points) -> Points:
    """Return the motion of static points, [n, 3], from one image to another, px: [n, 2].

    Right and down positive, also beyond the edges of an image; NaN for points behind a camera.
    """
    return after.pixels(points) - before.pixels(points)
