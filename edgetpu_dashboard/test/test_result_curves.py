"""Curves of the last minute, and the rate and latency of a node."""

from __future__ import annotations

import math

import pytest

from edgetpu_dashboard.live.result_curves import Curve, Point, ResultCurves


def points(curve: Curve, now: float) -> list[tuple[float, float | None, float]]:
    """Time, value and standard deviation of each point."""
    return [(each.time, each.value, each.sigma) for each in curve.points(now)]


def test_a_curve_has_the_times_of_its_values() -> None:
    curve = Curve()
    curve.add(100.0, 1.0, 0.1)
    curve.add(101.0, 2.0, 0.2)
    assert curve.points(102.0) == [Point(500, 100.0, 1.0, 0.1), Point(505, 101.0, 2.0, 0.2)]


def test_what_is_older_than_the_window_is_forgotten() -> None:
    curve = Curve(window=10.0)
    curve.add(0.0, 1.0)
    curve.add(11.0, 2.0)
    assert points(curve, 12.0) == [(11.0, 2.0, 0.0)]
    assert points(curve, 22.0) == []


def test_points_are_joined_to_as_many_as_are_shown() -> None:
    curve = Curve(window=10.0, most=20)
    for step in range(1000):
        curve.add(step * 0.01, float(step % 2), 0.1 + 0.001 * step)
    joined = curve.points(10.0)
    assert len(joined) == 20
    assert [point.value for point in joined] == pytest.approx([0.5] * 20)
    assert joined[0].sigma == pytest.approx(0.1 + 0.049)  # the largest sigma of its part


def test_a_point_that_has_changed_replaces_the_earlier_one() -> None:
    curve = Curve(window=10.0, most=20)
    curve.add(0.0, 1.0)
    curve.add(0.5, 2.0)
    assert curve.points(1.0, curve.count) == []
    before = curve.count
    curve.add(0.9, 4.0)
    curve.add(1.0, 5.0)
    assert curve.points(1.0, before) == [Point(1, 0.9, 3.0, 0.0), Point(2, 1.0, 5.0, 0.0)]


def test_a_value_that_was_not_measured_is_a_gap() -> None:
    curve = Curve()
    curve.add(0.0, math.nan, math.nan)
    assert points(curve, 1.0) == [(0.0, None, 0.0)]


def test_values_of_results_that_are_not_valid_are_gaps() -> None:
    curves = ResultCurves({"x": "x_sigma"})
    curves.add(0.0, {"valid": False, "x": 3.0, "x_sigma": 0.1}, 0.01)
    curves.add(1.0, {"valid": True, "x": 4.0, "x_sigma": 0.1}, 0.01)
    assert points(curves.by_field["x"], 1.0) == [(0.0, None, 0.0), (1.0, 4.0, 0.1)]
    assert curves.last == {"valid": True, "x": 4.0, "x_sigma": 0.1}


def test_rate_latency_and_gap_are_those_of_the_last_seconds() -> None:
    curves = ResultCurves({})
    for step in range(200):
        curves.add(0.1 * step, {}, 0.02 if step % 2 else 0.04)
    curves.add(20.4, {}, 0.02)
    pace = curves.pace(20.4)
    assert pace.rate == pytest.approx(45 / 4.9, rel=0.01)
    assert pace.latency == pytest.approx(0.02)
    assert pace.gap == pytest.approx(0.5)


def test_results_that_come_at_once_after_a_stall_do_not_raise_the_rate() -> None:
    curves = ResultCurves({})
    curves.add(0.0, {}, 0.01)
    for step in range(12):
        curves.add(6.0 + 0.01 * step, {}, 0.01)
    pace = curves.pace(6.2)
    assert pace.rate == pytest.approx(12 / 6.11)
    assert pace.gap == pytest.approx(6.0)


def test_the_time_before_a_node_was_started_again_does_not_count() -> None:
    curves = ResultCurves({})
    curves.add(0.0, {}, 0.01)
    for step in range(11):
        curves.add(60.0 + 0.1 * step, {}, 0.01)
    assert curves.pace(61.0).rate == pytest.approx(10.0)


def test_a_node_that_has_stopped_has_no_rate() -> None:
    curves = ResultCurves({})
    curves.add(0.0, {}, 0.01)
    curves.add(0.1, {}, 0.01)
    pace = curves.pace(10.0)
    assert pace.rate == 0.0
    assert math.isnan(pace.latency)


def test_a_log_without_a_list_of_fields_keeps_all_that_come() -> None:
    curves = ResultCurves()
    curves.add(0.0, {"speed": 1.0}, math.nan)
    curves.add(1.0, {"speed": 2.0, "turn": 3.0}, math.nan)
    assert points(curves.by_field["speed"], 1.0) == [(0.0, 1.0, 0.0), (1.0, 2.0, 0.0)]
    assert points(curves.by_field["turn"], 1.0) == [(1.0, 3.0, 0.0)]
    assert math.isnan(curves.pace(1.0).latency)
