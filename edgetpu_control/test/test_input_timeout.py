from __future__ import annotations

import math

from edgetpu_control.input_timeout import is_far_ahead, is_old, is_recent

NOW, TIMEOUT = 10.0, 0.5
STAMPS = (-math.inf, 9.0, 9.5, 10.0, 10.5, 11.0)


def test_an_input_is_recent_for_as_long_as_the_timeout() -> None:
    assert [is_recent(stamp, NOW, TIMEOUT) for stamp in STAMPS] == [False, False, True, True, False, False]


def test_an_input_of_the_future_is_not_old() -> None:
    assert [is_old(stamp, NOW, TIMEOUT) for stamp in STAMPS] == [True, True, False, False, False, False]


def test_a_stamp_without_a_time_is_old() -> None:
    assert is_old(math.nan, NOW, TIMEOUT)
    assert not is_recent(math.nan, NOW, TIMEOUT)


def test_an_input_may_be_ahead_by_as_much_as_the_timeout() -> None:
    assert [is_far_ahead(stamp, NOW, TIMEOUT) for stamp in STAMPS] == [False] * 5 + [True]
