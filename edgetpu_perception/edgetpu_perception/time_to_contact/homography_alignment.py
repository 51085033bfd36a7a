"""Alignment of an image with a keyframe of the same plane: Gauss-Newton over a homography.

A warp is a 3x3 matrix that maps a direction (x, y, 1) of the present image to that of the same point in the
keyframe; x and y are in units of the focal length, x right and y down. Its parameters, in this order, are

    shift right, shift down, growth, turn, stretch, shear, tilt right, tilt down

Small matrices are multiplied with `dot`, which takes half the time of `@`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
Map = NDArray[np.float32]

PARAMETERS = 8
"""Number of parameters of a homography. Given by the definition above."""

GROWTH = 2
"""Index of the growth."""

TURN = 3
"""Index of the turn."""

STRETCH = 4
"""Index of the stretch; the shear follows."""

TILT = 6
"""Index of the tilt right; the tilt down follows."""

_RESIDUAL_ROW = PARAMETERS + 2
"""Index of the row of the design that holds the residual, after the parameters, offset and gain."""

_DESIGN_ROWS = 12
"""Rows of the design. Derived: 8 parameters, offset, gain and residual are 11, and BLAS is faster with 12."""

_CONVERGED_STEP = 0.004, 0.004, 0.01, 0.01, 0.01, 0.01, 0.02, 0.02
"""A step whose parameters are all smaller than these is the last.

Limits the time. Rows: looming, plane, median error of TTC.
"""

_MIN_SIGNAL_SHARE = 0.05
"""Smallest share of the squared slopes that counts as signal. Rows: looming, plane, median error of TTC."""

_BRIGHTNESS_SIGMAS = 1e3, 0.01
"""Standard deviations of a change of brightness: of the offset, grey levels, which is practically free, and
of the gain. If that were free, too, noise would pass for a gain.

Rows: looming, plane, median error of TTC; static.
"""

_KEYFRAME_MARGIN = 20
"""Empty elements around a keyframe: cv2.remap is faster inside an image than at its border.

