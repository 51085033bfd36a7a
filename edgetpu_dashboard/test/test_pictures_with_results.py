"""Results are drawn on the images that they belong to."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from edgetpu_dashboard.live import pictures_with_results
from edgetpu_dashboard.live.pictures_with_results import ImageTap, OverlayTap
from edgetpu_driver.errors import InputError
from edgetpu_driver.images import drawing


def picture(level: int) -> Any:
    return np.full((4, 6, 3), level, np.uint8)


def add(image: Any, result: int) -> Any:
    return image + np.uint8(result)


@pytest.fixture
def tap() -> OverlayTap:
    return OverlayTap(picture, add)


def test_there_is_no_picture_before_the_first_image(tap: OverlayTap) -> None:
    for each in (tap, ImageTap(picture)):
        with pytest.raises(InputError, match="there is no picture yet"):
            each.picture()


@pytest.mark.parametrize("image_first", [True, False])
def test_a_result_is_drawn_on_the_image_of_its_stamp(tap: OverlayTap, image_first: bool) -> None:
    steps = [lambda: tap.put_image((7, 1), 100, 10), lambda: tap.put_result((7, 1), 5)]
    tap.put_image((7, 0), 50, 10)
    for step in steps if image_first else reversed(steps):
        assert tap.number == 0
        step()
    tap.put_image((7, 2), 200, 10)
    assert (tap.number, tap.unmatched) == (1, 0)
    assert np.array_equal(tap.picture().drawn, picture(105))
    assert np.array_equal(tap.picture().image, picture(100))


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_an_image_is_shown_bare_if_its_result_cannot_be_drawn(number: float) -> None:
    tap = OverlayTap(picture, lambda image, result: drawing.crosshair(image.copy(), result, 2.0, (0, 255, 0)))
    tap.put_image((7, 0), 50, 10)
    tap.put_result((7, 0), number)
    assert np.array_equal(tap.picture().drawn, picture(50))


def test_images_are_shown_bare_after_a_while_without_results(tap: OverlayTap) -> None:
    assert pictures_with_results.BARE_AFTER == 2.0
    for second in (5, 6, 7):
        tap.put_image((second, 0), 50, 10)
    assert tap.number == 0
    tap.put_image((8, 0), 60, 10)
    assert tap.number == 1
    assert np.array_equal(tap.picture().drawn, picture(60))
    tap.put_result((8, 0), 5)
    tap.put_image((8, 1), 70, 10)
    assert tap.number == 2
    assert np.array_equal(tap.picture().drawn, picture(65))


def test_results_of_another_camera_are_counted(tap: OverlayTap) -> None:
    tap.put_image((7, 0), 50, 10)
    for number in range(1, 4):
        tap.put_result((9, number), 5)
    assert (tap.number, tap.unmatched) == (0, 3)


def test_images_are_kept_up_to_a_limit(tap: OverlayTap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures_with_results, "KEPT_BYTES", 25)
    for number in range(3):
        tap.put_image((0, number), 50, 10)
    tap.put_result((0, 0), 5)
    assert tap.number == 0
    tap.put_result((0, 1), 5)
    assert tap.number == 1


def test_images_up_to_that_of_the_newest_result_are_not_kept(tap: OverlayTap) -> None:
    for number in range(3):
        tap.put_image((0, number), 50, 10)
    tap.put_result((0, 1), 5)
    assert list(tap._images) == [(0, 2)]
    tap.put_result((0, 0), 5)
    assert tap.number == 1


def test_the_region_of_the_node_is_outlined(tap: OverlayTap) -> None:
    tap.region = (1, 1, 3, 2)
    tap.put_image((7, 0), 50, 10)
    tap.put_result((7, 0), 0)
    shown = tap.picture().drawn
    assert not np.array_equal(shown[1, 1], [50, 50, 50])
    assert np.array_equal(shown[0, 0], [50, 50, 50])
