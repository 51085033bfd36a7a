"""The error of the rate of approach that lasts as long as a keyframe."""

from __future__ import annotations

import pytest

from edgetpu_perception.time_to_contact.surface import LastingRateError


def after_a_keyframe_of_a_second(*, known: bool) -> LastingRateError:
    """The error at the start of a keyframe after one of 1 s, at whose end it was 0.03/s."""
    error = LastingRateError()
    error.measure(0.03, 1.0)
    error.start_keyframe(known=known)
    return error


def test_of_the_first_keyframe_is_that_of_its_depth_over_its_age() -> None:
    error = LastingRateError()
    error.measure(0.05, 0.2)
    assert error.sigma == pytest.approx(0.25)
    error.measure(0.05, 0.5)
    assert error.sigma == pytest.approx(0.1)


def test_of_a_young_keyframe_is_mostly_that_of_the_last_one() -> None:
    error = after_a_keyframe_of_a_second(known=True)
    error.measure(0.05, 0.2)
    assert error.sigma == pytest.approx((0.024**2 + 0.05**2) ** 0.5)


def test_of_a_keyframe_as_old_as_the_last_one_is_its_own() -> None:
    error = after_a_keyframe_of_a_second(known=True)
    error.measure(0.05, 1.0)
    assert error.sigma == pytest.approx(0.05)


def test_of_a_rate_that_was_not_known_is_that_of_the_new_keyframe() -> None:
    error = after_a_keyframe_of_a_second(known=False)
    error.measure(0.05, 0.2)
    assert error.sigma == pytest.approx(0.25)
