"""Keys that were seen before: each is new once, and no more than a fixed number are kept."""

from __future__ import annotations

from edgetpu_driver.recent_keys import RecentKeys


def test_a_key_is_new_once() -> None:
    keys = RecentKeys[str](2)
    assert [keys.add(each) for each in ("a", "b", "a", "b")] == [True, True, False, False]


def test_the_key_that_was_added_longest_ago_is_forgotten_first() -> None:
    keys = RecentKeys[str](2)
    for each in ("a", "b", "a", "c"):
        keys.add(each)
    assert list(keys) == ["a", "c"]
    assert "b" not in keys


def test_no_more_keys_are_kept_than_the_limit() -> None:
    keys = RecentKeys[int](100)
    assert all(keys.add(each) for each in range(1000))
    assert len(keys) == 100
