"""How far the rate of a surface that fills a part of the image may be wrong, as its slant is unknown.

The picture of ground grows beneath a camera that moves level, though the distance to the ground stays the
same. The homography between two views of a plane is I + motion * normal^T, with motion = forward *
(course, 1) and normal = (slant, 1). To first order, the logarithms

    of the distance falls by forward * (1 + slant . course)
    of the size rises by forward * (1 - slant . course / 2)

and the picture is stretched by forward * |slant| |course| / 2. So the size rises as much as the distance
falls, to within three times the stretch. The direction of the course would tell more, but it cannot be told
from a turn of the camera. A part that does not shift has no course across the line of sight, and is not
stretched, however slanted it is.
"""

from __future__ import annotations

import math

import cv2

from edgetpu_perception.time_to_contact.homography_alignment import (
    STRETCH,
    Grid,
    Map,
    Matrix,
    parameters_of,
)
from edgetpu_perception.time_to_contact.surface_tracker_limits import SECOND_PRECISION

PART_SLANT_SIGMA = 1.0
"""Standard deviation of the slant of a part: the tangent of the angle between normal and line of sight.

Derived: 45 degrees, as parts may be ground, walls beside the camera, or sides of objects.
"""

EXPECTED_VARIANCE = 1 / float(SECOND_PRECISION[STRETCH, STRETCH])
"""Variance of stretch and shear that the alignment of a part expects. Derived from its precision."""

LEAST_TOLD = 0.01
"""Least share of the stretch that the images tell, if the rest is expectation. Given as a guard."""

_TINY = 1e-12
"""Added to a sum of weights that may be 0. Given as a guard."""


def middle_of(membership: Map, grid: Grid) -> tuple[float, float]:
    """Direction of the middle of a part of the map; `membership`: weights of its elements."""
    moments = cv2.moments(membership)
    mass = moments["m00"] + _TINY
    (x_scale, _, x), (_, y_scale, y), _ = grid.to_map.tolist()
    return (moments["m10"] / mass - x) / x_scale, (moments["m01"] / mass - y) / y_scale


def size_error(log_size: float, warp: Matrix, covariance: Matrix, middle: tuple[float, float]) -> float:
    """Standard deviation of the logarithm of the size as a measure of the distance.

    `log_size`: of the image over that at the keyframe, on the optical axis; `warp`: from the image to the
    keyframe, with the `covariance` of its parameters; `middle`: direction of the part.
    """
    x, y = middle
    right, down, depth = warp.dot([x, y, 1.0]).tolist()
    # The solid angle does not depend on where the camera looks.
    nearer = (right**2 + down**2 + depth**2) / (x**2 + y**2 + 1)
    solid = 0.5 * math.log(max(cv2.determinant(warp) * nearer**-1.5, 1e-3))
    shift = (right / depth - x) ** 2 + (down / depth - y) ** 2
    stretch, shear = parameters_of(warp)[STRETCH : STRETCH + 2]
    noise = float(covariance[STRETCH, STRETCH] + covariance[STRETCH + 1, STRETCH + 1]) / 2
    # Without the expectation, the stretch is larger by 1 / told, and so is its variance.
    told = max(1 - noise / EXPECTED_VARIANCE, LEAST_TOLD)
    by_slant = PART_SLANT_SIGMA**2 / 4 * shift
    others = EXPECTED_VARIANCE + noise / told
    share = by_slant / (by_slant + others)
    # The course may have any direction, along which the mean square is half of the square.
    along = (share / told) ** 2 * (stretch**2 + shear**2) / 2 + share * others
    return math.hypot(solid - log_size, 3 * math.sqrt(along))