Limits the time.
"""

_IDENTITY = np.eye(3)
_IDENTITY_8 = np.eye(PARAMETERS)


def warp_of(parameters: Sequence[float]) -> Matrix:
    """The warp with these eight parameters."""
    right, down, growth, turn, stretch, shear, tilt_right, tilt_down = parameters
    return np.array(
        [
            [1 + growth + stretch, shear - turn, right],
            [shear + turn, 1 + growth - stretch, down],
            [-tilt_right, -tilt_down, 1],
        ]
    )


def parameters_of(warp: Matrix) -> list[float]:
    """The eight parameters of a warp."""
    (a, b, c), (d, e, f), (g, h, i) = warp.tolist()
    values = c, f, (a + e) / 2 - i, (d - b) / 2, (a - e) / 2, (b + d) / 2, -g, -h
    return [value / i for value in values]


def precision_of(*sigmas: float) -> Matrix:
    """The precision of an ExpectedWarp, from standard deviations of the eight parameters."""
    return np.diag(np.array([*sigmas, *_BRIGHTNESS_SIGMAS]) ** -2.0)


def inverse(matrix: Matrix) -> Matrix:
    """Inverse of a small matrix, several times faster than with numpy.linalg."""
    result: Matrix = cv2.invert(matrix)[1]
    return result


class Grid:
    """Directions of the elements of a map in the camera's optical frame."""

    def __init__(
        self, rows: int, columns: int, focal: tuple[float, float], center: tuple[float, float]
    ) -> None:
        """`focal`: focal lengths along x and y; `center`: principal point; both in elements of the map."""
        self.shape = rows, columns
        self.focal = focal
        x = ((np.arange(columns) - center[0]) / focal[0]).astype(np.float32)
        y = ((np.arange(rows) - center[1]) / focal[1]).astype(np.float32)
        self.x, self.y = np.meshgrid(x, y)
        self.to_map = np.array([[focal[0], 0, center[0]], [0, focal[1], center[1]], [0, 0, 1.0]])
        """Camera matrix: from a direction to a position in the map, elements."""
        self.extent = columns / focal[0], rows / focal[1]
        right, down = self.extent[0] / 3, self.extent[1] / 3
        # The centre and corners of the middle of the map.
        self._middle = np.array(
            [[0, right, -right, right, -right], [0, down, down, -down, -down], [1, 1, 1, 1, 1]]
        )
        self.power = self._slope_power()

    def fill_jacobian(self, slope_x: Map, slope_y: Map, out: NDArray[np.float32]) -> None:
        """Write the derivatives of the brightness with respect to the parameters: [8, rows, columns]."""
        gx = np.multiply(slope_x, self.focal[0], out=out[0])
        gy = np.multiply(slope_y, self.focal[1], out=out[1])
        x_gx, y_gy, x_gy, y_gx = self.x * gx, self.y * gy, self.x * gy, self.y * gx
        growth = np.add(x_gx, y_gy, out=out[GROWTH])
        np.subtract(x_gy, y_gx, out=out[TURN])
        np.subtract(x_gx, y_gy, out=out[STRETCH])
        np.add(x_gy, y_gx, out=out[STRETCH + 1])
        np.multiply(self.x, growth, out=out[TILT])
        np.multiply(self.y, growth, out=out[TILT + 1])

    def distance(self, one: Matrix, other: Matrix) -> float:
        """Largest difference of two warps along an axis, over the middle of the map, elements."""
        moved = inverse(one) @ other @ self._middle
        right, down = np.abs(moved[:2] / moved[2] - self._middle[:2]).max(axis=1).tolist()
        return float(max(right * self.focal[0], down * self.focal[1]))

    def _slope_power(self) -> NDArray[np.float32]:
        """Mean square of each row of the Jacobian for slopes of variance 1: [8, elements]."""
        x, y, zero, one = self.x, self.y, np.zeros_like(self.x), np.ones_like(self.x)
        from_x = (one, zero, x, y, x, y, x * x, x * y)
        from_y = (zero, one, y, x, y, x, x * y, y * y)
        rows = [
            (a * self.focal[0]) ** 2 + (b * self.focal[1]) ** 2 for a, b in zip(from_x, from_y, strict=True)
        ]
        return np.array(rows, np.float32).reshape(PARAMETERS, -1)


@dataclass(frozen=True)
class HomographyAlignment:
    """A warp from an image to the keyframe."""

    warp: Matrix
    """The warp including the expectation, which prevails where the images tell little."""
    measured: Matrix
    """The warp from the images alone."""
    covariance: Matrix
    """Covariance of the eight parameters of `measured`."""
    residual: Map
    """Keyframe minus image, without offset and gain, grey levels; 0 outside the overlap."""
    inside: NDArray[np.bool_]
    """bool: elements of the image that the keyframe has."""
    brightness: NDArray[np.float32]
    """Offset, grey levels, and relative gain by which the keyframe is brighter than the image."""
    converged: bool = True
    """Whether the last step was small. If not, the images may match at a very different warp."""


@dataclass(frozen=True)
class ExpectedWarp:
    """Expectation of the warp before the images are compared."""

    warp: Matrix
    """Start of the search, with the expected shifts and growth."""
    others: Sequence[float]
    """Expected turn, stretch, shear and tilts."""
    precision: Matrix
    """Inverse variances of the eight parameters, and of offset and gain of the brightness: diagonal [10, 10].
    """
    exposure: float = 1.0
    """Brightness of the image over that of the keyframe."""

    def difference_to(self, warp: Matrix, moved: Matrix) -> NDArray[np.float64]:
        """The step [10] from a warp to the expectation; `moved`: the warp relative to the start.

        Steps are inverted before they are applied: these are the parameters of the warp minus the expected
        ones, followed by the expected offset and gain.
        """
        others = [found - other for found, other in zip(parameters_of(warp)[TURN:], self.others, strict=True)]
        return np.array([*parameters_of(moved)[:TURN], *others, 0.0, 1 / self.exposure - 1])


