"""Error of the distance to a part of the image whose slant is unknown."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_perception.time_to_contact.homography_alignment import (
    PARAMETERS,
    STRETCH,
    Grid,
    Matrix,
    warp_of,
)
from edgetpu_perception.time_to_contact.part_slant import (
    EXPECTED_VARIANCE,
    PART_SLANT_SIGMA,
    middle_of,
    size_error,
)
from edgetpu_perception.time_to_contact.surface import APPROACH_SIGMAS

EXACT = np.zeros((PARAMETERS, PARAMETERS))
"""Covariance of a warp without noise."""

UNTOLD = np.diag([EXPECTED_VARIANCE if k in (STRETCH, STRETCH + 1) else 0.0 for k in range(PARAMETERS)])
"""Covariance of a warp whose stretch was not measured but only expected."""


def between_views(normal: tuple[float, float, float], motion: tuple[float, float, float]) -> Matrix:
    """The warp of a plane; `normal`: over its distance; `motion`: from the keyframe to the image."""
    warp: Matrix = np.eye(3) + np.outer(motion, normal)
    return warp


def log_size(warp: Matrix) -> float:
    (a, b), (c, d) = (warp[:2, :2] / warp[2, 2]).tolist()
    return 0.5 * math.log(a * d - b * c)


def log_solid_angle(warp: Matrix, y: float) -> float:
    """Half the logarithm by which the solid angle of a part at (0, y) changes."""
    moved, before = (float(np.linalg.norm(each)) for each in (warp @ [0.0, y, 1.0], (y, 1.0)))
    return 0.5 * math.log(float(np.linalg.det(warp)) * (before / moved) ** 3)


def seen_by_part(warp: Matrix, y: float) -> Matrix:
    """What an alignment of a small part at (0, y) finds if it expects no tilt: the affine warp there."""
    (a, b, right), (c, d, down), (g, h, i) = warp.tolist()
    depth = h * y + i
    right, down = (b * y + right) / depth, (d * y + down) / depth
    slopes = np.array([[a - right * g, b - right * h], [c - down * g, d - down * h]]) / depth
    found = np.eye(3)
    found[:2, :2] = slopes
    found[:2, 2] = np.array([right, down]) - slopes @ [0.0, y]
    return found


def test_the_middle_of_a_part_is_that_of_its_elements() -> None:
    membership: NDArray[np.float32] = np.zeros((6, 8), np.float32)
    membership[1:3, 4:7] = 1.0
    grid = Grid(6, 8, (10.0, 20.0), (3.5, 2.5))
    assert middle_of(membership, grid) == pytest.approx((0.15, -0.05))


def test_a_part_that_does_not_shift_has_no_error() -> None:
    warp = warp_of([0, 0, -0.1, 0, 0, 0, 0, 0])
    assert size_error(log_size(warp), warp, UNTOLD, (0.0, 0.0)) == pytest.approx(0.0, abs=1e-6)


def test_a_part_that_shifts_may_have_any_slant_unless_its_stretch_is_measured() -> None:
    warp = warp_of([0.03, 0.04, 0, 0, 0, 0, 0, 0])
    unknown = size_error(0.0, warp, UNTOLD, (0.0, 0.0))
    known = size_error(0.0, warp, EXACT, (0.0, 0.0))
    assert unknown == pytest.approx(3 * PART_SLANT_SIGMA / 2 * 0.05, rel=0.1)
    assert known == pytest.approx(3 * math.sqrt(EXPECTED_VARIANCE), rel=0.1)


@pytest.mark.parametrize("stretch", [(0.1, 0.0), (0.0, 0.1), (0.06, -0.08)])
def test_the_error_is_three_times_the_measured_stretch_along_any_course(
    stretch: tuple[float, float],
) -> None:
    warp = warp_of([0.4, 0, 0, 0, *stretch, 0, 0])
    found = size_error(log_solid_angle(warp, 0.0), warp, EXACT, (0.0, 0.0))
    unevenness = 3 * math.sqrt(EXPECTED_VARIANCE)
    assert found == pytest.approx(math.hypot(3 * 0.1 / math.sqrt(2), unevenness), rel=0.01)


@pytest.mark.parametrize("depression", [0.2, 0.4, 0.6])
@pytest.mark.parametrize("tilt_is_found", [False, True])
def test_growth_of_ground_beneath_level_motion_is_within_its_error(
    depression: float, tilt_is_found: bool
) -> None:
    warp = between_views((0.0, 1.0, 0.0), (0.0, 0.0, 0.2))
    found = warp if tilt_is_found else seen_by_part(warp, depression)
    grown = -log_size(found)
    assert grown == pytest.approx(0.0 if tilt_is_found else 1.5 * 0.2 * depression, rel=0.15)
    assert grown < APPROACH_SIGMAS * size_error(-grown, found, EXACT, (0.0, depression))


def test_growth_of_an_upright_surface_ahead_is_far_beyond_its_error() -> None:
    warp = between_views((0.0, 0.0, 1.0), (0.0, 0.01, 0.2))
    found = warp / warp[2, 2]
    grown = -log_size(found)
    assert grown == pytest.approx(math.log(1.2))
    assert size_error(-grown, found, EXACT, (0.0, 0.2)) < 0.2 * grown


def test_what_the_growth_on_the_axis_owes_to_the_tilt_counts_as_error() -> None:
    """A part above the axis that hardly moves, aligned with the tilt of ground below."""
    warp = warp_of([0, -0.04, -0.2, 0, 0, 0, 0, -0.3])
    size, solid = log_size(warp), log_solid_angle(warp, -0.45)
    assert abs(solid - size) > 0.5 * abs(size)
    assert size_error(size, warp, EXACT, (0.0, -0.45)) >= abs(solid - size)


def test_the_scale_of_a_warp_does_not_matter() -> None:
    warp = warp_of([0.1, 0, 0, 0, 0.05, 0.02, 0, 0])
    sizes = (size_error(0.0, each, EXACT, (0.1, 0.2)) for each in (warp, 3 * warp))
    assert next(sizes) == pytest.approx(next(sizes))
