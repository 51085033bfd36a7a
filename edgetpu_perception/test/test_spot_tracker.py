"""Where the spot tracker finds a spot, how exactly, and which of several."""

from __future__ import annotations

import math
import subprocess
import sys

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.images.encodings import ImageError
from edgetpu_perception import Pinhole, Region, SpotTracker
from edgetpu_perception.graphs import spot_tracker_evidence as graph
from testdata.pictures.spots import Scene, block, in_px, rmse
from testdata.same_results import same

pytest.importorskip("ai_edge_litert", reason="needs LiteRT")


def test_a_symmetric_spot_is_found_exactly() -> None:
    result = SpotTracker().update(block(20, 40), 1.5)
    assert result.stamp == 1.5
    assert result.valid
    assert result.confidence == 1.0
    assert (result.x, result.y) == pytest.approx((41.5 / 31.5 - 1, 21.5 / 31.5 - 1), abs=1e-6)


def test_minus_one_and_one_are_the_centres_of_the_first_and_last_pixel() -> None:
    tracker = SpotTracker(min_confidence=0.0)
    assert in_px(tracker.update(block(0, 0, 3))) == pytest.approx((1, 1), abs=0.4)
    assert in_px(tracker.update(block(61, 61, 3))) == pytest.approx((62, 62), abs=0.4)


@pytest.mark.parametrize("scale", [2, 3, 7])
def test_a_larger_image_gives_the_position_in_its_own_pixels(scale: int) -> None:
    image = np.kron(block(20, 40), np.ones((scale, scale), np.uint8))
    result = SpotTracker().update(image)
    u, v = 42 * scale - 0.5, 22 * scale - 0.5  # the centre of the block of pixels
    half = (64 * scale - 1) / 2
    assert (result.x, result.y) == pytest.approx((u / half - 1, v / half - 1), abs=1e-6)


def test_width_and_height_are_scaled_apart() -> None:
    image = np.kron(block(20, 40), np.ones((5, 10), np.uint8))
    result = SpotTracker().update(image)
    assert (result.x, result.y) == pytest.approx((419.5 / 319.5 - 1, 109.5 / 159.5 - 1), abs=1e-6)


def test_bearings_come_from_the_camera() -> None:
    result = SpotTracker(camera=Pinhole(64, 64, 100, 50, 31.5, 31.5)).update(block(20, 40))
    expected = math.atan(10 / 100), math.atan(-10 / 50)
    assert (result.bearing_x, result.bearing_y) == pytest.approx(expected, abs=1e-6)
    x_sigma = result.x_sigma * 31.5 / 100 / (1 + 0.1**2)
    assert result.bearing_x_sigma == pytest.approx(x_sigma, rel=1e-4)


@pytest.mark.parametrize("camera", [None, Pinhole(640, 480, 100, 50, 31.5, 31.5)], ids=["none", "other size"])
def test_without_a_camera_of_the_images_size_there_is_no_bearing(camera: Pinhole | None) -> None:
    result = SpotTracker(camera=camera).update(block(20, 40))
    assert result.valid
    assert math.isnan(result.bearing_x)
    assert math.isnan(result.bearing_y_sigma)


def test_a_color_image_is_tracked_by_its_brightness() -> None:
    rgb = np.repeat(block(20, 40)[..., np.newaxis], 3, axis=2)
    assert same(SpotTracker().update(rgb), SpotTracker().update(block(20, 40)))


@pytest.mark.parametrize(("low", "high", "limit"), [(2, 24, 0.08), (2, 4, 0.15)], ids=["all", "small"])
def test_discs_are_found_to_a_fraction_of_a_pixel(
    scenes: object, low: float, high: float, limit: float
) -> None:
    def make() -> Scene:
        radius = scenes.random.uniform(low, high)
        center = scenes.position(radius)
        return scenes.disc(*center, radius), center

    assert rmse(SpotTracker(), make) < limit


def test_smooth_spots_are_found_to_a_few_hundredths_of_a_pixel(scenes: object) -> None:
    def make() -> Scene:
        sigma = scenes.random.uniform(1, 6)
        center = scenes.position(3 * sigma)
        return scenes.gaussian(*center, sigma), center

    assert rmse(SpotTracker(), make) < 0.03


