"""A pinhole camera with lens distortion: intrinsics, and bearings of pixels."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import EdgeTpuError

_FISHEYE_MODELS = ("equidistant", "fisheye")
"""Names of the model of Kannala and Brandt, as calibration tools write them."""

_COEFFICIENTS = {"plumb_bob": (4, 5), "rational_polynomial": (8, 12, 14)}
_COEFFICIENTS |= dict.fromkeys(_FISHEYE_MODELS, (4,))
"""Numbers of coefficients of each distortion model of sensor_msgs/CameraInfo. Given by OpenCV."""

_REPROJECTION_ERROR = 0.1
"""Largest distance between a pixel and the projection of its direction, px.

Derived: far above the 1e-9 px of a converged iteration, far below the error of a pixel whose distortion folds
back.
"""


LARGEST_SIDE = 65536
"""Largest width and height of a plausible image, px. Given by JPEG, whose sides have 16 bits."""
WIDEST_VIEW, NARROWEST_VIEW = 1e3, 1e-4
"""Largest and smallest plausible ratio of a side of the image to the focal length. Uncritical: fields of view
of 179.8 degrees and of 0.006 degrees, far beyond the lenses that a pinhole model fits."""
LARGEST_DISTORTION = 100.0
"""Largest plausible shift of a corner of the image by one coefficient, over its distance from the centre.

