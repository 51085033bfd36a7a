from __future__ import annotations

import math

from edgetpu_perception.time_to_contact.contact_time import contact_time, share_left


def test_contact_is_the_inverse_of_the_growth_rate() -> None:
    assert contact_time(0.5, 0.125) == (2.0, 0.5)


def test_there_is_no_contact_unless_the_rate_is_above_its_uncertainty() -> None:
    for rate in (0.125, 0.0, -0.5):
        assert contact_time(rate, 0.125) == (math.inf, math.inf)


def test_time_passes_until_a_fifth_is_left() -> None:
    assert [share_left(0.5, seconds) for seconds in (0.0, 0.5, 1.0, 5.0)] == [1.0, 0.75, 0.5, 0.2]