class HomographyAligner:
    """Aligns the present image with a keyframe."""

    def __init__(self, grid: Grid) -> None:
        # Eight parameters, offset and gain of the brightness, the residual, and an empty row.
        self._design = np.ones((_DESIGN_ROWS, *grid.shape), np.float32)
        self._design[_RESIDUAL_ROW + 1 :] = 0.0
        self._weighted = np.zeros((_DESIGN_ROWS, grid.x.size), np.float32)
        rows, columns = grid.shape
        self._keyframe = np.full(
            (rows + 2 * _KEYFRAME_MARGIN, columns + 2 * _KEYFRAME_MARGIN), np.nan, np.float32
        )
        self._to_keyframe = _IDENTITY
        self.look_at(grid)

    def look_at(self, grid: Grid) -> None:
        """Set the grid of the images from now on; the keyframe keeps its own."""
        self._grid = grid
        self._directions = np.array([grid.x, grid.y, np.ones_like(grid.x)]).reshape(3, -1)

    def set_keyframe(self, brightness: Map) -> None:
        """Set the brightness [rows, columns] that images are aligned with from now on."""
        margin = warp_of([_KEYFRAME_MARGIN, _KEYFRAME_MARGIN, 0, 0, 0, 0, 0, 0])
        self._to_keyframe = margin @ self._grid.to_map
        self._keyframe[_KEYFRAME_MARGIN:-_KEYFRAME_MARGIN, _KEYFRAME_MARGIN:-_KEYFRAME_MARGIN] = brightness

    def set_image(self, brightness: Map, slope_x: Map, slope_y: Map) -> None:
        """Set the image for `align`: brightness and slopes, [rows, columns]."""
        self._grid.fill_jacobian(slope_x, slope_y, self._design)
        self._design[PARAMETERS + 1] = brightness

    @property
    def jacobian(self) -> NDArray[np.float32]:
        """Derivatives of the image's brightness with respect to the parameters, [8, rows, columns]."""
        return self._design[:PARAMETERS]

    def align(
        self, weights: Map, expected: ExpectedWarp, slope_noise: float, steps: int
    ) -> HomographyAlignment:
        """Find the warp from the image to the keyframe in at most `steps` steps.

        `weights`: inverse variances, [rows, columns]; `slope_noise`: variance of a slope due to noise.
        """
        warp, moved, prior = expected.warp, _IDENTITY, expected.precision
        design = self._design.reshape(_DESIGN_ROWS, -1)
        for taken in itertools.count(1):
            inside = self._compare(warp)
            if taken == 1:
                used = (weights * inside).ravel()
                np.multiply(design[:_RESIDUAL_ROW], used, out=self._weighted[:_RESIDUAL_ROW])
                products = (self._weighted @ design.T).astype(np.float64)[:_RESIDUAL_ROW, : _RESIDUAL_ROW + 1]
                normal = products[:, :-1] + prior
            else:  # only the residual has changed
                products[:, -1] = self._weighted[:_RESIDUAL_ROW] @ design[_RESIDUAL_ROW]
            right_side = products[:, -1] + prior.diagonal() * expected.difference_to(warp, moved)
            # OpenCV 5 expects a column.
            found = cv2.solve(normal, right_side[:, np.newaxis], flags=cv2.DECOMP_CHOLESKY)[1].ravel()
            step = found[:PARAMETERS].tolist()
            moved = moved.dot(inverse(warp_of(step)))
            warp = expected.warp.dot(moved)
            converged = all(abs(each) < most for each, most in zip(step, _CONVERGED_STEP, strict=True))
            if converged or taken == steps:
                break
        prior = prior[:PARAMETERS, :PARAMETERS]
        information = _without_brightness(normal) - prior
        noise = slope_noise * (self._grid.power @ used)
        signal = _without_noise(information, noise / np.maximum(products.diagonal()[:PARAMETERS], 1e-12))
        measured, covariance = unbiased(np.array(parameters_of(moved)), taken, information, signal, prior)
        residual = design[_RESIDUAL_ROW] - found.astype(np.float32) @ design[:_RESIDUAL_ROW]
        residual *= inside.ravel()
        return HomographyAlignment(
            warp / warp[2, 2],
            expected.warp.dot(warp_of(measured.tolist())),
            covariance,
            residual.reshape(self._grid.shape),
            inside,
            found[PARAMETERS:].astype(np.float32),
            converged,
        )

    def stand_still(self, brightness: NDArray[np.float32]) -> HomographyAlignment:
        """The alignment of a part that has not moved since the keyframe.

        `brightness`: offset and gain that another alignment has found.
        """
        inside = self._compare(_IDENTITY)
        offset, gain = brightness
        residual = self._design[_RESIDUAL_ROW] - gain * self._design[PARAMETERS + 1] - offset
        residual *= inside
        exact = np.zeros((PARAMETERS, PARAMETERS))
        return HomographyAlignment(_IDENTITY, _IDENTITY, exact, residual, inside, brightness)

    def _compare(self, warp: Matrix) -> NDArray[np.bool_]:
        """Write warped keyframe minus image into the design; return where the keyframe has the image."""
        # Faster than cv2.warpPerspective. cv2.divide accepts a divisor of 0.
        positions = self._to_keyframe.dot(warp).astype(np.float32) @ self._directions
        x, y, depth = positions.reshape(3, *self._grid.shape)
        warped = cv2.remap(
            self._keyframe,
            cv2.divide(x, depth),
            cv2.divide(y, depth),
            cv2.INTER_CUBIC,
            borderMode=cv2.BORDER_CONSTANT,
            borderValue=math.nan,
        )
        difference = np.subtract(warped, self._design[PARAMETERS + 1], out=self._design[_RESIDUAL_ROW])
        inside: NDArray[np.bool_] = difference == difference
        cv2.patchNaNs(difference, 0.0)
        return inside


