"""White balls with shade: their positions, and objects that are not balls."""

from __future__ import annotations

import math

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_perception import SpotTracker
from edgetpu_perception.spot_tracker.fine_disc import find_fine_disc
from edgetpu_perception.spot_tracker.shaded_disc import find_shaded_disc

ASPECT = 5.0 / 3.75
"""Width over height of a cell of 320x240 px in 64x64 cells."""


def ball(x: float, y: float, radius: float, background: float) -> NDArray[np.float32]:
    """A ball in 320x240 px that is 240 grey levels bright above and 140 below."""
    v, u = np.mgrid[:240, :320].astype(np.float32)
    covered = np.clip(radius - np.hypot(u - x, v - y) + 0.5, 0.0, 1.0)
    shade = 190.0 - 50.0 * np.clip((v - y) / radius, -1.0, 1.0)
    return (background + covered * (shade - background)).astype(np.float32)


def red_ball(x: float, y: float, radius: float, red: float, glare: float) -> NDArray[np.uint8]:
    """A red ball on brown in 320x240 px, RGB; a glare of this width touches it from the lower right."""
    v, u = np.mgrid[:240, :320].astype(np.float32)
    right, down = (u - x) / radius, (v - y) / radius
    out = np.sqrt(np.maximum(1.0 - right**2 - down**2, 0.0))
    shade = 0.6 + 0.4 * np.maximum(0.5 * right - 0.5 * down + 0.7 * out, 0.0)
    covered = np.clip((1.0 - np.hypot(right, down)) * radius + 0.5, 0.0, 1.0)[..., np.newaxis]
    brown = np.array([150.0, 100.0, 80.0])
    picture = brown + covered * (shade[..., np.newaxis] * np.array([red, red / 5, red / 5]) - brown)
    away = 0.7 * (radius + 1.2 * glare)
    light = 300.0 * np.exp(-((u - x - away) ** 2 + (v - y - away) ** 2) / (2 * glare**2))
    return np.clip(picture + light[..., np.newaxis], 0, 255).astype(np.uint8)


@pytest.mark.parametrize(("radius", "red", "glare"), [(25.0, 150.0, 30.0), (20.0, 110.0, 60.0)])
def test_a_ball_of_which_a_glare_hides_the_colour_in_part_is_found_by_its_outline(
    radius: float, red: float, glare: float
) -> None:
    result = SpotTracker(color="red").update(red_ball(97.0, 60.0, radius, red, glare))
    assert math.dist(((result.x + 1) * 159.5, (result.y + 1) * 119.5), (97.0, 60.0)) < 2.0


def in_cells(picture: NDArray[np.float32]) -> NDArray[np.uint8]:
    cells: NDArray[np.uint8] = cv2.resize(picture.astype(np.uint8), (64, 64), interpolation=cv2.INTER_AREA)
    return cells


@pytest.mark.parametrize(
    ("x", "y", "radius"), [(160.0, 120.0, 30.0), (80.3, 60.8, 18.0), (250.0, 150.0, 40.0)]
)
def test_the_center_is_that_of_the_outline_not_of_the_highlight(x: float, y: float, radius: float) -> None:
    disc = find_shaded_disc(in_cells(ball(x, y, radius, 60.0)), ASPECT)
    assert disc is not None
    assert disc.confidence > 0.9
    assert math.dist(((disc.x + 0.5) * 5.0 - 0.5, (disc.y + 0.5) * 3.75 - 0.5), (x, y)) < 1.5


@pytest.mark.parametrize("radius", [16.0, 30.0])
def test_a_disc_with_texture_is_no_ball(radius: float) -> None:
    picture = ball(160.0, 120.0, radius, 60.0)
    texture = cv2.resize(np.random.default_rng(0).normal(0, 25, (48, 64)), (320, 240))
    inside = picture > 100.0
    picture[inside] += texture[inside].astype(np.float32)
    assert find_shaded_disc(in_cells(np.clip(picture, 0, 255)), ASPECT) is None