def test_the_error_with_noise_is_near_the_cramer_rao_bound(scenes: object) -> None:
    def make() -> Scene:
        sigma = scenes.random.uniform(1, 6)
        center = scenes.position(3 * sigma)
        return scenes.gaussian(*center, sigma, 160, 40, noise=8), center

    # Cramer-Rao: sqrt(2 / pi) * 8 / 160 per axis, 0.056 px in the plane.
    assert rmse(SpotTracker(), make) < 0.08


def test_a_hot_pixel_does_not_move_the_spot(scenes: object) -> None:
    def make() -> Scene:
        sigma = scenes.random.uniform(1, 6)
        center = scenes.position(3 * sigma)
        image = scenes.gaussian(*center, sigma, amplitude=120)
        rows, columns = np.nonzero(image < 10)
        k = scenes.random.integers(len(rows))
        image[rows[k], columns[k]] = 255
        return image, center

    assert rmse(SpotTracker(), make) < 0.1


def test_discs_that_touch_the_border_are_found_without_bias(scenes: object) -> None:
    def make() -> Scene:
        radius = scenes.random.uniform(3, 14)
        center = (radius, scenes.position(radius)[1])
        return scenes.disc(*center, radius), center

    assert rmse(SpotTracker(), make) < 0.15


def test_colored_discs_are_found_on_a_photograph() -> None:
    data = pytest.importorskip("skimage.data", reason="needs scikit-image for a photograph")
    photo = cv2.resize(data.astronaut(), (64, 64), interpolation=cv2.INTER_AREA) // 2
    random = np.random.default_rng(5)
    y, x = np.mgrid[:64, :64]
    tracker = SpotTracker(color="red")

    def make() -> Scene:
        radius = random.uniform(8, 14)
        center = tuple(random.uniform(radius, 63 - radius, 2))
        image = photo.copy()
        image[(x - center[0]) ** 2 + (y - center[1]) ** 2 <= radius**2] = 255, 0, 0
        return image, center

    assert rmse(tracker, make, 60) < 0.1


def test_the_sigma_of_a_noisy_spot_covers_68_percent_of_errors(scenes: object) -> None:
    tracker = SpotTracker()
    inside = []
    for _ in range(150):
        sigma = scenes.random.uniform(2, 6)
        center = scenes.position(3 * sigma)
        result = tracker.update(scenes.gaussian(*center, sigma, 160, 40, noise=8))
        x, y = in_px(result)
        inside += [abs(x - center[0]) < result.x_sigma * 31.5, abs(y - center[1]) < result.y_sigma * 31.5]
    assert 0.60 <= np.mean(inside) <= 0.76


def test_the_sigma_of_a_spot_half_out_of_the_image_covers_the_error(scenes: object) -> None:
    result = SpotTracker().update(scenes.disc(0, 30, 10))
    x, y = in_px(result)
    assert x > 3
    assert result.x_sigma * 31.5 > x
    assert y == pytest.approx(30, abs=0.1)
    assert result.y_sigma * 31.5 < 0.2


@pytest.mark.parametrize(
    "image",
    [
        np.zeros((64, 64), np.uint8),
        np.full((64, 64), 255, np.uint8),
        np.tile(np.arange(64, dtype=np.uint8) * 4, (64, 1)),
        np.clip(np.random.default_rng(1).normal(120, 25, (64, 64)), 0, 255).astype(np.uint8),
        np.where(np.arange(4096).reshape(64, 64) == 1234, 255, 0).astype(np.uint8),
        block(20, 40, level=10),
    ],
    ids=["black", "white", "a slope", "noise", "one hot pixel", "hardly any contrast"],
)
def test_without_a_spot_the_result_is_not_valid(image: NDArray[np.uint8]) -> None:
    result = SpotTracker().update(image)
    assert not result.valid
    assert result.confidence < 0.2
    assert all(
        math.isnan(number)
        for number in (result.x, result.y, result.x_sigma, result.y_sigma, result.bearing_x, result.bearing_y)
    )