def unbiased(
    moved: NDArray[np.float64], steps: int, information: Matrix, signal: Matrix, prior: Matrix
) -> tuple[NDArray[np.float64], Matrix]:
    """Remove the expectation and the bias of noisy slopes from parameters found in `steps` steps.

    `moved` [8]: the parameters; `information`, `signal`, `prior` [8, 8]: normal equations of the images with
    and without the noise of the slopes, and of the expectation. That noise makes steps too short, yet turns
    image noise into steps. Returns the parameters that the images alone give, and their covariance.
    """
    normal = information + prior
    if steps > 1:
        # One step covers 1 - rest of the way, n steps (1 + rest + ... + rest^(n - 1)) times that.
        rest = _IDENTITY_8 - cv2.solve(normal, signal + prior, flags=cv2.DECOMP_CHOLESKY)[1]
        series = _IDENTITY_8 + rest
        for _ in range(steps - 2):
            series = _IDENTITY_8 + rest @ series
        moved = cv2.solve(series, moved[:, np.newaxis])[1].ravel()
    # The growth is filtered later, so its expectation must not count as a measurement.
    prior = prior.copy()
    prior[GROWTH, GROWTH] = 1.0
    back = cv2.invert(signal + prior, flags=cv2.DECOMP_CHOLESKY)[1]
    return back.dot(normal.dot(moved)), back.dot(information + prior).dot(back)


def _without_noise(information: Matrix, noise: NDArray[np.float64]) -> Matrix:
    """Normal equations without noise of the slopes; `noise`: its share of each diagonal element."""
    signal_share = np.sqrt(np.maximum(1 - noise, _MIN_SIGNAL_SHARE))
    signal: Matrix = information * (signal_share[:, np.newaxis] * signal_share)
    return signal


def _without_brightness(products: Matrix) -> Matrix:
    """Normal equations of the eight parameters, with offset and gain eliminated."""
    cross = products[:PARAMETERS, PARAMETERS:]
    both = inverse(products[PARAMETERS:, PARAMETERS:])
    information: Matrix = products[:PARAMETERS, :PARAMETERS] - cross.dot(both).dot(cross.T)
    return information
