"""The accuracy of the spot tracker on a few scenes; limits are those of `make accuracy` or slightly above."""

from __future__ import annotations

import math
from collections.abc import Callable

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_perception import SpotTracker
from testdata import ModelFolder

pytest.importorskip("ai_edge_litert", reason="needs LiteRT")
data = pytest.importorskip("skimage.data", reason="needs scikit-image for photographs")

Image = NDArray[np.uint8]
Y, X = np.mgrid[:64, :64]
TARGETS = {"red": (255, 0, 0), "yellow": (255, 255, 0), "cyan": (0, 255, 255), "white": (255, 255, 255)}


def inside(x: float, y: float, radius: float) -> NDArray[np.bool_]:
    return (X - x) ** 2 + (Y - y) ** 2 <= radius**2


def photograph(name: str) -> Image:
    return cv2.resize(getattr(data, name)(), (64, 64), interpolation=cv2.INTER_AREA)


def errors(
    tracker: SpotTracker, draw: Callable[[np.random.Generator], tuple[Image, float, float]], count: int = 40
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Errors and sigmas along both axes, px, NaN where not valid, and confidences."""
    random = np.random.default_rng(7)
    found, sigmas, confidences = [], [], []
    for _ in range(count):
        image, x, y = draw(random)
        result = tracker.update(image)
        found.append(((result.x + 1) * 31.5 - x, (result.y + 1) * 31.5 - y))
        sigmas.append((result.x_sigma * 31.5, result.y_sigma * 31.5))
        confidences.append(result.confidence)
    return np.array(found), np.array(sigmas), np.array(confidences)


def rmse(found: NDArray[np.float64]) -> float:
    return math.sqrt(np.mean(np.sum(np.square(found), axis=1)))


def beacon(background: Image) -> Callable[[np.random.Generator], tuple[Image, float, float]]:
    def draw(random: np.random.Generator) -> tuple[Image, float, float]:
        radius = random.uniform(3, 10)
        x, y = random.uniform(radius, 63 - radius, 2)
        return np.where(inside(x, y, radius), 255, background).astype(np.uint8), x, y

    return draw


def target(
    name: str, color: str, contrast: float
) -> Callable[[np.random.Generator], tuple[Image, float, float]]:
    scene = np.rint(photograph(name) * contrast).astype(np.uint8)

    def draw(random: np.random.Generator) -> tuple[Image, float, float]:
        radius = random.uniform(8, 14)
        x, y = random.uniform(radius, 63 - radius, 2)
        image = scene.copy()
        image[inside(x, y, radius)] = TARGETS[color]
        return image, x, y

    return draw


@pytest.mark.parametrize("blur", [0.5, 1.5, 4.0])
def test_a_beacon_stands_out_from_texture(blur: float) -> None:
    rough = cv2.GaussianBlur(np.random.default_rng(3).normal(0, 1, (64, 64)), (0, 0), blur)
    background = np.clip(100 + 15 * rough / rough.std(), 0, 255).astype(np.uint8)
    found, sigmas, _ = errors(SpotTracker(), beacon(background))
    assert rmse(found) < 0.16
    assert np.mean(np.abs(found) < sigmas) > 0.5


@pytest.mark.parametrize("name", ["camera", "brick", "coins", "moon"])
def test_a_beacon_stands_out_from_a_photograph_of_half_the_brightness(name: str) -> None:
    found, _, _ = errors(SpotTracker(), beacon(photograph(name) // 2))
    assert rmse(found) < 0.15


@pytest.mark.parametrize("color", TARGETS)
def test_a_coloured_disc_is_found_on_photographs_of_half_contrast(color: str) -> None:
    tracker = SpotTracker(color=color)
    names = ("astronaut", "coffee", "chelsea", "rocket")
    found = [errors(tracker, target(name, color, 0.5))[0] for name in names]
    assert rmse(np.concatenate(found)) < 0.1


@pytest.mark.parametrize("name", ["astronaut", "chelsea", "coffee", "retina"])
@pytest.mark.parametrize("color", TARGETS)
def test_a_coloured_disc_is_found_at_full_contrast_or_the_confidence_is_low(color: str, name: str) -> None:
    found, _, confidences = errors(SpotTracker(color=color), target(name, color, 1.0))
    right = np.hypot(*found.T) < 0.3
    assert np.mean(right) >= 0.9
    assert np.all(right | (confidences < 0.5))


def test_a_target_is_found_by_its_outline_in_a_scene_of_similar_colour() -> None:
    image = np.full((64, 64, 3), 235, np.uint8)
    image[:, 40:] = 40
    image[inside(38, 30, 10)] = 255
    result = SpotTracker(color="white").update(image)
    assert ((result.x + 1) * 31.5, (result.y + 1) * 31.5) == pytest.approx((38, 30), abs=0.05)


def test_of_two_flat_targets_the_tracker_keeps_the_last_one() -> None:
    tracker = SpotTracker(color="red")
    image = np.full((64, 64, 3), 90, np.uint8)
    image[inside(45, 45, 8)] = (255, 0, 0)
    tracker.update(image)
    image[inside(15, 15, 8)] = (255, 0, 0)
    result = tracker.update(image)
    assert ((result.x + 1) * 31.5, (result.y + 1) * 31.5) == pytest.approx((45, 45), abs=0.05)


def test_a_ball_is_not_located_by_its_highlight() -> None:
    shade = np.clip(1.0 - ((X - 26) ** 2 + (Y - 26) ** 2) / 5000, 0.3, 1.0)
    image = np.where(inside(32, 32, 14), 255 * shade, 0).astype(np.uint8)
    result = SpotTracker(color="red").update(np.stack([image, image // 6, image // 6], axis=2))
    assert ((result.x + 1) * 31.5, (result.y + 1) * 31.5) == pytest.approx((32, 32), abs=0.5)


def test_the_sigma_of_a_smooth_spot_in_the_dark_covers_68_percent_of_errors() -> None:
    def draw(random: np.random.Generator) -> tuple[Image, float, float]:
        sigma = random.uniform(1, 6)
        x, y = random.uniform(3 * sigma, 63 - 3 * sigma, 2)
        return np.rint(120 * np.exp(-((X - x) ** 2 + (Y - y) ** 2) / (2 * sigma**2))).astype(np.uint8), x, y

    found, sigmas, _ = errors(SpotTracker(), draw, 200)
    assert 0.6 <= np.mean(np.abs(found) < sigmas) <= 0.8


def test_the_sigma_of_a_smooth_spot_without_noise_covers_68_percent_of_errors() -> None:
    def draw(random: np.random.Generator) -> tuple[Image, float, float]:
        sigma = random.uniform(1, 6)
        x, y = random.uniform(3 * sigma, 63 - 3 * sigma, 2)
        bell = np.exp(-((X - x) ** 2 + (Y - y) ** 2) / (2 * sigma**2))
        return np.rint(30 + 180 * bell).astype(np.uint8), x, y

    found, sigmas, _ = errors(SpotTracker(), draw, 200)
    assert rmse(found) < 0.015
    assert 0.6 <= np.mean(np.abs(found) < sigmas) <= 0.8


def test_the_sigma_of_a_disc_cut_by_the_border_covers_the_error() -> None:
    def draw(random: np.random.Generator) -> tuple[Image, float, float]:
        radius = random.uniform(5, 12)
        x, y = random.uniform(-0.5, 0.8) * radius, random.uniform(radius, 63 - radius)
        return np.where(inside(x, y, radius), 255, 0).astype(np.uint8), x, y

    found, sigmas, _ = errors(SpotTracker(), draw, 100)
    assert np.mean(np.abs(found[:, 0]) < 2 * sigmas[:, 0]) >= 0.95
    assert rmse(found[:, 1:]) < 0.1


def test_noise_of_any_strength_is_not_a_spot() -> None:
    random = np.random.default_rng(5)
    tracker = SpotTracker()
    for level, noise in random.uniform((0, 2), (200, 40), (100, 2)):
        image = np.clip(random.normal(level, noise, (64, 64)), 0, 255).astype(np.uint8)
        assert not tracker.update(image).valid


@pytest.mark.parametrize("color", [None, "white"])
def test_a_gradient_in_any_direction_is_not_a_spot(color: str | None) -> None:
    tracker = SpotTracker(color=color)
    for angle in np.arange(0, 360, 15):
        across = (X - 31.5) * math.cos(math.radians(angle)) + (Y - 31.5) * math.sin(math.radians(angle))
        assert not tracker.update((128 + 1.4 * across).astype(np.uint8)).valid


@pytest.fixture
def bright(golden: ModelFolder) -> SpotTracker:
    return SpotTracker(CpuEngine(golden.model("bright_64x64.tflite")))


@pytest.mark.parametrize("corner", [(0, 0), (0, 63), (50, 10)])
def test_two_coordinates_of_only_a_hot_pixel_are_not_valid(
    bright: SpotTracker, corner: tuple[int, int]
) -> None:
    image = np.where(inside(30, 35, 6), 120, 0).astype(np.uint8)
    image[corner] = 255
    assert not bright.update(image).valid


def test_two_coordinates_are_corrected_for_a_hot_pixel_as_bright_as_the_spot(bright: SpotTracker) -> None:
    image = np.where(inside(30, 35, 4), 255, 0).astype(np.uint8)
    image[5, 58] = 255
    result = bright.update(image)
    # One step of the int8 output is 0.34 px; the hot pixel alone would make 0.8 px of error.
    assert ((result.x + 1) * 31.5, (result.y + 1) * 31.5) == pytest.approx((30, 35), abs=0.4)


@pytest.mark.parametrize("noise", [0.0, 4.0])
def test_the_sigmas_of_two_coordinates_hold_where_noise_chooses_the_brightest_cells(
    bright: SpotTracker, noise: float
) -> None:
    def disc(random: np.random.Generator) -> tuple[Image, float, float]:
        (x, y), radius = random.uniform(12, 51, 2), random.uniform(2, 10)
        image = np.where(inside(x, y, radius), 210.0, 20.0) + random.normal(0, noise, (64, 64))
        return np.clip(np.rint(image), 0, 255).astype(np.uint8), x, y

    error, sigma, _ = errors(bright, disc, 80)
    assert math.sqrt(np.nanmean(np.square(error)) / np.nanmean(np.square(sigma))) == pytest.approx(
        1, abs=0.35
    )
