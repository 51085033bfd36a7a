"""Distance to a plane relative to that at the keyframe, from homographies between views of the plane.

A camera that moves parallel to a slanted plane also sees it grow. An approach is distinguished from this
by the stretch of the picture. Two directions matter: that of the plane's normal (`slant`) and that of the
motion (`course`, the focus of expansion), both as complex numbers right + i down, tangents of the angle to
the optical axis. The homography does not tell which is which, and the distance does not depend on it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import cv2
import numpy as np

from edgetpu_perception.time_to_contact.homography_alignment import GROWTH, STRETCH, TILT, Matrix

SLANT_SIGMA = 0.25
"""Standard deviation of the slant of an unknown plane.

Matters only where the picture tells little. Rows: looming, plane, 95th percentile; plane at a slant.
"""

UNEVENNESS_SIGMA = 0.002
"""Standard deviation of the stretch of surfaces that are not quite plane.

Rows: looming, plane, 95th percentile.
"""

SPARSE_NOISE_SCALE = 2.0
"""Factor on the standard deviation of the measured stretch where it is compared with the expected stretch.

In a picture with few edges the errors along an edge are alike, so the standard deviation from the covariance
is too small by about this factor. Rows: looming, plane, 95th percentile.
"""

FOCAL_LENGTH_ERROR = 0.15
"""Relative standard deviation of the focal length, an error of which makes a rotation pass for a slant.

Derived: fields of view of 60 to 80 degrees where DEFAULT_FOCAL_LENGTH stands for 71.
"""

SEPARATION_DRIFT_SIGMA = 0.01
"""Standard deviation added to the separation at each new keyframe. Rows: the same."""

MIN_FORWARD = 0.02
"""Motion forward since the keyframe, in units of the distance, below which the separation is not measured.

Derived: the noise of the motion, 0.001 to 0.005, would make up a quarter of it.
"""

_NEARER = 1 / (1 + FOCAL_LENGTH_ERROR)
"""Factor on the tangents of directions for a focal length that is larger by its error. Derived from it."""

_LARGER_FOCAL = np.outer([_NEARER, _NEARER, 1], [1 / _NEARER, 1 / _NEARER, 1])
"""The same for a warp, element by element. Derived from it."""

_LARGER_FOCAL_PARAMETERS = np.array([_NEARER, _NEARER, 1, 1, 1, 1, 1 / _NEARER, 1 / _NEARER])
"""The same for the parameters of a warp. Derived from it."""

_LARGER_FOCAL_COVARIANCE = np.outer(_LARGER_FOCAL_PARAMETERS, _LARGER_FOCAL_PARAMETERS)
"""The same for the covariance of a warp's parameters. Derived from it."""

_TINY = 1e-24
"""Added to a denominator that is 0 if nothing has moved. Given as a guard."""


@dataclass(frozen=True)
class Distance:
    """Distance to a plane relative to that at the keyframe."""

    log: float
    """Logarithm of the ratio."""
    variance: float
    """Variance of the logarithm due to the noise of the image."""
    lasting_sigma: float
    """Standard deviation of the logarithm due to unknown slant and course.

    This error is the same from image to image, so averaging does not reduce it.
    """


@dataclass(frozen=True)
class _Directions:
    """What one image tells about slant and course."""

    forward: float
    """Motion forward since the keyframe, in units of the distance."""
    sum: complex
    """Slant plus course, times `forward`."""
    sum_variance: float
    """Variance of each component of `sum`."""
    discriminant: complex
    """Slant minus course, times `forward`, squared."""
    discriminant_variance: float
    """Variance of each component of `discriminant`."""


