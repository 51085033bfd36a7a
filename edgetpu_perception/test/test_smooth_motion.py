"""Motion that changes along the picture, found from the normal equations of its neighbourhoods."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_perception.optical_flow.followed_part import PartFinder
from edgetpu_perception.optical_flow.motion_field import MotionField, remove
from edgetpu_perception.optical_flow.normal_equations import NormalEquations
from edgetpu_perception.optical_flow.smooth_motion import smooth_motion
from testdata.kept_memory import FRAMES, kept_below

# dx by 1, x, y, x^2, xy; dy by 1, x, y, xy, y^2; positions in cells.
ROLL_AND_GROWTH = np.array([[0.3, 0.01, -0.02, 0.0, 0.0], [0.0, 0.02, 0.01, 0.0, 0.0]])
SLANT = np.array([[0.3, 0.0, 0.015, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0]])
TURN = np.array([[0.3, 0.0, 0.0, 0.0005, 0.0002], [0.1, 0.0, 0.0, 0.0005, 0.0002]])
YAW = np.array([[0.3, 0.0, 0.0, 0.0005, 0.0], [0.0, 0.0, 0.0, 0.0005, 0.0]])

STILL = np.zeros((2, 5))


def field(coefficients: NDArray[np.float64], not_following: float = 0.0) -> MotionField:
    """A motion that is known exactly, measured all over 48x48 cells."""
    means = np.array([[1.0, 0.0, 0.0, 192.0, 0.0], [1.0, 0.0, 0.0, 0.0, 192.0]])
    return MotionField(1.0, coefficients, np.zeros((2, 5, 5)), means, not_following)


def equations(motion: NDArray[np.float64]) -> NDArray[np.float32]:
    """Equations of a channel of 48x48 cells that moves so: float32 [4, 1, 48, 48]."""
    array = np.zeros((4, 1, 48, 48), np.float32)
    array[:2] = np.random.default_rng(5).normal(0, 1, (2, 1, 48, 48))
    for term, along in zip(array[:2], field(motion).along(48, 48), strict=True):
        array[3] += along * term
    return array


def test_a_field_is_the_motion_of_each_cell() -> None:
    dx, dy = field(TURN).along(48, 48)
    x, y = 23.5, -23.5  # the upper right corner
    assert dx[0, 47] == pytest.approx(0.3 + 0.0005 * x * x + 0.0002 * x * y)
    assert dy[0, 47] == pytest.approx(0.1 + 0.0005 * x * y + 0.0002 * y * y)


@pytest.mark.parametrize("motion", [ROLL_AND_GROWTH, -ROLL_AND_GROWTH, SLANT, TURN, -TURN])
def test_a_smooth_motion_is_found(motion: NDArray[np.float64]) -> None:
    found = smooth_motion(NormalEquations(equations(motion)), common=0.01)
    assert found.field().along(48, 48) == pytest.approx(field(motion).along(48, 48), abs=0.05)
    assert found.followers == pytest.approx(np.ones(64), abs=1e-2)


def test_what_it_explains_is_removed_but_for_a_shift() -> None:
    array = equations(TURN)
    remove(array, field(TURN), np.array([0.3, 0.0]))
    assert array[3] == pytest.approx(0.3 * array[0], abs=1e-5)


def test_a_part_that_moves_does_not_follow_it() -> None:
    array = equations(STILL)
    array[3, :, :, 30:] = 0.8 * array[0, :, :, 30:]
    assert smooth_motion(NormalEquations(array), common=0.01).followers.mean() < 0.75


def test_the_median_of_a_linear_motion_is_that_of_the_middle() -> None:
    median, variance = field(ROLL_AND_GROWTH).median(48, 64)
    assert median == pytest.approx((0.3, 0.0), abs=1e-9)
    assert variance == pytest.approx((0.0, 0.0), abs=1e-9)


def test_the_median_of_a_turn_is_that_of_half_of_the_picture() -> None:
    # Half of the columns are nearer to the middle than a quarter of the width.
    median, _ = field(YAW).median(48, 64)
    assert median == pytest.approx((0.3 + 0.0005 * 16**2, 0.0), abs=1e-3)


def test_the_median_is_in_doubt_by_what_moves_otherwise() -> None:
    # dx is uniform from -0.48 to 0.48; a tenth of the picture moves it to a twentieth of that to either side.
    growth = np.array([[0.0, 0.015, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0]])
    _, (dx, dy) = field(growth, not_following=0.1).median(48, 64)
    assert dx == pytest.approx((0.1 * 0.96) ** 2 / 12, rel=0.05)
    assert dy == 0.0


def test_the_median_is_in_doubt_by_a_change_that_is_not_certain() -> None:
    covariances = np.zeros((2, 5, 5))
    covariances[0, 3, 3] = 1e-8
    _, (dx, dy) = replace(field(YAW), covariances=covariances).median(48, 64)
    # x^2 is 259 on average in the fifth of the places next to the median, and 192 where it was measured.
    assert dx == pytest.approx((259.4 - 192.0) ** 2 * 1e-8, rel=0.02)
    assert dy == 0.0


def test_a_picture_that_all_moves_otherwise_has_a_median() -> None:
    _, variance = field(TURN, not_following=1.0).median(48, 64)
    assert np.isfinite(variance).all()


def test_the_part_that_is_followed_moves_by_the_median_of_a_turn() -> None:
    part = PartFinder(0.01, 0.0, 60, 60, 6).find(equations(YAW), of_most=False)
    assert part.step[:2] == pytest.approx((0.3 + 0.0005 * 15**2, 0.0), abs=0.005)
    assert min(part.doubt) > 0.0


@pytest.mark.parametrize(("times", "corner"), [(1, 0), (1, 20), (2, 10)])
def test_a_turn_is_seen_past_an_object_that_moves_by_itself(times: int, corner: int) -> None:
    array = equations(times * YAW)
    covered = array[3, 0, corner : corner + 28, corner : corner + 28]
    covered[:] = np.random.default_rng(7).normal(0, 0.5, covered.shape)
    part = PartFinder(0.01, 0.0, 60, 60, 6).find(array, of_most=False)
    assert part.step[:2] == pytest.approx((times * (0.3 + 0.0005 * 15**2), 0.0), abs=0.02)


def test_noise_makes_no_turn_of_a_shift() -> None:
    array = equations(np.array([[0.3, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0]]))
    array[3] += np.random.default_rng(6).normal(0, 0.3, (1, 48, 48))
    found = smooth_motion(NormalEquations(array), common=10.0).field()
    assert found.coefficients[0, 3:] == pytest.approx((0.0, 0.0), abs=0.01)


def test_frames_without_texture_have_no_motion() -> None:
    found = smooth_motion(NormalEquations(np.zeros((4, 1, 48, 48), np.float32)), common=1.0)
    assert found.field().coefficients == pytest.approx(STILL)


def test_overlaps_of_every_size_keep_no_memory_for_each() -> None:
    rng = np.random.default_rng(0)
    tracemalloc.start(FRAMES)
    try:
        for rows in range(14, 33):
            for columns in range(14, 33):
                smooth_motion(NormalEquations(rng.standard_normal((4, 1, rows, columns), np.float32)), 1.0)
        kept = kept_below(__file__)
    finally:
        tracemalloc.stop()
    assert kept < 300_000  # the places of all 361 have 1.4 MB
