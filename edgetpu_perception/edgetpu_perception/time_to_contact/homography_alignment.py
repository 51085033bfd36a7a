"""Aligns an image with an earlier one of the same plane: Gauss-Newton over the parameters of a homography.

A warp is a 3x3 matrix that takes a direction (x, y, 1) of the present image to that of the same point in the
keyframe; x and y are in units of the focal length, x right and y down. Its parameters, in this order, are

    shift right, shift down, growth, turn, stretch, shear, tilt right, tilt down
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
GROWTH = 2
TURN = 3
STRETCH = 4
TILT = 6

_RESIDUAL = PARAMETERS + 2
_ROWS = 12
"""Rows of what is multiplied with itself, and which one the residual is."""

_SMALL_STEP = np.array([0.004, 0.004, 0.01, 0.01, 0.01, 0.01, 0.02, 0.02])
"""Steps that are so small are taken without another look."""

_LEAST_SIGNAL = 0.05
"""Share of the square of slopes that is taken for more than noise, at least."""

_BRIGHTNESS_SIGMAS = 1e3, 0.01
"""Standard deviations of a change of offset, grey levels, and of gain: else noise would pass for a gain."""

_MARGIN = 20
"""Elements of nothing around a keyframe: OpenCV looks up the inside of an image faster than its border."""

_STILL = np.eye(3)
_ONE = np.eye(PARAMETERS)


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


def precision_of(*sigmas: float) -> NDArray[np.float64]:
    """Inverse variances for an Expectation, from standard deviations of the eight parameters."""
    precision: NDArray[np.float64] = np.array([*sigmas, *_BRIGHTNESS_SIGMAS]) ** -2.0
    return precision


def inverse(matrix: Matrix) -> Matrix:
    """Of a small matrix, several times faster than with numpy.linalg."""
    result: Matrix = cv2.invert(matrix)[1]
    return result


class Grid:
    """The elements of a map as directions of the camera."""

    def __init__(
        self, rows: int, columns: int, focal: tuple[float, float], center: tuple[float, float]
    ) -> None:
        """`focal`: lengths along x and y; `center`: the optical axis; both in elements of the map."""
        self.shape = rows, columns
        self.focal = focal
        x = ((np.arange(columns) - center[0]) / focal[0]).astype(np.float32)
        y = ((np.arange(rows) - center[1]) / focal[1]).astype(np.float32)
        self.x, self.y = np.meshgrid(x, y)
        self.to_map = np.array([[focal[0], 0, center[0]], [0, focal[1], center[1]], [0, 0, 1.0]])
        """What takes a direction to a position in the map, elements."""
        self.extent = columns / focal[0], rows / focal[1]
        self.power = self._slope_power()

    def fill_jacobian(self, slope_x: Map, slope_y: Map, out: NDArray[np.float32]) -> None:
        """How the brightness changes with each parameter, into float32 [8, rows, columns]."""
        gx = np.multiply(slope_x, self.focal[0], out=out[0])
        gy = np.multiply(slope_y, self.focal[1], out=out[1])
        x_gx, y_gy, x_gy, y_gx = self.x * gx, self.y * gy, self.x * gy, self.y * gx
        growth = np.add(x_gx, y_gy, out=out[GROWTH])
        np.subtract(x_gy, y_gx, out=out[TURN])
        np.subtract(x_gx, y_gy, out=out[STRETCH])
        np.add(x_gy, y_gx, out=out[STRETCH + 1])
        np.multiply(self.x, growth, out=out[TILT])
        np.multiply(self.y, growth, out=out[TILT + 1])

    def _slope_power(self) -> NDArray[np.float32]:
        """[8, elements]: what slopes of variance 1 add to the square of each row of the Jacobian."""
        x, y, zero, one = self.x, self.y, np.zeros_like(self.x), np.ones_like(self.x)
        from_x = (one, zero, x, y, x, y, x * x, x * y)
        from_y = (zero, one, y, x, y, x, x * y, y * y)
        rows = [
            (a * self.focal[0]) ** 2 + (b * self.focal[1]) ** 2 for a, b in zip(from_x, from_y, strict=True)
        ]
        return np.array(rows, np.float32).reshape(PARAMETERS, -1)


@dataclass(frozen=True)
class Alignment:
    """A warp from an image to the keyframe."""

    warp: Matrix
    """Close to what was expected where the images tell little."""
    measured: Matrix
    """The warp without that."""
    covariance: Matrix
    """Of the eight parameters of `measured`."""
    residual: Map
    """Keyframe less image, offset and gain removed; 0 outside."""
    inside: NDArray[np.bool_]
    """What of the image the keyframe has."""


@dataclass(frozen=True)
class Expectation:
    """What is known before the images are compared."""

    warp: Matrix
    """Where to start, and what shifts and growth are expected."""
    others: Sequence[float]
    """Expected turn, stretch, shear and tilts."""
    precision: NDArray[np.float64]
    """Inverse variances of the eight parameters, and of offset and gain of the brightness."""
    exposure: float = 1.0
    """Brightness of the image over that of the keyframe."""

    def less(self, warp: Matrix, moved: Matrix) -> NDArray[np.float64]:
        """How far a warp, which is `moved` from the expected one, and offset and gain 0 are from this."""
        others = [found - other for found, other in zip(parameters_of(warp)[TURN:], self.others, strict=True)]
        return np.array([*parameters_of(moved)[:TURN], *others, 0.0, 1 / self.exposure - 1])


class Aligner:
    """Compares the present image with a keyframe."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        # Eight parameters, offset and gain of the brightness, room for the residual, and nothing: BLAS
        # multiplies 12 rows in less time than 11.
        self._design = np.ones((_ROWS, *grid.shape), np.float32)
        self._design[_RESIDUAL + 1 :] = 0.0
        self._weighted = np.zeros((_ROWS, grid.x.size), np.float32)
        rows, columns = grid.shape
        self._keyframe = np.full((rows + 2 * _MARGIN, columns + 2 * _MARGIN), np.nan, np.float32)
        self._to_keyframe = warp_of([_MARGIN, _MARGIN, 0, 0, 0, 0, 0, 0]) @ grid.to_map
        self._directions = np.array([grid.x, grid.y, np.ones_like(grid.x)]).reshape(3, -1)

    def set_keyframe(self, brightness: Map) -> None:
        """Take what images are compared with from now on."""
        self._keyframe[_MARGIN:-_MARGIN, _MARGIN:-_MARGIN] = brightness

    def set_image(self, brightness: Map, slope_x: Map, slope_y: Map) -> None:
        """Take the image that `align` is about."""
        self._grid.fill_jacobian(slope_x, slope_y, self._design)
        self._design[PARAMETERS + 1] = brightness

    @property
    def jacobian(self) -> NDArray[np.float32]:
        """How the image's brightness changes with each parameter, [8, rows, columns]."""
        return self._design[:PARAMETERS]

    def align(self, weights: Map, expected: Expectation, slope_noise: float, steps: int) -> Alignment:
        """Find the warp from the image to the keyframe.

        `weights`: inverse variance of each element; `slope_noise`: variance of a slope that is noise.
        """
        warp, moved, prior = expected.warp, _STILL, np.diag(expected.precision)
        design = self._design.reshape(_ROWS, -1)
        for taken in itertools.count(1):
            inside = self._compare(warp)
            if taken == 1:
                used = (weights * inside).ravel()
                np.multiply(design[:_RESIDUAL], used, out=self._weighted[:_RESIDUAL])
                products = (self._weighted @ design.T).astype(np.float64)[:_RESIDUAL, : _RESIDUAL + 1]
                believed = products[:, :-1] + prior
            else:  # only the residual is another one
                products[:, -1] = self._weighted[:_RESIDUAL] @ design[_RESIDUAL]
            wanted = products[:, -1] + expected.precision * expected.less(warp, moved)
            found = cv2.solve(believed, wanted, flags=cv2.DECOMP_CHOLESKY)[1].ravel()
            step = found[:PARAMETERS]
            moved = moved @ inverse(warp_of(step.tolist()))
            warp = expected.warp @ moved
            if taken == steps or (np.abs(step) < _SMALL_STEP).all():
                break
        prior = prior[:PARAMETERS, :PARAMETERS]
        information = _without_brightness(believed) - prior
        noise = slope_noise * (self._grid.power @ used)
        signal = _without_noise(information, noise / np.maximum(products.diagonal()[:PARAMETERS], 1e-12))
        measured, covariance = unbiased(np.array(parameters_of(moved)), taken, information, signal, prior)
        residual = design[_RESIDUAL] - found.astype(np.float32) @ design[:_RESIDUAL]
        residual *= inside.ravel()
        return Alignment(
            warp / warp[2, 2],
            expected.warp @ warp_of(measured.tolist()),
            covariance,
            residual.reshape(self._grid.shape),
            inside,
        )

    def _compare(self, warp: Matrix) -> NDArray[np.bool_]:
        """Put the difference of the warped keyframe to the image into the design; tell where there is one."""
        # Faster than cv2.warpPerspective; and cv2.divide does not mind a 0.
        positions = (self._to_keyframe @ warp).astype(np.float32) @ self._directions
        x, y, depth = positions.reshape(3, *self._grid.shape)
        warped = cv2.remap(
            self._keyframe,
            cv2.divide(x, depth),
            cv2.divide(y, depth),
            cv2.INTER_CUBIC,
            borderMode=cv2.BORDER_CONSTANT,
            borderValue=math.nan,
        )
        difference = np.subtract(warped, self._design[PARAMETERS + 1], out=self._design[_RESIDUAL])
        inside: NDArray[np.bool_] = difference == difference
        cv2.patchNaNs(difference, 0.0)
        return inside


