"""Rows of numbers from standard messages."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from edgetpu_dashboard.live.message_numbers import (
    MOST_NUMBERS,
    SIGNAL_TYPES,
    meaning_of,
    new_curves,
    numbers_of,
    stamp_of,
)

TWIST = SimpleNamespace(linear=SimpleNamespace(x=0.5), angular=SimpleNamespace(z=-1.0))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("geometry_msgs/msg/Twist", TWIST),
        ("geometry_msgs/msg/TwistStamped", SimpleNamespace(twist=TWIST)),
        ("nav_msgs/msg/Odometry", SimpleNamespace(twist=SimpleNamespace(twist=TWIST))),
    ],
)
def test_velocities_are_speed_and_turn_rate(kind: str, message: Any) -> None:
    assert kind in SIGNAL_TYPES
    assert numbers_of(kind, message) == {"linear.x": 0.5, "angular.z": -1.0}


def test_a_number_is_itself_and_an_array_its_first_numbers() -> None:
    assert numbers_of("std_msgs/msg/Float64", SimpleNamespace(data=2.0)) == {"data": 2.0}
    row = numbers_of("std_msgs/msg/Float64MultiArray", SimpleNamespace(data=[1.0] * 100))
    assert row == {f"data[{n}]": 1.0 for n in range(MOST_NUMBERS)}


def test_a_velocity_that_has_not_come_is_known_to_be_one() -> None:
    assert new_curves("geometry_msgs/msg/Twist").by_field.keys() == {"linear.x", "angular.z"}
    assert new_curves("std_msgs/msg/Float64MultiArray").by_field == {}


def test_velocities_have_units_and_other_numbers_none() -> None:
    assert meaning_of("linear.x") == ("speed", "m/s")
    assert meaning_of("data[0]") == ("", "")


def test_the_time_of_a_message_is_its_stamp_if_it_has_one() -> None:
    stamped = SimpleNamespace(header=SimpleNamespace(stamp=SimpleNamespace(sec=7, nanosec=500_000_000)))
    assert stamp_of(stamped) == 7.5
    assert math.isnan(stamp_of(TWIST))
    stamped.header.stamp = SimpleNamespace(sec=0, nanosec=0)
    assert math.isnan(stamp_of(stamped))
