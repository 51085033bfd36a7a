"""Maps of an image as a camera without distortion would give them.

Only such a camera sees a plane that it approaches grow evenly; with barrel distortion it grows less towards
the border of the picture.
"""

from __future__ import annotations

import math

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_perception.camera_intrinsics import Pinhole
from edgetpu_perception.time_to_contact.homography_alignment import Grid, Map, Matrix

FARTHEST = 1.5
"""Largest distance from the optical axis along an axis of the map, in the plane z = 1.

Derived: 56 degrees; with more, the middle of a fisheye picture would have less than half of the elements.
"""

NARROWEST = 1e-3
"""Least width and height of a view that is rectified, in the plane z = 1. Uncritical: 0.06 degrees."""

_ALONG_SIDE = 5
"""Positions along a side of the map that are examined. Uncritical."""


class RectifiedMaps:
    """Resamples maps of a camera with distortion to `grid`, which has none and as many elements."""

    def __init__(self, grid: Grid, source: Matrix, lens: Pinhole) -> None:
        """`source`: `Grid.to_map` of the maps with the distortion of `lens`."""
        self.grid = grid
        self._source, self._lens = source, lens
        self._x, self._y = self.to_source(grid.x.ravel(), grid.y.ravel()).reshape(2, *grid.shape)
        gradients = np.gradient(np.stack([self._x, self._y]), axis=(1, 2))
        self._down, self._right = (np.asarray(each) for each in gradients)

    @classmethod
    def of(cls, grid: Grid, camera: Pinhole) -> RectifiedMaps | None:
        """Make it for maps of a camera, whose `grid` was computed without regard to distortion.

        None if the camera has no distortion, or if hardly any of the view can be rectified.
        """
        if not (any(camera.distortion) or camera.fisheye):
            return None
        rows, columns = grid.shape
        farthest = min(FARTHEST, math.sqrt(camera.fold / 2.0))  # so that corners do not fold back
        left = _side(camera, grid.x[:, 0], grid.y[:, 0], 0, -farthest)
        right = _side(camera, grid.x[:, -1], grid.y[:, -1], 0, farthest)
        top = _side(camera, grid.x[0], grid.y[0], 1, -farthest)
        bottom = _side(camera, grid.x[-1], grid.y[-1], 1, farthest)
        if right - left < NARROWEST or bottom - top < NARROWEST:
            return None
        focal = (columns - 1) / (right - left), (rows - 1) / (bottom - top)
        inner = Grid(rows, columns, focal, (-left * focal[0], -top * focal[1]))
        return cls(inner, grid.to_map, camera)

    def to_source(self, x: NDArray[np.floating], y: NDArray[np.floating]) -> NDArray[np.float32]:
        """Where the maps with distortion show directions (x, y), [n] each: [2, n], fractional elements."""
        rays = np.stack([x, y, np.ones_like(x)], axis=-1).astype(np.float64)
        nothing, distortion = np.zeros(3), np.array(self._lens.distortion or (0.0,) * 4)
        if self._lens.fisheye:
            seen = cv2.fisheye.projectPoints(rays[np.newaxis], nothing, nothing, self._source, distortion)[0]
        else:
            seen = cv2.projectPoints(rays, nothing, nothing, self._source, distortion)[0]
        elements: NDArray[np.float32] = seen.reshape(-1, 2).T.astype(np.float32)
        return elements

    def apply(self, brightness: Map, slope_x: Map, slope_y: Map) -> tuple[Map, Map, Map]:
        """Brightness and slopes, [rows, columns], of the rectified picture."""
        here, x, y = (
            cv2.remap(each, self._x, self._y, cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
            for each in (brightness, slope_x, slope_y)
        )
        right, down = (x * along[0] + y * along[1] for along in (self._right, self._down))
        return here, right, down

    def part(self, extent: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
        """Convert the left, top, right and bottom edges of a part to elements of the map with distortion."""
        left, top, right, bottom = extent
        column, row = (left + right) / 2, (top + bottom) / 2
        middles = np.array([[left, column, right, column], [row, top, row, bottom], [1.0] * 4])
        x, y, _ = np.linalg.inv(self.grid.to_map) @ middles
        columns, rows = self.to_source(x, y).tolist()
        return columns[0], rows[1], columns[2], rows[3]


def _side(camera: Pinhole, x: Map, y: Map, axis: int, farthest: float) -> float:
    """Position of a side of the rectified view along `axis`, in the plane z = 1, at most at `farthest`.

    Of the directions along this side of the map it is the one nearest to the opposite side. `x`, `y`:
    positions along the side, in focal lengths from the principal point.
    """
    chosen = np.linspace(0, len(x) - 1, _ALONG_SIDE).round().astype(np.intp)
    u, v = camera.cx + camera.fx * x[chosen], camera.cy + camera.fy * y[chosen]
    bearings = [camera.bearing(*px)[axis] for px in zip(u.tolist(), v.tolist(), strict=True)]
    known = [math.tan(bearing) for bearing in bearings if not math.isnan(bearing)]
    return max([farthest, *known]) if farthest < 0.0 else min([farthest, *known])
