"""Observations from several topics: where their numbers come from, and how old they may be."""

from __future__ import annotations

import numpy as np
import pytest

from edgetpu_control.observation import ObservationBuffer, ObservedFields, parse_fields
from edgetpu_driver.errors import InputError


def test_a_source_is_a_topic_a_type_and_fields() -> None:
    found = parse_fields("odom nav_msgs/msg/Odometry twist.twist.linear.x, twist.twist.angular.z")
    assert found == ObservedFields(
        "odom", "nav_msgs/msg/Odometry", "twist.twist.linear.x,twist.twist.angular.z"
    )


@pytest.mark.parametrize("text", ["", "odom", "odom nav_msgs/msg/Odometry"])
def test_a_source_without_fields_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="expected a topic, a type and fields"):
        parse_fields(text)


@pytest.fixture
def buffer() -> ObservationBuffer:
    """Of two sources, the first of which was heard at 1 s."""
    buffer = ObservationBuffer(2, timeout=0.25)
    buffer.put(0, np.array([1.0, 2.0]), 1.0)
    return buffer


def test_an_observation_waits_for_every_source(buffer: ObservationBuffer) -> None:
    assert buffer.observation(1.0) is None
    assert buffer.missing(1.0) == [1]


def test_an_observation_has_its_sources_in_order(buffer: ObservationBuffer) -> None:
    buffer.put(1, np.array([3.0]), 1.1)
    found = buffer.observation(1.25)
    assert found is not None
    assert found.tolist() == [1.0, 2.0, 3.0]


def test_an_old_source_ends_observations(buffer: ObservationBuffer) -> None:
    buffer.put(1, np.array([3.0]), 1.2)
    assert buffer.observation(1.3) is None
    assert buffer.missing(1.3) == [0]


def test_a_clock_that_was_set_back_ends_observations(buffer: ObservationBuffer) -> None:
    buffer.put(1, np.array([3.0]), 1.0)
    assert buffer.observation(0.5) is None


def test_numbers_that_are_not_finite_are_refused(buffer: ObservationBuffer) -> None:
    with pytest.raises(InputError, match="expected finite numbers"):
        buffer.put(1, np.array([np.nan]), 1.0)
