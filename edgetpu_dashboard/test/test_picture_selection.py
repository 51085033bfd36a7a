"""Boxes and colours that are selected in a picture of the page."""

from __future__ import annotations

import numpy as np
import pytest

from edgetpu_dashboard.live.picture_selection import box_of, color_at, is_grey, spot_weights
from edgetpu_driver.errors import InputError

RED = (200, 10, 20)


@pytest.mark.parametrize(
    ("corners", "box"),
    [
        ((0.1, 0.2, 0.5, 0.6), (20, 20, 80, 40)),
        ((0.5, 0.6, 0.1, 0.2), (20, 20, 80, 40)),
        ((0.9, 0.9, 1.5, 1.5), (180, 90, 20, 10)),
    ],
)
def test_a_box_is_the_same_from_every_corner_and_ends_at_the_edge(
    corners: tuple[float, float, float, float], box: tuple[int, int, int, int]
) -> None:
    assert box_of(corners, 200, 100) == box


def test_a_box_of_no_size_is_refused() -> None:
    with pytest.raises(InputError, match="expected a box of at least 2 x 2 px; got 0 x 10"):
        box_of((0.5, 0.5, 0.5, 0.6), 200, 100)


@pytest.mark.parametrize(
    ("rgb", "weights"),
    [
        ((255, 0, 0), [170.0, -85.0, -85.0]),  # as the preset red, in other units
        ((240, 240, 0), [80.0, 80.0, -160.0]),
        ((180, 140, 130), [30.0, -10.0, -20.0]),
        ((19, 10, 10), [6.0, -3.0, -3.0]),
    ],
)
def test_a_spot_is_distinguished_by_what_its_colour_has_more_than_grey(
    rgb: tuple[int, int, int], weights: list[float]
) -> None:
    assert spot_weights(rgb) == weights


@pytest.mark.parametrize(
    "rgb", [(0, 0, 0), (20, 20, 20), (240, 230, 216), (3, 1, 2), (20, 17, 18), (8, 8, 9), (18, 10, 10)]
)
def test_a_grey_spot_is_distinguished_by_its_brightness(rgb: tuple[int, int, int]) -> None:
    assert is_grey(rgb)
    assert spot_weights(rgb) == [1.0, 1.0, 1.0]


def test_the_colour_of_a_spot_is_the_median_around_it() -> None:
    picture = np.full((20, 40, 3), RED, np.uint8)
    picture[:, 20:] = (0, 90, 0)
    picture[10, 10] = (255, 255, 255)
    assert color_at(picture, 0.25, 0.5) == RED
    assert color_at(picture, 1.0, 1.0) == (0, 90, 0)
    assert color_at(np.full((20, 40), 7, np.uint8), 0.0, 0.0) == (7, 7, 7)
