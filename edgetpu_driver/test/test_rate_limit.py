from __future__ import annotations

from edgetpu_driver.node_kit.images.rate_limit import RateLimit


def taken(stamps: list[float], limit: float) -> list[float]:
    """The stamps of the images that are not skipped."""
    rate_limit = RateLimit()
    return [stamp for stamp in stamps if not rate_limit.skips(stamp, limit)]


def test_images_are_skipped_until_the_next_one_is_due() -> None:
    assert taken([1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6], 5.0) == [1.0, 1.2, 1.4, 1.6]


def test_a_camera_at_exactly_the_limit_may_have_jitter() -> None:
    stamps = [1.0, 1.1, 1.196, 1.3, 1.396]
    assert taken(stamps, 10.0) == stamps


def test_without_a_limit_all_images_are_taken() -> None:
    assert taken([1.0, 1.001, 1.002], 0.0) == [1.0, 1.001, 1.002]


def test_images_without_a_stamp_are_taken() -> None:
    assert taken([0.0, 0.0, 1.0, 0.0, 1.01], 1.0) == [0.0, 0.0, 1.0, 0.0]


def test_a_stamp_before_the_last_one_starts_a_new_period() -> None:
    assert taken([100.0, 5.0, 5.5, 6.0], 1.0) == [100.0, 5.0, 6.0]
