"""The slant of a plane and what it has to do with its distance, from homographies.

A camera that moves beside a slanted plane sees it grow, too. What tells this from coming closer is the slant:
it shows in how the picture is stretched, and follows from an earlier slant by the camera's rotation. Slants
and motions parallel to the image are complex numbers, right + i down.
"""

from __future__ import annotations

import math

import cv2
import numpy as np

from edgetpu_perception.time_to_contact.homography_alignment import GROWTH, STRETCH, TILT, Matrix

USUAL_SLANT = 0.15
"""Standard deviation of the slant of a plane of which nothing is known yet."""

DRIFT = 0.01
"""What a slant loses in certainty from one keyframe to the next."""

UNEVENNESS = 0.01
"""Standard deviation of the stretch that surfaces which are not quite plane show."""

STEEPEST = 1.5
"""Tangent of the largest slant that is believed."""

_ONE = np.eye(3)


class PlaneSlant:
    """Slant (p, q) of the plane 1 = depth * (p x + q y + 1) * constant, tracked over keyframes."""

    def __init__(self) -> None:
        self._keyframe, self._keyframe_variance = 0j, USUAL_SLANT**2
        self._slant, self._variance = self._keyframe, self._keyframe_variance

    def log_depth(self, warp: Matrix, covariance: Matrix) -> tuple[float, float, float]:
        """Logarithm of the distance over that at the keyframe, its variance, and the part that persists.

        The determinant of the homography between two views of a plane, scaled so that its middle singular
        value is 1, is the ratio of the camera's distances to the plane. With A = log(homography) = rotation +
        motion * normal^T the logarithm is the trace of A; the image leaves open a multiple of 1, which the
        slant determines. The last value is the standard deviation that comes from not knowing the slant; it
        stays alike from frame to frame.
        """
        generator = _logarithm(warp)
        (a, b, c), (d, e, f), (g, h, i) = generator.tolist()
        spread = a + e - 2 * i
        stretch = complex((a - e) / 2, (b + d) / 2)
        motion_and_tilt = complex(c + g, f + h)  # the rotation is antisymmetric and cancels
        p, q = self._keyframe.real, self._keyframe.imag
        x, y, z = (p * a + q * b + c for a, b, c in zip(*warp.tolist(), strict=True))
        slant = complex(x, y) / z
        noises = covariance.diagonal().tolist()
        variance = self._keyframe_variance + noises[TILT]

        # stretch = slant * sideways / 2 with sideways = motion_and_tilt - forward * slant
        forward, sideways = _motion(slant, motion_and_tilt, spread)
        slope = motion_and_tilt - 2 * forward * slant
        sideways_variance = noises[0] + noises[TILT]
        noise = 2 * (noises[STRETCH] + noises[STRETCH + 1])
        noise += abs(slant) ** 2 * sideways_variance + UNEVENNESS**2
        gain = variance * slope.conjugate() / (variance * abs(slope) ** 2 + noise)
        slant += gain * (2 * stretch - slant * sideways)
        slant *= min(STEEPEST / max(abs(slant), STEEPEST), 1.0)
        self._slant, self._variance = slant, variance * max(1 - (gain * slope).real, 0.0)

        forward, sideways = _motion(slant, motion_and_tilt, spread)
        beside = (slant * sideways.conjugate()).real
        return (
            spread / 2 - 1.5 * beside,
            noises[GROWTH] + 2.25 * abs(slant) ** 2 * sideways_variance,
            1.5 * math.sqrt(self._variance) * abs(sideways),
        )

    @property
    def steepness(self) -> float:
        """Tangent of the angle between the plane's normal and the optical axis."""
        return abs(self._slant)

    def start_keyframe(self) -> None:
        """Count from the present image on."""
        self._keyframe, self._keyframe_variance = self._slant, self._variance + DRIFT**2


def _motion(slant: complex, motion_and_tilt: complex, spread: float) -> tuple[float, complex]:
    """Motion forward and sideways, in units of the depth, of a camera that sees a plane of this slant."""
    forward, sideways = -spread / 2, motion_and_tilt
    for _ in range(2):
        sideways = motion_and_tilt - forward * slant
        forward = ((slant * sideways.conjugate()).real - spread) / 2
    return forward, sideways


def _logarithm(warp: Matrix) -> Matrix:
    """Logarithm of a matrix near a multiple of 1, less a multiple of 1."""
    rest = warp / np.cbrt(cv2.determinant(warp)) - _ONE
    square = rest @ rest
    logarithm: Matrix = rest - square / 2 + square @ rest / 3
    return logarithm