Uncritical: coefficients of real lenses shift it by less than 1.
"""


class CameraError(EdgeTpuError, ValueError):
    """A missing, inconsistent or unsupported camera calibration."""


@dataclass(frozen=True)
class Pinhole:
    """Intrinsics of an image of width x height px; (0, 0) is the centre of the first pixel.

    `fx`, `fy`, `cx`, `cy` are in px; `distortion` holds OpenCV's coefficients, k1 k2 p1 p2 [k3 [k4 k5 k6]],
    or nothing for a rectified image. Raises CameraError for values that are not finite, for a size or
    focal length that is not positive, and for another number of coefficients.
    """

    width: int
    height: int
    fx: float
    fy: float
    cx: float
    cy: float
    distortion: tuple[float, ...] = ()
    fisheye: bool = False
    """Whether the distance from the principal point grows with the angle: `distortion` is then k1 k2 k3 k4 of
    cv2.fisheye, or nothing for an equidistant lens."""

    def __post_init__(self) -> None:
        # OpenCV's calibration gives an array [1, n], which could not be compared with that of another camera.
        object.__setattr__(self, "distortion", tuple(np.ravel(self.distortion).tolist()))
        if self.width <= 0 or self.height <= 0 or not (self.fx > 0 and self.fy > 0):
            raise CameraError(
                f"expected a positive size and focal length; got {self.width}x{self.height} px, "
                f"fx {self.fx}, fy {self.fy}"
            )
        if not all(map(math.isfinite, (self.fx, self.fy, self.cx, self.cy, *self.distortion))):
            raise CameraError(f"expected finite intrinsics; got {self}")
        counts, text = ((0, 4), "0 or 4") if self.fisheye else ((0, 4, 5, 8, 12, 14), "0, 4, 5, 8, 12 or 14")
        if len(self.distortion) not in counts:
            raise CameraError(f"expected {text} distortion coefficients; got {len(self.distortion)}")

    @classmethod
    def from_camera_info(
        cls,
        width: int,
        height: int,
        k: Sequence[float],
        d: Sequence[float] = (),
        distortion_model: str = "",
        binning: tuple[int, int] = (1, 1),
        roi: tuple[int, int, int, int] = (0, 0, 0, 0),
    ) -> Pinhole:
        """Intrinsics of a camera's images from the fields of sensor_msgs/CameraInfo.

        `k`: row-major 3x3 matrix at full resolution. `binning`: (x, y), 0 means 1. `roi`: (x_offset,
        y_offset, width, height) at full resolution, a size of 0 means the whole image. The principal point
        moves with them as in image_geometry. Raises CameraError, which names the reason, for an uncalibrated
        camera (K[0] is 0), for a distortion model other than plumb_bob, rational_polynomial and equidistant
        (or fisheye), and for values that no lens has.
        """
        if len(k) != 9 or not k[0] > 0:
            raise CameraError(f"expected a calibrated camera, K[0] > 0; got K = {list(map(float, k))}")
        x_offset, y_offset, roi_width, roi_height = roi
        binning_x, binning_y = binning[0] or 1, binning[1] or 1
        camera = cls(
            width=(roi_width or width) // binning_x,
            height=(roi_height or height) // binning_y,
            fx=k[0] / binning_x,
            fy=k[4] / binning_y,
            cx=(k[2] - x_offset) / binning_x,
            cy=(k[5] - y_offset) / binning_y,
            distortion=_coefficients(distortion_model, d),
            fisheye=distortion_model in _FISHEYE_MODELS and len(d) > 0,
        )
        _check_plausible(camera)
        return camera

    def cropped(self, x_offset: int, y_offset: int, width: int, height: int) -> Pinhole:
        """Intrinsics of a part of the image; px."""
        if (x_offset, y_offset, width, height) == (0, 0, self.width, self.height):
            return self
        cx, cy = self.cx - x_offset, self.cy - y_offset
        return Pinhole(width, height, self.fx, self.fy, cx, cy, self.distortion, self.fisheye)

    def bearing(self, u: float, v: float) -> tuple[float, float]:
        """Direction of pixel (u, v): atan2(x, z) right positive and atan2(y, z) down positive, rad.

        Both are NaN for a pixel without a direction in the lens model: beyond the calibrated range a
        distortion polynomial may fold back.
        """
        ((x, y),) = self._normalised([(u, v)])
        return math.atan(x), math.atan(y)

    def bearing_with_sigma(
        self, u: float, v: float, u_sigma: float, v_sigma: float
    ) -> tuple[float, float, float, float]:
        """Direction of pixel (u, v) and its standard deviations, rad, from those of the pixel, px.

        All four are NaN if the pixel, or one half a px away, has no direction in the lens model.
        """
        if not any(self.distortion) and not self.fisheye:
            x, x_half, y, y_half = (
                (u - self.cx) / self.fx,
                0.5 / self.fx,
                (v - self.cy) / self.fy,
                0.5 / self.fy,
            )
            return (
                math.atan(x),
                math.atan(y),
                u_sigma * (math.atan(x + x_half) - math.atan(x - x_half)),
                v_sigma * (math.atan(y + y_half) - math.atan(y - y_half)),
            )
        points = self._normalised([(u, v), (u - 0.5, v), (u + 0.5, v), (u, v - 0.5), (u, v + 0.5)])
        (x, y), (x0, _), (x1, _), (_, y0), (_, y1) = points
        if any(math.isnan(x) for x, _ in points):
            return (math.nan,) * 4
        return (
            math.atan(x),
            math.atan(y),
            u_sigma * abs(math.atan(x1) - math.atan(x0)),
            v_sigma * abs(math.atan(y1) - math.atan(y0)),
        )

    def _normalised(self, pixels: list[tuple[float, float]]) -> list[tuple[float, float]]:
        """Undistorted pixels as points of the plane z = 1; NaN for pixels without a direction."""
        if self.fisheye:
            return [
                self._fisheye_direction((u - self.cx) / self.fx, (v - self.cy) / self.fy) for u, v in pixels
            ]
        if not any(self.distortion):
            return [((u - self.cx) / self.fx, (v - self.cy) / self.fy) for u, v in pixels]
        points = np.array(pixels, np.float64)[:, np.newaxis]
        matrix = np.array([[self.fx, 0, self.cx], [0, self.fy, self.cy], [0, 0, 1]], np.float64)
        coefficients = np.array(self.distortion, np.float64)
        plane = undistorted(points, matrix, coefficients)
        known = np.square(plane).sum(axis=2) < self.fold  # beyond it, pixels have several directions
        plane = np.where(known[..., np.newaxis], plane, math.nan)
        return [(float(x), float(y)) for x, y in plane[:, 0]]

    @functools.cached_property
    def fold(self) -> float:
        """Squared distance from the axis, in the plane z = 1, at which the radial distortion folds back.

        Infinite if it does not, and for a fisheye lens.
        """
        if self.fisheye:
            return math.inf
        k1, k2, _, _, k3, k4, k5, k6 = (*self.distortion, *(0.0,) * 8)[:8]
        # The distance r becomes r * above / below, both polynomials of its square.
        above, below = np.array([k3, k2, k1, 1.0]), np.array([k6, k5, k4, 1.0])
        powers = np.array([6.0, 4.0, 2.0, 0.0])
        slope = np.polymul((powers + 1.0) * above, below) - np.polymul(above, powers * below)
        roots = np.concatenate((np.roots(slope), np.roots(below)))
        real = roots[np.abs(roots.imag) <= 1e-9 * np.abs(roots)].real
        return float(min(real[real > 0.0], default=math.inf))

    def _fisheye_direction(self, x: float, y: float) -> tuple[float, float]:
        """Point of the plane z = 1 that a fisheye lens shows at (x, y), in focal lengths from the centre.

        NaN at 90 degrees and more, and where the polynomial of the angle has folded back before (x, y).
        """
        distance = math.hypot(x, y)
        if distance == 0.0:
            return 0.0, 0.0
        k1, k2, k3, k4 = (*self.distortion, 0.0, 0.0, 0.0, 0.0)[:4]
        low, high = 0.0, math.pi / 2
        # The first angle at which the lens reaches the distance; halving alone may find one beyond the fold.
        step = high / _FISHEYE_STEPS
        for index in range(1, _FISHEYE_STEPS + 1):
            angle = index * step
            square = angle * angle
            slope = 1 + square * (3 * k1 + square * (5 * k2 + square * (7 * k3 + square * 9 * k4)))
            if angle * (1 + square * (k1 + square * (k2 + square * (k3 + square * k4)))) >= distance:
                low, high = angle - step, angle
                break
            if slope <= 0.0:
                return math.nan, math.nan
        else:
            return math.nan, math.nan
        for _ in range(_FISHEYE_HALVINGS):
            angle = (low + high) / 2
            square = angle * angle
            if angle * (1 + square * (k1 + square * (k2 + square * (k3 + square * k4)))) < distance:
                low = angle
            else:
                high = angle
        if high >= math.pi / 2 - _FISHEYE_MARGIN:
            return math.nan, math.nan
        scale = math.tan((low + high) / 2) / distance
        return x * scale, y * scale


def undistorted(
    pixels: NDArray[np.float64], matrix: NDArray[np.float64], coefficients: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Points of the plane z = 1 that a lens without fisheye shows at pixels: both [n, 1, 2].

    `matrix` [3, 3]: that of the camera; `coefficients`: its distortion, in OpenCV's order. NaN for pixels at
    which no point is shown.
    """
    plane = _undistorted_by_opencv(pixels, matrix, coefficients)
    missed = ~_are_shown_at(plane, pixels, matrix, coefficients)
    if missed.any():
        wanted = pixels[missed, np.newaxis]
        again = _undistorted_by_newton(wanted, matrix, coefficients)
        found = _are_shown_at(again, wanted, matrix, coefficients)
        plane[missed] = np.where(found[..., np.newaxis], again, math.nan)[:, 0]
    return plane


