"""Sizes in words."""

from __future__ import annotations

from edgetpu_dashboard.live.model_sizes import size_in_words


def test_the_size_of_a_model_is_said_in_bytes_or_kilobytes() -> None:
    assert [size_in_words(count) for count in (264, 999, 65536)] == ["264 bytes", "999 bytes", "66 kB"]
