"""The spot tracker on lamps smaller than a cell, on lamps that cross, and on scenes without one."""

from __future__ import annotations

import math

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_perception import Region, SpotResult, SpotTracker
from edgetpu_perception.spot_tracker import blob_measurement
from edgetpu_perception.spot_tracker.blob import MAX_SHARE_WITH_RIVALS, Blob
from edgetpu_perception.spot_tracker.camera_lamp import place_small_spot
from edgetpu_perception.spot_tracker.small_spot import SmallSpot, find_small_spot, measure_small_spot

pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

WIDTH, HEIGHT = 320, 240
PERIOD = 1 / 30


def picture(*centers: tuple[float, float], radius: float = 2.0) -> NDArray[np.uint8]:
    """White discs on dark grey, drawn at eight times the size."""
    fine = np.full((8 * HEIGHT, 8 * WIDTH), 10, np.uint8)
    for x, y in centers:
        cv2.circle(fine, (round(8 * x + 3.5), round(8 * y + 3.5)), round(8 * radius), 255, cv2.FILLED)
    return cv2.resize(fine, (WIDTH, HEIGHT), interpolation=cv2.INTER_AREA)


def in_px(result: SpotResult) -> tuple[float, float]:
    return (result.x + 1) * (WIDTH - 1) / 2, (result.y + 1) * (HEIGHT - 1) / 2


@pytest.mark.parametrize("radius", [1.5, 2.0, 3.0, 5.0])
@pytest.mark.parametrize("center", [(82.0, 120.0), (84.5, 118.9), (250.3, 33.3)])
def test_a_lamp_below_one_cell_is_found(radius: float, center: tuple[float, float]) -> None:
    result = SpotTracker().update(picture(center, radius=radius))
    assert result.confidence >= 0.5
    assert math.dist(in_px(result), center) < 2.5


def test_the_sigma_of_a_lamp_inside_one_cell_is_a_share_of_the_cell() -> None:
    grey = np.full((64, 64), 10, np.uint8)
    grey[31, 16] = 80
    spot = measure_small_spot(grey, SmallSpot(1.0, 80.0, (15, 31)))
    assert 0.1 < spot.x_sigma < 0.25


def test_the_sigma_of_a_lamp_inside_one_cell_is_a_share_of_the_pixels_that_show_it() -> None:
    result = SpotTracker().update(picture((82.0, 120.0), radius=1.2))
    assert math.dist(in_px(result), (82.0, 120.0)) < 0.1
    assert 0.01 < result.x_sigma * (WIDTH - 1) / 2 < 0.03


@pytest.mark.parametrize("color", ["red", "white"])
def test_a_small_lamp_of_a_color_is_found(color: str) -> None:
    lamp = picture((100.0, 60.0), radius=3.0)
    dark = np.full_like(lamp, 10)
    image = np.stack([lamp, *((dark, dark) if color == "red" else (lamp, lamp))], axis=-1)
    result = SpotTracker(color=color).update(image)
    assert math.dist(in_px(result), (100.0, 60.0)) < 1.0