def _undistorted_by_opencv(
    pixels: NDArray[np.float64], matrix: NDArray[np.float64], coefficients: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Fixed-point iterations; with OpenCV 4.6 and earlier they may oscillate near the limit of a lens."""
    criteria = (cv2.TERM_CRITERIA_COUNT | cv2.TERM_CRITERIA_EPS, 50, 1e-9)
    if hasattr(cv2, "undistortPointsIter"):  # OpenCV 4, where only this function takes the criteria
        return np.asarray(cv2.undistortPointsIter(pixels, matrix, coefficients, None, None, criteria))
    undistort: Any = cv2.undistortPoints  # typed after OpenCV 4
    plane: NDArray[np.float64] = undistort(pixels, matrix, coefficients, criteria=criteria)
    return plane


def _undistorted_by_newton(
    pixels: NDArray[np.float64], matrix: NDArray[np.float64], coefficients: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Newton's method from where a camera without distortion looks; it may not find anything, either."""
    plane: NDArray[np.float64] = (pixels - matrix[:2, 2]) / matrix.diagonal()[:2]
    with np.errstate(all="ignore"):  # where it does not converge
        for _ in range(_NEWTON_STEPS):
            rays = cv2.convertPointsToHomogeneous(plane)
            seen, slopes = cv2.projectPoints(rays, np.zeros(3), np.zeros(3), matrix, coefficients)
            # By x and y of a point: as by those of the camera, of which OpenCV gives the slopes.
            (ux, uy), (vx, vy) = slopes[:, 3:5].reshape(-1, 2, 2).transpose(1, 2, 0)
            u, v = (pixels - seen)[:, 0].T
            step = np.stack([vy * u - uy * v, ux * v - vx * u], axis=-1) / (ux * vy - uy * vx)[:, np.newaxis]
            plane = plane + step[:, np.newaxis]
    return plane


def _are_shown_at(
    plane: NDArray[np.float64],
    pixels: NDArray[np.float64],
    matrix: NDArray[np.float64],
    coefficients: NDArray[np.float64],
) -> NDArray[np.bool_]:
    """Whether the lens shows points, [n, 1, 2], at pixels: [n, 1]."""
    rays = cv2.convertPointsToHomogeneous(plane)
    seen, _ = cv2.projectPoints(rays, np.zeros(3), np.zeros(3), matrix, coefficients)
    shown: NDArray[np.bool_] = np.abs(seen - pixels).max(axis=2) <= _REPROJECTION_ERROR
    return shown


_NEWTON_STEPS = 8
"""Steps to undistort a pixel. Uncritical: near the limit of a barrel lens four are enough."""
_FISHEYE_STEPS = 32
"""Number of steps over 90 degrees in which the angle of a pixel is searched first. Uncritical."""

_FISHEYE_HALVINGS = 32
"""Halvings of such a step. Derived: to 1e-11 rad."""

_FISHEYE_MARGIN = 1e-3
"""A pixel within this angle of 90 degrees has no direction, rad. Derived: tan is below 1000 before."""


def _coefficients(model: str, d: Sequence[float]) -> tuple[float, ...]:
    if not any(d):
        return ()
    allowed = _COEFFICIENTS.get(model)
    if allowed is None:
        raise CameraError(
            f"expected the distortion model plumb_bob, rational_polynomial or equidistant; got '{model}'"
        )
    if len(d) not in allowed:
        counts = " or ".join(map(str, allowed))
        raise CameraError(f"expected {counts} coefficients for {model}; got {len(d)}")
    return tuple(map(float, d))


def _check_plausible(camera: Pinhole) -> None:
    """Raise CameraError for values that no lens has, as angles would overflow or be meaningless."""
    if max(camera.width, camera.height) > LARGEST_SIDE:
        raise CameraError(
            f"expected a width and height of at most {LARGEST_SIDE} px; got {camera.width}x{camera.height}"
        )
    for axis, side, focal_length, centre in (
        ("x", camera.width, camera.fx, camera.cx),
        ("y", camera.height, camera.fy, camera.cy),
    ):
        least, most = side / WIDEST_VIEW, side / NARROWEST_VIEW
        if not least <= focal_length <= most:
            raise CameraError(
                f"expected f{axis} between {least:g} and {most:g} px for {side} px; got {focal_length:g}"
            )
        if max(abs(centre), abs(centre - side)) > WIDEST_VIEW * focal_length:
            raise CameraError(
                f"expected c{axis} within {WIDEST_VIEW:g} times f{axis} of the image; got {centre:g}"
            )
    for name, shift in _corner_shifts(camera):
        if not shift <= LARGEST_DISTORTION:
            raise CameraError(
                f"expected distortion that shifts a corner by at most {LARGEST_DISTORTION:g} times its "
                f"distance from the centre; {name} shifts it by {shift:g}"
            )


_POWERS = {"k1": 2, "k2": 4, "p1": 1, "p2": 1, "k3": 6, "k4": 2, "k5": 4, "k6": 6}
_POWERS |= {"s1": 1, "s2": 3, "s3": 1, "s4": 3, "taux": 0, "tauy": 0}
"""Power of the distance from the centre that each coefficient is multiplied by, in OpenCV's order."""


_FISHEYE_POWERS = {"k1": 2, "k2": 4, "k3": 6, "k4": 8}
"""The same for a fisheye lens: powers of the angle."""


def _corner_shifts(camera: Pinhole) -> list[tuple[str, float]]:
    """Each coefficient's name and shift of the farthest corner, over its distance from the centre."""
    x = max(abs(camera.cx), abs(camera.cx - camera.width)) / camera.fx
    y = max(abs(camera.cy), abs(camera.cy - camera.height)) / camera.fy
    radius = math.hypot(x, y)
    powers = _POWERS
    if camera.fisheye:
        radius, powers = min(radius, math.pi / 2), _FISHEYE_POWERS
    return [
        (name, abs(coefficient) * radius**power)
        for (name, power), coefficient in zip(powers.items(), camera.distortion, strict=False)
    ]
