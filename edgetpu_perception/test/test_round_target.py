from __future__ import annotations

import numpy as np
import pytest

from edgetpu_perception.spot_tracker.round_target import MAX_ROUND_CONFIDENCE, find_round_target

Y, X = np.mgrid[:64, :64]


def disc(x: float, y: float, radius: float) -> np.ndarray:
    return np.where((X - x) ** 2 + (Y - y) ** 2 <= radius**2, 255, 0).astype(np.uint8)


def test_a_whole_disc_is_found_with_the_largest_confidence() -> None:
    target = find_round_target(disc(30.3, 25.8, 9.4))
    assert (target.x, target.y) == pytest.approx((30.3, 25.8), abs=0.15)
    assert target.confidence == pytest.approx(MAX_ROUND_CONFIDENCE)


@pytest.mark.parametrize("sky", [14, 18])
def test_a_disc_that_touches_a_sky_of_its_colour_is_found_by_its_arc(sky: int) -> None:
    merged = np.where(sky > Y, 255, disc(40.2, 20.7, 11.0)).astype(np.uint8)
    target = find_round_target(merged)
    assert (target.x, target.y) == pytest.approx((40.2, 20.7), abs=0.3)
    assert 0.0 < target.confidence < MAX_ROUND_CONFIDENCE


def test_a_disc_cut_by_the_border_is_found_by_its_arc() -> None:
    target = find_round_target(disc(2.0, 30.4, 10.0))
    assert (target.x, target.y) == pytest.approx((2.0, 30.4), abs=0.5)
    assert target.x_sigma > target.y_sigma


def test_sigmas_cover_68_percent_of_errors() -> None:
    random, ratios = np.random.default_rng(5), []
    for _ in range(100):
        radius = random.uniform(6, 13)
        x, y = random.uniform(radius, 63 - radius, 2)
        wall = x + random.uniform(-0.95, -0.3) * radius
        merged = np.where(wall > X, 255, disc(x, y, radius)).astype(np.uint8)
        target = find_round_target(merged)
        if target is not None and target.confidence > 0:
            ratios += [abs(target.x - x) / target.x_sigma, abs(target.y - y) / target.y_sigma]
    assert len(ratios) > 160
    # More than two thirds: a straight wall leaves a cleaner outline than the photographs of `accuracy`.
    assert 0.60 <= np.mean(np.array(ratios) < 1) <= 0.85


@pytest.mark.parametrize("flat", [np.zeros_like(X), np.full_like(X, 255), (X < 32) * 255, (X % 16 < 5) * 255])
def test_shapes_without_an_arc_have_no_confidence(flat: np.ndarray) -> None:
    target = find_round_target(flat.astype(np.uint8))
    assert target is None or target.confidence == 0.0