class PlaneDistance:
    """Distance to a plane, followed over keyframes.

    Where the picture tells little about the stretch, the stretch is predicted from the separation: the square
    of half the difference between slant and course. Rotation of the camera changes both directions alike and
    therefore not their separation.
    """

    def __init__(self) -> None:
        self._separation: complex | None = None
        self._variance = 0.0
        self._sum = 0j  # slant plus course when the separation was measured
        self._last: _Directions | None = None

    def measure(self, warp: Matrix, covariance: Matrix) -> Distance:
        """Measure the distance; `warp`: from the image to the keyframe, `covariance`: of its parameters.

        The determinant of the homography between two views of a plane, scaled so that its middle singular
        value is 1, is the ratio of the camera's distances to the plane. The matrix logarithm of the
        homography without its rotation is the symmetric part of motion * normal^T with motion = forward *
        (course, 1) and normal = (slant, 1). Slant and course solve a quadratic equation with

            sum = (slant + course) forward
            stretch = slant * course / 2 * forward
            discriminant = sum^2 - 8 forward stretch
        """
        symmetric, middle = _without_rotation(warp)
        (xx, xy, xz), (yx, yy, yz), (_, _, zz) = symmetric.tolist()
        stretch = complex((xx - yy) / 2, xy)
        both = 2 * complex(xz, yz)
        noises = covariance.diagonal().tolist()
        noise = (noises[STRETCH] + noises[STRETCH + 1]) / 2
        assumed = SPARSE_NOISE_SCALE**2 * noise + UNEVENNESS_SIGMA**2
        # A rotation changes the sum by twice the rotation times the relative error of the focal length.
        turned = 2 * FOCAL_LENGTH_ERROR * math.hypot(*warp[:2, 2].tolist())
        both_variance = noises[0] + noises[TILT] + turned**2
        forward = zz - middle
        expected, uncertainty = self._expected_discriminant(forward, both, both_variance)
        scale = 8 * forward
        total = scale**2 * assumed + uncertainty + _TINY
        gain = scale * assumed / total
        correction = gain * (both * both - expected - scale * stretch)
        right, down = correction.real, correction.imag
        xx, yy = xx + right, yy - right
        symmetric[0, 0], symmetric[0, 1] = xx, xy + down
        symmetric[1, 0], symmetric[1, 1] = yx + down, yy
        _, values, vectors = cv2.eigen(symmetric)
        middle = float(values[1, 0])
        x, y, z = vectors[1].tolist()
        forward, stretch = zz - middle, stretch + correction
        discriminant = both * both - 8 * forward * stretch
        known = uncertainty / total
        self._last = _Directions(forward, both, both_variance, discriminant, known * scale**2 * assumed)
        # Derivatives of the logarithm, by way of the middle eigenvector.
        by_stretch = (x * x - y * y) ** 2 * noises[STRETCH] + 4 * (x * y) ** 2 * noises[STRETCH + 1]
        by_sum = min((x * z) ** 2 * both_variance, abs(stretch) ** 2)  # the stretch limits its effect
        by_growth = (x * x + y * y - 2 / 3) ** 2 * noises[GROWTH]
        return Distance(
            3 * middle - (xx + yy + zz),
            9 * (by_growth + known**2 * by_stretch + by_sum),
            3 * abs(gain) * math.sqrt(uncertainty),
        )

    def _expected_discriminant(
        self, forward: float, both: complex, both_variance: float
    ) -> tuple[complex, float]:
        """The discriminant as expected from earlier images, and the variance of each component."""
        square = forward * forward
        if self._separation is None:  # unknown slant, about at right angles to the axis
            return both * both, 16 * square * SLANT_SIGMA**2 * (abs(both) ** 2 + 4 * square * SLANT_SIGMA**2)
        # The course may have changed, or a rotation may have changed both directions.
        changed = abs(both - forward * self._sum) ** 2
        variance = 16 * square * (square * self._variance + abs(self._separation) * changed)
        return 4 * square * self._separation, variance + 2 * changed**2 + 8 * abs(both) ** 2 * both_variance

    def start_keyframe(self, overlap: float) -> None:
        """Make the present image the keyframe; `overlap`: share of it that the last keyframe shows, 0..1.

        What has come into view since may be another plane, of unknown slant.
        """
        last = self._last
        if last is None or abs(last.forward) < MIN_FORWARD:
            self._variance += SEPARATION_DRIFT_SIGMA**2
            return
        square = last.forward**2
        self._separation, self._sum = last.discriminant / (4 * square), last.sum / last.forward
        noise = last.discriminant_variance / 16 + abs(last.sum) ** 2 * last.sum_variance / 4
        new = (1 - overlap) * SLANT_SIGMA**2 * (abs(self._separation) + SLANT_SIGMA**2)
        self._variance = noise / square**2 + new + SEPARATION_DRIFT_SIGMA**2


class UnknownFocalLength:
    """Measures the error of a distance that an unknown focal length causes.

    The same images are evaluated with a focal length that is larger by its standard deviation. The same share
    of every rotation then passes for a motion.
    """

    def __init__(self) -> None:
        self._plane = PlaneDistance()

    def error_of(self, distance: Distance, warp: Matrix, covariance: Matrix) -> float:
        """Standard deviation of the logarithm of `distance`, which was measured from the same warp."""
        larger = self._plane.measure(warp * _LARGER_FOCAL, covariance * _LARGER_FOCAL_COVARIANCE)
        return abs(larger.log - distance.log)

    def start_keyframe(self, overlap: float) -> None:
        """Make the present image the keyframe; see PlaneDistance."""
        self._plane.start_keyframe(overlap)


def _without_rotation(warp: Matrix) -> tuple[Matrix, float]:
    """Symmetric logarithm of a homography without its rotation, and its middle eigenvalue."""
    scales, _, directions = cv2.SVDecomp(warp)
    logarithms = np.log(scales.ravel())
    symmetric: Matrix = (directions.T * logarithms).dot(directions)
    return symmetric, float(logarithms[1])
