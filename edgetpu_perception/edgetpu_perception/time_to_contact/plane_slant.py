"""Slant of a plane, and its distance corrected for the slant, from homographies.

A camera that moves parallel to a slanted plane also sees it grow. To tell this from an approach the slant is
estimated: it stretches the picture, and it follows from an earlier slant by the camera's rotation. Slants and
motions parallel to the image are complex numbers, right + i down.
"""

from __future__ import annotations

import math

import cv2
import numpy as np

from edgetpu_perception.time_to_contact.homography_alignment import GROWTH, STRETCH, TILT, Matrix

INITIAL_SLANT_SIGMA = 0.15
"""Standard deviation of the slant (a tangent) of an unknown plane.

Rows: looming, lateral, no approach claimed; plane, inside one sigma.
"""

SLANT_DRIFT_SIGMA = 0.01
"""Standard deviation added to the slant at each new keyframe. Rows: the same."""

UNEVENNESS_SIGMA = 0.01
"""Standard deviation of the stretch of surfaces that are not quite plane. Rows: the same."""

MAX_SLANT = 1.5
"""Largest slant (a tangent) that is accepted: 56 degrees. Rows: looming, lateral, no approach claimed."""

_IDENTITY = np.eye(3)


class PlaneSlant:
    """Slant (p, q) of the plane 1 = depth * (p x + q y + 1) * constant, followed over keyframes."""

    def __init__(self) -> None:
        self._keyframe, self._keyframe_variance = 0j, INITIAL_SLANT_SIGMA**2
        self._slant, self._variance = self._keyframe, self._keyframe_variance

    def log_depth(self, warp: Matrix, covariance: Matrix) -> tuple[float, float, float]:
        """Logarithm of the distance over that at the keyframe, its variance, and its persistent error.

        The determinant of the homography between two views of a plane, scaled so that its middle singular
        value is 1, is the ratio of the camera's distances to the plane. With A = log(homography) = rotation +
        motion * normal^T the logarithm is the trace of A. The image determines A up to a multiple of 1,
        which the slant determines. The last value is the standard deviation due to the unknown slant; it is
        the same from frame to frame, so averaging does not reduce it.
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
        noise += abs(slant) ** 2 * sideways_variance + UNEVENNESS_SIGMA**2
        gain = variance * slope.conjugate() / (variance * abs(slope) ** 2 + noise)
        slant += gain * (2 * stretch - slant * sideways)
        slant *= min(MAX_SLANT / max(abs(slant), MAX_SLANT), 1.0)
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

    def start_keyframe(self, overlap: float) -> None:
        """Make the present image the keyframe; `overlap`: share of it that the last keyframe has, 0..1.

        What has come into view since may be another plane, of unknown slant. The state becomes mean and
        variance of the mixture of both.
        """
        new = 1.0 - overlap
        between = overlap * new * abs(self._slant) ** 2 / 2  # of each of the two components
        variance = overlap * self._variance + new * INITIAL_SLANT_SIGMA**2 + between
        self._keyframe, self._keyframe_variance = overlap * self._slant, variance + SLANT_DRIFT_SIGMA**2


def _motion(slant: complex, motion_and_tilt: complex, spread: float) -> tuple[float, complex]:
    """Motion forward and sideways, in units of the depth, of a camera in front of a plane of this slant."""
    forward, sideways = -spread / 2, motion_and_tilt
    for _ in range(2):
        sideways = motion_and_tilt - forward * slant
        forward = ((slant * sideways.conjugate()).real - spread) / 2
    return forward, sideways


def _logarithm(warp: Matrix) -> Matrix:
    """Logarithm of a matrix near a multiple of 1, up to a multiple of 1."""
    remainder = warp / np.cbrt(cv2.determinant(warp)) - _IDENTITY
    square = remainder @ remainder
    logarithm: Matrix = remainder - square / 2 + square @ remainder / 3
    return logarithm