def unbiased(
    moved: NDArray[np.float64], steps: int, information: Matrix, signal: Matrix, prior: Matrix
) -> tuple[NDArray[np.float64], Matrix]:
    """Parameters that the images alone tell, from those found in a number of steps, and their covariance.

    Slopes that are noise look like `information` but are not `signal`. They make steps too short, yet turn
    the noise of the image into steps all the same.
    """
    believed = information + prior
    if steps > 1:
        # One step goes from 0 to (1 - rest) of the way, several to (1 + rest + rest^2 + ..) times that.
        rest = _ONE - cv2.solve(believed, signal + prior, flags=cv2.DECOMP_CHOLESKY)[1]
        series = _ONE + rest
        for _ in range(steps - 2):
            series = _ONE + rest @ series
        moved = cv2.solve(series, moved)[1].ravel()
    # A filter over growth must not take what it expected for a measurement.
    prior = prior.copy()
    prior[GROWTH, GROWTH] = 1.0
    back = cv2.invert(signal + prior, flags=cv2.DECOMP_CHOLESKY)[1]
    return back @ (believed @ moved), back @ (information + prior) @ back


def _without_noise(information: Matrix, noise: NDArray[np.float64]) -> Matrix:
    """What of normal equations is left when these shares of their diagonal are noise of the slopes."""
    honest = np.sqrt(np.maximum(1 - noise, _LEAST_SIGNAL))
    signal: Matrix = information * (honest[:, np.newaxis] * honest)
    return signal


def _without_brightness(products: Matrix) -> Matrix:
    """Normal equations of the eight parameters, with offset and gain solved for."""
    cross = products[:PARAMETERS, PARAMETERS:]
    both = inverse(products[PARAMETERS:, PARAMETERS:])
    information: Matrix = products[:PARAMETERS, :PARAMETERS] - cross @ both @ cross.T
    return information
