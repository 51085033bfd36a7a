"""Circles through the points of an outline."""

from __future__ import annotations

import math

import numpy as np
import pytest

from edgetpu_perception.spot_tracker.circle_fit import Outline, fit_circle

DISTANCES = (2.0, 1.0, 0.7)


def arc(share: float, radius: float = 10.0) -> Outline:
    """Points 0.5 cells apart on a share of a circle around (30, 20)."""
    angles = np.arange(0.0, share * 2 * math.pi, 0.5 / radius)
    x, y = np.cos(angles), np.sin(angles)
    return Outline(np.stack([30 + radius * x, 20 + radius * y, x, y, np.ones(len(angles))]))


def test_a_circle_is_fitted_from_one_nearby() -> None:
    circle = fit_circle(arc(0.7), (30.8, 19.5, 9.3), DISTANCES)
    assert (circle.x, circle.y, circle.radius) == pytest.approx((30.0, 20.0, 10.0))


def test_points_far_from_the_circle_do_not_count() -> None:
    values = arc(0.9).values
    values[:2, ::5] += 5.0
    circle = fit_circle(Outline(values), (30.3, 19.8, 10.2), DISTANCES)
    assert (circle.x, circle.y, circle.radius) == pytest.approx((30.0, 20.0, 10.0))


@pytest.mark.parametrize(("least_share", "is_fitted"), [(0.2, True), (0.6, False)])
def test_an_arc_must_have_points_for_its_least_share(least_share: float, is_fitted: bool) -> None:
    values = arc(0.5).values[:, ::3]  # 21 points, 1.5 cells apart
    assert (fit_circle(Outline(values), (30.0, 20.0, 10.0), DISTANCES, least_share) is not None) == is_fitted


def test_points_on_a_line_through_the_centre_make_no_circle() -> None:
    x = np.linspace(0.0, 20.0, 30)
    line = Outline(np.stack([30 + x, np.full(30, 20.0), np.ones(30), np.zeros(30), np.ones(30)]))
    assert fit_circle(line, (30.0, 20.0, 10.0), (15.0,)) is None