def test_noise_of_a_camera_is_no_texture() -> None:
    picture = ball(160.0, 120.0, 30.0, 60.0)
    picture += np.random.default_rng(0).normal(0, 8, picture.shape).astype(np.float32)
    disc = find_shaded_disc(in_cells(np.clip(picture, 0, 255)), ASPECT)
    assert disc is not None
    assert disc.confidence == 1.0


def test_a_ball_before_something_as_bright_is_found_by_the_rest_of_its_outline() -> None:
    picture = ball(160.0, 120.0, 30.0, 60.0)
    behind = np.zeros(picture.shape, bool)
    behind[:105] = True
    picture[behind & (picture < 100.0)] = 225.0
    disc = find_shaded_disc(in_cells(picture), ASPECT)
    assert disc is not None
    assert disc.confidence > 0.2
    assert math.dist(((disc.x + 0.5) * 5.0 - 0.5, (disc.y + 0.5) * 3.75 - 0.5), (160.0, 120.0)) < 5.0


@pytest.mark.parametrize(
    ("x", "y", "radius"), [(160.0, 120.0, 30.0), (80.3, 60.8, 18.0), (40.0, 200.0, 36.0)]
)
def test_the_pixels_of_the_camera_place_a_disc_more_exactly(x: float, y: float, radius: float) -> None:
    picture = ball(x, y, radius, 60.0).astype(np.uint8)
    disc = find_fine_disc(in_cells(picture), (5.0, 3.75), lambda: picture, lambda pixels: pixels)
    assert disc is not None
    assert math.dist(((disc.x + 0.5) * 5.0 - 0.5, (disc.y + 0.5) * 3.75 - 0.5), (x, y)) < 0.3


@pytest.mark.parametrize("size", [96, 128])
def test_a_large_ball_is_found_in_a_finer_map_as_well(size: int) -> None:
    picture = ball(240.0, 140.0, 39.0, 60.0).astype(np.uint8)
    cells = cv2.resize(picture, (size, size), interpolation=cv2.INTER_AREA)
    disc = find_fine_disc(cells, (320 / size, 240 / size), lambda: picture, lambda pixels: pixels)
    assert disc is not None
    x, y = (disc.x + 0.5) * 320 / size - 0.5, (disc.y + 0.5) * 240 / size - 0.5
    assert math.dist((x, y), (240.0, 140.0)) < 0.3
    assert disc.radius * 320 / size == pytest.approx(39.0, abs=1.0)


@pytest.mark.parametrize("without_camera", [True, False])
def test_without_finer_pixels_a_disc_stays_where_it_is(without_camera: bool) -> None:
    cells = in_cells(ball(160.0, 120.0, 30.0, 60.0))
    fine = find_fine_disc(cells, (1.0, 1.0), None if without_camera else lambda: cells, lambda pixels: pixels)
    coarse = find_shaded_disc(cells, 1.0)
    assert fine is not None
    assert coarse is not None
    assert (fine.x, fine.y) == pytest.approx((coarse.x, coarse.y))


def test_a_square_is_no_disc() -> None:
    picture = np.full((240, 320), 60.0, np.float32)
    picture[80:160, 100:200] = 220.0
    assert find_shaded_disc(in_cells(picture), ASPECT) is None


def test_a_dark_disc_is_no_disc() -> None:
    assert find_shaded_disc(in_cells(255.0 - ball(160.0, 120.0, 30.0, 60.0)), ASPECT) is None


def test_a_grey_disc_before_white_things_is_not_white() -> None:
    picture = 0.5 * ball(100.0, 120.0, 30.0, 60.0)
    picture[:, 200:] = 250.0
    assert find_shaded_disc(in_cells(picture), ASPECT) is None


def test_of_two_alike_neither_is_certain() -> None:
    picture = np.maximum(ball(80.0, 120.0, 30.0, 60.0), ball(240.0, 120.0, 30.0, 60.0))
    disc = find_shaded_disc(in_cells(picture), ASPECT)
    assert disc is not None
    assert disc.confidence == pytest.approx(0.5)


def test_a_flat_picture_has_no_disc() -> None:
    assert find_shaded_disc(np.full((64, 64), 120, np.uint8), ASPECT) is None
