from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_perception.visual_compass.moving_objects.point_agreement import PointAgreement

POINTS = 100


def agreement(view: NDArray[np.float32], in_view: int = POINTS) -> PointAgreement:
    """A key with texture at every point, of which the first ones are in view."""
    used = (np.arange(POINTS) < in_view).astype(np.float32)
    nothing = np.zeros((1, POINTS), np.float32)
    return PointAgreement(texture(0), view, nothing, used, 0.1)


def texture(seed: int) -> NDArray[np.float32]:
    levels = np.random.default_rng(seed).choice([-20.0, 20.0], (1, POINTS))
    return levels.astype(np.float32)


def test_equal_views_agree_everywhere() -> None:
    similarity, following, support = agreement(texture(0)).measure()
    assert (similarity, following) == pytest.approx((1.0, 1.0))
    assert support == pytest.approx(POINTS, rel=0.01)


def test_points_out_of_view_support_nothing() -> None:
    similarity, following, support = agreement(texture(0), in_view=30).measure()
    assert (similarity, following) == pytest.approx((1.0, 1.0))
    assert support == pytest.approx(30, rel=0.01)


def test_half_of_the_picture_supports_more_than_all_of_a_small_overlap() -> None:
    half = np.where(np.arange(POINTS) < 50, texture(0), texture(1))
    assert agreement(half).measure()[2] > agreement(texture(0), in_view=30).measure()[2]


def test_a_view_without_texture_does_not_agree() -> None:
    assert agreement(np.zeros((1, POINTS), np.float32)).measure() == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(("deviations", "moves"), [(2.0, False), (4.0, True)])
def test_in_noise_a_point_moves_by_itself_beyond_three_deviations(deviations: float, moves: bool) -> None:
    noise, everywhere = 2.0, np.ones(POINTS, np.float32)
    nothing = np.zeros((1, POINTS), np.float32)
    view = texture(0) + np.float32(deviations * noise)
    moving, all_texture = PointAgreement(texture(0), view, nothing, everywhere, noise).moving(everywhere)
    assert moving == pytest.approx(all_texture if moves else np.zeros(POINTS))
