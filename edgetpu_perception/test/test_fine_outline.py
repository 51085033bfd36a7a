"""Coloured spots, and spots that the border cuts off, placed in the camera's pixels."""

from __future__ import annotations

import math

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_perception import SpotResult, SpotTracker
from edgetpu_perception.spot_tracker.blob import Blob
from edgetpu_perception.spot_tracker.fine_outline import place_by_outline
from edgetpu_perception.spot_tracker.spot_decoder import Spot

pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

COLORS = {"red": (210, 30, 30), "blue": (30, 50, 200), "white": (235, 235, 235), None: (235, 235, 235)}
Size = tuple[int, int]
"""Width and height, px."""


def covered(size: Size, x: float, y: float, radius: float, samples: int) -> NDArray[np.float64]:
    """Share of each px that a disc covers, by so many samples along a side; with one it is 0 or 1."""
    shares = np.zeros(size[::-1])
    left, right, top, bottom = (
        min(max(math.floor(middle + side * (radius + 2)), 0), most)
        for middle, most in ((x, size[0]), (y, size[1]))
        for side in (-1, 1)
    )
    across = (np.arange(samples * left, samples * right) + 0.5) / samples - 0.5 - x
    down = (np.arange(samples * top, samples * bottom) + 0.5) / samples - 0.5 - y
    fine = across**2 + down[:, np.newaxis] ** 2 <= radius**2
    fine = fine.reshape(bottom - top, samples, right - left, samples)
    shares[top:bottom, left:right] = fine.mean(axis=(1, 3))
    return shares


def disc(
    size: Size, x: float, y: float, radius: float, color: str | None, samples: int = 8
) -> NDArray[np.uint8]:
    """A plain disc on grey."""
    share = covered(size, x, y, radius, samples)[..., np.newaxis]
    return np.rint(110 + share * (np.array(COLORS[color]) - 110.0)).astype(np.uint8)


def error_and_sigma(result: SpotResult, size: Size, x: float, y: float) -> tuple[tuple[float, float], ...]:
    """Errors, and standard deviations, px."""
    unit = (size[0] - 1) / 2, (size[1] - 1) / 2
    return (result.u - x, result.v - y), (result.x_sigma * unit[0], result.y_sigma * unit[1])


def measured(color: str, size: Size, cells: int, samples: int) -> tuple[NDArray[np.float64], ...]:
    random, found = np.random.default_rng(4), []
    tracker = SpotTracker(color=color, size=cells)
    for _ in range(30):
        radius = random.uniform(16.0, 30.0)
        x, y = (random.uniform(radius + 5, side - radius - 6) for side in size)
        result = tracker.update(disc(size, x, y, radius, color, samples))
        found.append(error_and_sigma(result, size, x, y))
    errors, sigmas = np.moveaxis(np.array(found), 1, 0)
    return errors, sigmas


@pytest.mark.parametrize("color", ["red", "blue"])
@pytest.mark.parametrize(("size", "cells"), [((320, 240), 64), ((640, 480), 96), ((640, 480), 128)])
def test_a_disc_with_soft_edges_is_placed_to_a_fiftieth_of_a_pixel(
    color: str, size: Size, cells: int
) -> None:
    errors, _ = measured(color, size, cells, 8)
    assert np.abs(errors).max() < 0.02


@pytest.mark.parametrize(("size", "cells"), [((320, 240), 64), ((640, 480), 64), ((320, 240), 128)])
def test_a_disc_with_hard_edges_is_placed_as_exactly_as_pixels_show_it(size: Size, cells: int) -> None:
    errors, sigmas = measured("red", size, cells, 1)
    # Drawn discs have centroids with errors of 0.16 px over the root of the radius.
    assert math.sqrt(np.mean(np.square(errors))) < 0.16 / math.sqrt(16.0)
    assert 0.55 <= np.mean(np.abs(errors) <= sigmas) <= 0.85


def test_shade_moves_a_ball_by_less_than_its_sigmas_allow() -> None:
    size, (x, y), radius = (320, 240), (150.3, 120.8), 20.0
    v, u = np.mgrid[:240, :320]
    shade = np.clip(0.8 + 0.2 * ((u - x) + (v - y)) / radius, 0.5, 1.2)
    share = covered(size, x, y, radius, 8)[..., np.newaxis]
    image = 110 + share * (shade[..., np.newaxis] * COLORS["red"] - 110.0)
    result = SpotTracker(color="red").update(np.rint(image).astype(np.uint8))
    errors, sigmas = error_and_sigma(result, size, x, y)
    assert math.hypot(*errors) < 0.2
    assert math.hypot(*errors) < 2.5 * math.hypot(*sigmas)


@pytest.mark.parametrize("color", ["red", "white", None])
@pytest.mark.parametrize("radius", [3.0, 9.0, 30.0])
@pytest.mark.parametrize("share", [-0.4, 0.2, 0.7, 1.1])
def test_the_sigma_of_a_spot_cut_off_by_a_border_covers_its_error(
    color: str | None, radius: float, share: float
) -> None:
    size, y, tracker = (320, 240), 100.4, SpotTracker(color=color)
    for x in (share * radius - 0.5, 319.5 - share * radius):
        image = disc(size, x, y, radius, color)
        result = tracker.update(image if color else image - np.uint8(90))
        if result.valid:
            errors, sigmas = error_and_sigma(result, size, x, y)
            assert abs(errors[0]) < 2.5 * sigmas[0]
            assert abs(errors[1]) < 0.2


def test_a_shape_without_an_outline_is_not_placed() -> None:
    slope = np.tile(np.arange(64, dtype=np.uint8) * 3, (64, 1))
    blob = Blob(np.ones((8, 8), np.uint8), 16, 16, 8, 4, 8, 8, 64)
    assert place_by_outline(Spot(11.5, 7.5, 1.0, 1.0, 1.0), blob, lambda: slope, lambda part: part) is None


def test_a_shape_that_reaches_beyond_what_is_looked_at_is_not_placed() -> None:
    stripe = np.zeros((64, 64), np.uint8)
    cv2.rectangle(stripe, (20, 0), (30, 63), 200, cv2.FILLED)
    blob = Blob(np.ones((4, 3), np.uint8), 16, 16, 5, 6, 3, 4, 12)
    assert place_by_outline(Spot(6.0, 7.5, 1.0, 1.0, 1.0), blob, lambda: stripe, lambda part: part) is None


@pytest.mark.parametrize("size", [(1242, 375), (375, 1242)])
def test_a_lamp_in_a_very_wide_or_high_image_is_placed_in_its_pixels(size: Size) -> None:
    """By its few cells it is up to 3 px off, with a sigma of 0.1 px."""
    tracker = SpotTracker()
    for radius in (14.0, 18.0):
        x, y = 0.51 * size[0], 0.47 * size[1]
        errors, sigmas = error_and_sigma(tracker.update(disc(size, x, y, radius, None)), size, x, y)
        assert np.abs(errors).max() < 0.1
        assert np.abs(np.divide(errors, sigmas)).max() < 3.0