def test_of_two_equal_spots_the_tracker_keeps_the_last_one(scenes: object) -> None:
    tracker = SpotTracker()
    left, right = scenes.gaussian(15, 30, 3, 200), scenes.gaussian(48, 30, 3, 200)
    tracker.update(right)
    for _ in range(20):
        noise = scenes.random.normal(20, 6, (64, 64))
        result = tracker.update(np.clip(left + noise + right, 0, 255).astype(np.uint8))
        assert result.valid
        assert in_px(result) == pytest.approx((48, 30), abs=0.5)
        assert result.confidence == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("region", [Region(46, 40, 64, 64), Region(16, 0, 128, 128)])
def test_of_two_equal_spots_the_tracker_keeps_the_last_one_in_another_region(region: Region) -> None:
    tracker, image = SpotTracker(), np.zeros((128, 192), np.uint8)
    image[60:64, 50:54] = 255
    tracker.region = Region(0, 0, 128, 128)
    tracker.update(image, 0.0)
    image[60:64, 80:84] = 255
    tracker.region = region
    assert tracker.update(image, 0.1).u == pytest.approx(51.5, abs=1e-6)


def test_a_much_stronger_spot_is_preferred_to_the_old_one(scenes: object) -> None:
    tracker = SpotTracker()
    tracker.update(scenes.gaussian(15, 30, 3, 100))
    result = tracker.update(np.maximum(scenes.gaussian(15, 30, 3, 100), scenes.gaussian(48, 30, 3, 250)))
    assert in_px(result) == pytest.approx((48, 30), abs=0.1)


def test_a_lamp_is_found_in_front_of_a_grey_wall(scenes: object) -> None:
    room = np.full((64, 64), 30, np.uint8)
    room[:40] = 120
    result = SpotTracker().update(np.maximum(room, scenes.disc(40, 20, 5)))
    assert result.confidence > 0.9
    assert in_px(result) == pytest.approx((40, 20), abs=0.05)


def test_results_below_the_minimum_confidence_are_not_valid(scenes: object) -> None:
    both = np.maximum(scenes.disc(15, 30, 5), scenes.disc(48, 30, 5))
    result = SpotTracker(min_confidence=0.6).update(both)
    assert not result.valid
    assert result.confidence == pytest.approx(0.5, abs=0.01)
    assert math.isnan(result.x)


def test_preprocess_and_postprocess_equal_update() -> None:
    engine = CpuEngine(graph.build())
    tracker = SpotTracker()
    tracker.bind(engine.inputs, engine.outputs)
    frame = tracker.preprocess(block(20, 40), 2.0)
    assert same(
        tracker.postprocess(frame, engine.run(frame.inputs)), SpotTracker().update(block(20, 40), 2.0)
    )


def test_an_array_that_is_not_an_image_is_refused() -> None:
    with pytest.raises(ImageError, match="expected uint8"):
        SpotTracker().update(np.zeros((64, 64), np.float32))


def test_importing_the_package_imports_nothing_heavy() -> None:
    heavy = "{'numpy', 'cv2', 'rclpy', 'ai_edge_litert'}"
    code = f"import sys, edgetpu_perception; print(*{heavy} & set(sys.modules))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == ""


def test_a_shaded_ball_of_a_colour_is_placed_by_its_outline() -> None:
    v, u = np.mgrid[:64, :64]
    red = np.where((u - 30) ** 2 + (v - 25) ** 2 <= 64, 255 - 7 * (u - 22), 0)
    image = np.stack([red, np.zeros_like(red), np.zeros_like(red)], axis=-1).astype(np.uint8)
    result = SpotTracker(color="red").update(image)
    assert result.valid
    assert in_px(result) == pytest.approx((30.0, 25.0), abs=0.3)


def test_a_line_of_one_colour_is_no_target() -> None:
    image = np.full((64, 64, 3), 60, np.uint8)
    image[20:50, 30:33] = image[10:13, 5:60] = 200
    assert not SpotTracker(color="white").update(image).valid


def test_a_white_thing_that_may_be_part_of_the_scene_is_not_valid() -> None:
    image = np.full((64, 64, 3), 60, np.uint8)
    image[20:34, 20:44] = 250
    assert SpotTracker(color="white").update(image).valid  # a rectangle
    image[34:38, 20:30] = 250
    assert not SpotTracker(color="white").update(image).valid
