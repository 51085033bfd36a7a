"""An image that several algorithms share, and regions of it."""

from __future__ import annotations

import math
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.images.encodings import ImageError
from edgetpu_perception import (
    CameraImage,
    Looming,
    OpticalFlow,
    PatternTracker,
    Pinhole,
    Region,
    SpotTracker,
    VisualCompass,
)

pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

WIDTH, HEIGHT = 320, 240
REGION = Region(60, 30, 192, 192)
CAMERA = Pinhole(WIDTH, HEIGHT, 300, 300, 159.5, 119.5)


def texture() -> NDArray[np.uint8]:
    random = np.random.default_rng(3)
    layers = [
        cv2.resize(random.normal(size=(n, n)), (640, 640), interpolation=cv2.INTER_CUBIC) * 24
        for n in (16, 32, 64, 128)
    ]
    return np.clip(128 + np.sum(layers, axis=0), 0, 255).astype(np.uint8)


TEXTURE = texture()


def view(x: int, y: int) -> NDArray[np.uint8]:
    return np.ascontiguousarray(TEXTURE[y : y + HEIGHT, x : x + WIDTH])


def turned(yaw: float) -> NDArray[np.uint8]:
    """A distant wall after a turn to the left, rad."""
    camera = np.array([[CAMERA.fx, 0, CAMERA.cx], [0, CAMERA.fy, CAMERA.cy], [0, 0, 1]])
    wall = np.array([[CAMERA.fx, 0, 320], [0, CAMERA.fy, 320], [0, 0, 1]])
    cosine, sine = math.cos(yaw), math.sin(yaw)
    rotation = np.array([[cosine, 0, -sine], [0, 1, 0], [sine, 0, cosine]])
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    seen: Any = cv2.warpPerspective(
        TEXTURE, wall @ rotation @ np.linalg.inv(camera), (WIDTH, HEIGHT), flags=flags
    )
    return np.asarray(seen)


def test_equal_inputs_are_converted_once() -> None:
    image = CameraImage(view(0, 0))
    filled = image.fill(REGION, 64, 64, 1)
    assert image.fill(REGION, 64, 64, 1) is filled
    assert image.fill(REGION, 64, 64, 3) is not filled
    assert filled.shape == (1, 64, 64, 1)
    assert not filled.flags.writeable


def test_a_region_is_cropped_before_it_is_resized() -> None:
    filled = CameraImage(view(0, 0)).fill(Region(5, 7, 64, 32), 32, 64, 1)
    assert np.array_equal(filled[0, :, :, 0], view(0, 0)[7:39, 5:69])


def test_a_size_of_0_extends_to_the_edge() -> None:
    assert Region(10, 20).within(WIDTH, HEIGHT) == Region(10, 20, 310, 220)
    assert Region(10, 20, 5).within(WIDTH, HEIGHT) == Region(10, 20, 5, 220)


@pytest.mark.parametrize(
    "region", [Region(-1), Region(0, HEIGHT), Region(1, 0, WIDTH), Region(0, 1, 5, HEIGHT)]
)
def test_a_region_outside_the_image_is_refused(region: Region) -> None:
    with pytest.raises(ImageError, match="expected a part of the image of 320x240 px; got"):
        region.within(WIDTH, HEIGHT)


def test_sharing_an_image_does_not_change_results() -> None:
    flow, compass = OpticalFlow(), VisualCompass(camera=CAMERA)
    alone = OpticalFlow(), VisualCompass(camera=CAMERA)
    for frame in range(3):
        pixels = turned(0.01 * frame)
        shared = CameraImage(pixels)
        together = flow.update(shared, 0.1 * frame), compass.update(shared, 0.1 * frame)
        # In text NaN compares equal.
        assert repr(together) == repr(tuple(each.update(pixels, 0.1 * frame) for each in alone))


def test_a_spot_in_a_region_has_its_position_in_the_image() -> None:
    image = np.zeros((HEIGHT, WIDTH), np.uint8)
    image[100:112, 150:162] = 200
    image[5:17, 5:17] = 255  # outside
    tracker = SpotTracker(camera=CAMERA)
    tracker.region = REGION
    result = tracker.update(image)
    x, y = (result.x + 1) * (WIDTH - 1) / 2, (result.y + 1) * (HEIGHT - 1) / 2
    assert (x, y) == pytest.approx((155.5, 105.5), abs=0.1)
    assert result.bearing_x == pytest.approx(math.atan((155.5 - 159.5) / 300), abs=1e-3)
    assert result.bearing_y == pytest.approx(math.atan((105.5 - 119.5) / 300), abs=1e-3)


def test_a_pattern_in_a_region_has_its_position_in_the_image() -> None:
    image = view(100, 100)
    tracker = PatternTracker(camera=CAMERA)
    tracker.region = REGION
    assert tracker.set_template(image[100:148, 130:178], view=image).accepted
    result = tracker.update(view(91, 106))
    assert result.valid
    assert (result.x, result.y) == pytest.approx((153.5 + 9, 123.5 - 6), abs=0.3)
    assert (result.width, result.height) == pytest.approx((48, 48), abs=0.2)
    assert result.offset_x == pytest.approx(result.x / 159.5 - 1, abs=1e-6)
    assert result.bearing_x == pytest.approx(math.atan((result.x - 159.5) / 300), abs=1e-6)


def test_the_flow_of_a_region_is_in_px_of_the_image() -> None:
    flow = OpticalFlow()
    flow.region = REGION
    flow.update(view(100, 100), 0.0)
    result = flow.update(view(106, 97), 0.1)
    assert (result.dx, result.dy) == pytest.approx((-6, 3), abs=0.15)


def test_another_region_restarts_the_flow() -> None:
    flow = OpticalFlow()
    flow.update(view(100, 100), 0.0)
    flow.region = REGION
    assert not flow.update(view(100, 100), 0.1).valid


def test_the_heading_from_a_region_off_the_axis_is_that_of_the_camera() -> None:
    compass = VisualCompass(camera=CAMERA)
    compass.region = Region(128, 40, 192, 160)
    for frame in range(11):
        result = compass.update(turned(math.radians(0.7 * frame)), frame / 30)
    assert result.valid
    assert result.yaw == pytest.approx(math.radians(7), abs=math.radians(0.2))


def test_the_time_to_contact_does_not_depend_on_the_region() -> None:
    looming = Looming(camera=CAMERA)
    looming.region = Region(0, 0, 240, 240)
    for frame in range(26):
        distance = 2.0 - frame / 30
        scale = 2.0 / distance
        matrix = np.array([[scale, 0, 159.5 - scale * 320], [0, scale, 119.5 - scale * 320]])
        image: Any = cv2.warpAffine(TEXTURE, matrix, (WIDTH, HEIGHT))
        result = looming.update(image, frame / 30)
    assert result.valid
    assert result.ttc == pytest.approx(distance, rel=0.05)