def texture() -> NDArray[np.uint8]:
    """Blotches of a few px, of which many are as bright in a cell as a small lamp."""
    fine = np.random.default_rng(1).uniform(20, 110, (HEIGHT // 4, WIDTH // 4)).astype(np.float32)
    return cv2.resize(fine, (WIDTH, HEIGHT), interpolation=cv2.INTER_CUBIC).clip(0, 120).astype(np.uint8)


def test_a_lamp_among_texture_is_found_in_the_pixels_of_the_camera() -> None:
    image = np.maximum(texture(), picture((100.3, 60.7), radius=1.5))
    result = SpotTracker().update(image)
    assert result.confidence >= 0.5
    assert math.dist(in_px(result), (100.3, 60.7)) < 0.3


def test_texture_without_a_lamp_is_no_lamp() -> None:
    assert not SpotTracker().update(texture()).valid


def test_of_two_lamps_among_texture_neither_is_certain() -> None:
    image = np.maximum(texture(), picture((100.3, 60.7), (230.0, 170.0), radius=1.5))
    assert SpotTracker().update(image).confidence < 0.5


def test_one_hot_pixel_of_the_camera_is_no_lamp() -> None:
    image = picture()
    image[100, 200] = 255
    assert not SpotTracker().update(image).valid


def test_at_the_size_of_the_model_a_single_pixel_is_no_lamp() -> None:
    image = np.full((64, 64), 10, np.uint8)
    image[20, 30] = 255
    assert not SpotTracker().update(image).valid


def test_a_small_lamp_is_preferred_to_a_dimmer_window() -> None:
    image = picture((60.0, 60.0), radius=3.0)
    image[120:200, 180:280] = 70
    assert math.dist(in_px(SpotTracker().update(image)), (60.0, 60.0)) < 2.0


def test_of_two_small_lamps_the_one_followed_is_kept() -> None:
    tracker = SpotTracker()
    tracker.update(picture((250.0, 60.0)))
    result = tracker.update(picture((60.0, 60.0), (250.0, 60.0)))
    assert math.dist(in_px(result), (250.0, 60.0)) < 2.0
    assert result.confidence < 0.5


@pytest.mark.parametrize("radius", [3.0, 10.0])
def test_a_lamp_is_kept_while_another_one_crosses_it(radius: float) -> None:
    tracker = SpotTracker()
    for frame in range(40):
        way = 4.0 * (frame - 19.5)
        first, second = (160 + way, 120 + 0.3 * way), (160 - way, 122 + 0.3 * way)
        result = tracker.update(picture(first, *([second] if frame else []), radius=radius), frame * PERIOD)
    assert math.dist(in_px(result), first) < 4.0


@pytest.mark.parametrize("name", ["astronaut", "coffee", "camera", "grass"])
def test_a_photograph_without_a_lamp_has_no_spot(name: str) -> None:
    data = pytest.importorskip("skimage.data", reason="needs scikit-image")
    assert not SpotTracker().update(getattr(data, name)()[:400, :400]).valid


def test_a_small_lamp_brighter_than_coarse_texture_is_found() -> None:
    texture = cv2.resize(
        np.random.default_rng(3).integers(20, 80, (48, 64)).astype(np.uint8),
        (WIDTH, HEIGHT),
        interpolation=cv2.INTER_NEAREST,
    )
    assert not SpotTracker().update(texture).valid
    result = SpotTracker().update(np.maximum(texture, picture((202.0, 120.0))))
    assert result.valid
    assert math.dist(in_px(result), (202.0, 120.0)) < 2.5


def test_a_lamp_is_found_on_texture_that_leaves_cells_as_bright() -> None:
    texture = np.random.default_rng(3).choice([20, 120], (64, 64)).astype(np.uint8)
    image = np.repeat(np.repeat(texture, 4, axis=0), 5, axis=1)
    image[119:122, 159:162] = 255
    result = SpotTracker().update(image)
    assert result.valid
    assert ((result.x + 1) * 319 / 2, (result.y + 1) * 255 / 2) == pytest.approx((160, 120), abs=0.5)


def test_a_small_lamp_is_preferred_to_a_large_thing_that_is_as_bright_in_the_model() -> None:
    image = picture((60.3, 60.7), radius=1.5)
    cv2.circle(image, (220, 150), 30, 110, cv2.FILLED)
    result = SpotTracker().update(image)
    assert math.dist(in_px(result), (60.3, 60.7)) < 0.5


def test_a_hot_pixel_next_to_a_large_spot_is_no_lamp() -> None:
    image = picture()
    cv2.circle(image, (220, 150), 30, 110, cv2.FILLED)
    image[60, 60] = 255
    assert math.dist(in_px(SpotTracker().update(image)), (220.0, 150.0)) < 0.5


def test_a_bright_strip_beside_a_small_lamp_does_not_pull_its_position() -> None:
    image = np.maximum(picture((122.3, 143.7), radius=2.0), 48)
    image[:, 111:117] = 80
    result = SpotTracker().update(image)
    assert math.dist(in_px(result), (122.3, 143.7)) < 0.1
    assert result.x_sigma * (WIDTH - 1) / 2 < 0.1


@pytest.mark.parametrize("size", [64, 96])
@pytest.mark.parametrize("center", [(82.0, 120.0), (84.6, 118.9), (0.0, 239.0), (319.0, 100.4)])
def test_a_small_lamp_is_placed_at_the_centroid_of_its_visible_part(
    center: tuple[float, float], size: int
) -> None:
    image = picture(center, radius=2.0)
    light = image.astype(float) - 10.0
    expected = (
        light.sum(axis=0) @ np.arange(WIDTH) / light.sum(),
        light.sum(axis=1) @ np.arange(HEIGHT) / light.sum(),
    )
    assert in_px(SpotTracker(size=size).update(image)) == pytest.approx(expected, abs=0.1)


def test_a_small_lamp_is_placed_in_the_region_of_interest() -> None:
    tracker = SpotTracker()
    tracker.region = Region(40, 60, 200, 160)
    result = tracker.update(picture((122.3, 143.7), radius=1.5))
    assert math.dist(in_px(result), (122.3, 143.7)) < 0.1


def test_a_lamp_larger_than_its_cells_is_measured_in_the_cells() -> None:
    """Seven cells on dark ones, and a camera that sees a disc of more than a cell to each side."""
    pixels = np.full((240, 320), 10, np.uint8)
    cv2.circle(pixels, (82, 120), 12, 255, cv2.FILLED)
    grey = np.full((64, 64), 10, np.uint8)
    grey[31:33, 15:18] = 120
    small = SmallSpot(1.0, 120.0, (15, 31))
    assert place_small_spot(small, grey, lambda: pixels, lambda part: part) == measure_small_spot(grey, small)


def test_at_the_size_of_the_model_a_small_spot_is_measured_in_the_cells() -> None:
    grey = np.full((64, 64), 10, np.uint8)
    grey[31:33, 15:18] = 120
    small = SmallSpot(1.0, 120.0, (15, 31), (40.5, 10.5))
    placed = place_small_spot(small, grey, lambda: grey, lambda part: part)
    assert (placed.x, placed.y) == pytest.approx((16.0, 31.5))
    assert placed.rival == (40.5, 10.5)


@pytest.mark.parametrize(("radius", "in_pixels"), [(5.0, True), (6.5, True), (9.0, False), (10.0, False)])
def test_lamps_up_to_three_cells_high_are_measured_in_the_cameras_pixels(
    radius: float, in_pixels: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Blob] = []
    monkeypatch.setattr(blob_measurement, "place_blob", lambda blob, _camera: asked.append(blob))
    SpotTracker().update(picture((82.0, 120.0), radius=radius))
    assert bool(asked) == in_pixels


def test_the_brightest_part_of_a_streak_is_no_small_spot() -> None:
    """Textures have such streaks; a lamp ends within a few cells in all directions."""
    row, column = np.mgrid[:64, :64]
    streak = 80 * np.exp(-((column - 30.5) ** 2) / 3 - (row - 30.5) ** 2 / 30)
    lamp = 80 * np.exp(-((column - 30.5) ** 2) / 3 - (row - 30.5) ** 2 / 3)
    assert find_small_spot(np.rint(streak).astype(np.uint8), 18.75, None).confidence == 0.0
    assert find_small_spot(np.rint(lamp).astype(np.uint8), 18.75, None).confidence == 1.0


def test_a_small_spot_beside_another_one_is_a_spot() -> None:
    grey = np.zeros((64, 64), np.uint8)
    grey[30:32, 30:32] = grey[30:32, 34:36] = 100
    assert find_small_spot(grey, 18.75, None).confidence == MAX_SHARE_WITH_RIVALS


@pytest.mark.parametrize("tint", [(150, 110, 90), (75, 55, 45)])
def test_a_tint_of_grey_is_not_the_colour(tint: tuple[int, int, int]) -> None:
    room = np.full((HEIGHT, WIDTH, 3), 90, np.uint8)
    cv2.circle(room, (200, 100), 40, tint, cv2.FILLED)
    assert not SpotTracker(color="red").update(room).valid
    cv2.circle(room, (80, 150), 20, (75, 20, 20), cv2.FILLED)  # less light, but pure
    assert math.dist(in_px(SpotTracker(color="red").update(room)), (80, 150)) < 1.0


def test_a_small_lamp_is_found_beside_something_larger_with_a_tint_of_its_colour() -> None:
    room = np.full((HEIGHT, WIDTH, 3), 90, np.uint8)
    cv2.rectangle(room, (180, 60), (240, 160), (200, 140, 120), cv2.FILLED)
    cv2.circle(room, (80, 150), 3, (255, 40, 40), cv2.FILLED)
    assert math.dist(in_px(SpotTracker(color="red").update(room)), (80, 150)) < 1.0


def test_a_tint_is_found_by_weights_of_its_own() -> None:
    """A colour that was picked in an image may be as pale as what it was picked from."""
    room = np.full((HEIGHT, WIDTH, 3), 90, np.uint8)
    cv2.circle(room, (200, 100), 40, (150, 110, 90), cv2.FILLED)
    assert SpotTracker(color=(1.0, -0.3, -0.7)).update(room).valid
