"""Position and sigma of lamps in the camera's pixels."""

from __future__ import annotations

import math
from collections.abc import Callable

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_perception.spot_tracker.blob import Blob
from edgetpu_perception.spot_tracker.camera_lamp import place_blob
from edgetpu_perception.spot_tracker.lamp_centroid import RASTER_SIGMA, LampCentroid, lamp_centroid

CENTER = 20.0


def disc(x: float, y: float, radius: float, motion: float = 0.0) -> NDArray[np.float64]:
    """Share of each of 41x41 px that a disc covers, moved along x by `motion` px during the exposure."""
    fine = (np.arange(41 * 8) + 0.5) / 8 - 0.5
    steps = np.linspace(-motion / 2, motion / 2, 15) if motion else (0.0,)
    distances = (np.hypot(fine - x - step, (fine - y)[:, np.newaxis]) for step in steps)
    share = np.mean([np.clip((radius - distance) * 8 + 0.5, 0.0, 1.0) for distance in distances], axis=0)
    return cv2.GaussianBlur(cv2.resize(share, (41, 41), interpolation=cv2.INTER_AREA), (0, 0), 0.5)


def rounded(picture: NDArray[np.float64]) -> NDArray[np.uint8]:
    return np.clip(np.rint(picture), 0, 255).astype(np.uint8)


def noisy(picture: NDArray[np.float64], random: np.random.Generator) -> NDArray[np.uint8]:
    return rounded(picture + random.normal(0.0, 8.0, picture.shape))


def photons(picture: NDArray[np.float64], random: np.random.Generator) -> NDArray[np.uint8]:
    """Two electrons for a grey level."""
    return rounded(random.poisson(2.0 * picture) / 2.0)


def compressed(picture: NDArray[np.float64], random: np.random.Generator) -> NDArray[np.uint8]:
    written = cv2.imencode(".jpg", noisy(picture, random), [cv2.IMWRITE_JPEG_QUALITY, 60])[1]
    return cv2.imdecode(written, cv2.IMREAD_GRAYSCALE)


Camera = Callable[[NDArray[np.float64], np.random.Generator], NDArray[np.uint8]]


@pytest.mark.parametrize("camera", [noisy, photons, compressed])
@pytest.mark.parametrize("radius", [3.0, 5.0, 12.0])
def test_two_thirds_of_the_errors_are_inside_one_sigma(radius: float, camera: Camera) -> None:
    random = np.random.default_rng(4)
    inside: list[bool] = []
    for _ in range(60):
        x, y = random.uniform(CENTER - 0.5, CENTER + 0.5, 2)
        pixels = camera(5.0 + 250.0 * disc(x, y, radius), random)
        found = lamp_centroid(np.maximum(pixels - np.float32(25.0), np.float32(0.0)))
        inside += [abs(found.x - x) <= found.x_sigma, abs(found.y - y) <= found.y_sigma]
    assert 0.55 <= np.mean(inside) <= 0.80


def test_the_sigma_of_a_symmetric_lamp_is_that_of_the_raster() -> None:
    found = lamp_centroid(np.pad(np.full((3, 3), 200.0, np.float32), 2))
    # The mean squared distance is 4 / 3, half of the squared radius.
    assert found == pytest.approx((3.0, 3.0, *2 * [RASTER_SIGMA / (8 / 3) ** 0.75]))


def test_one_pixel_is_a_lamp_of_its_own_area() -> None:
    found = lamp_centroid(np.pad(np.full((1, 1), 200.0, np.float32), ((1, 2), (3, 0))))
    assert found == pytest.approx((3.0, 1.0, *2 * [RASTER_SIGMA * math.pi**0.75]))


def test_light_in_one_row_of_pixels_is_as_uncertain_across_as_a_row_is_high() -> None:
    found = lamp_centroid(np.pad(np.full((1, 15), 200.0, np.float32), 2))
    # The mean squared distance along the row is (15^2 - 1) / 12, which is 224 times that across it.
    assert (found.x, found.y) == (9.0, 2.0)
    assert found.y_sigma == pytest.approx(found.x_sigma / math.sqrt(224))


def test_the_sigma_of_a_lamp_that_moves_is_larger_along_its_way() -> None:
    found = lamp_centroid((200.0 * disc(CENTER, CENTER, 2.0, motion=9.0)).astype(np.float32))
    assert (found.x, found.y) == pytest.approx((CENTER, CENTER), abs=1e-3)
    assert found.x_sigma > 2.0 * found.y_sigma


def test_a_lamp_with_one_side_hidden_has_a_larger_sigma() -> None:
    whole = (200.0 * disc(CENTER, CENTER, 5.0)).astype(np.float32)
    part = whole.copy()
    part[:, 23:] = 0.0
    assert lamp_centroid(part).x_sigma > 10.0 * lamp_centroid(whole).x_sigma


def test_positions_in_cells_count_from_the_centre_of_the_first_one() -> None:
    assert LampCentroid(1.0, 2.0, 0.5, 0.2).in_cells(8, 1, 5.0, 4.0) == pytest.approx((1.4, 0.375, 0.1, 0.05))


def blob(left: int, top: int, width: int, height: int) -> Blob:
    """One of 8x8 cells."""
    return Blob(np.ones((height, width), np.uint8), 8, 8, left, top, width, height, width * height)


def pixels_with_lamp() -> NDArray[np.uint8]:
    picture = np.full((41, 41), 10.0) + 200.0 * disc(CENTER + 0.3, CENTER - 0.2, 3.0)
    return rounded(picture[:40, :40])


def test_a_blob_of_a_few_cells_is_placed_in_the_pixels() -> None:
    found = place_blob(blob(3, 3, 3, 3), pixels_with_lamp)
    assert found is not None
    assert (found.x, found.y) == pytest.approx((3.66, 3.56), abs=0.002)


def test_a_lamp_that_reaches_beyond_its_blob_is_seen_with_more_around_it() -> None:
    assert place_blob(blob(4, 4, 1, 1), pixels_with_lamp) == place_blob(blob(3, 3, 3, 3), pixels_with_lamp)


@pytest.mark.parametrize("cells", [blob(2, 2, 5, 5), blob(0, 3, 3, 3)], ids=["large", "at the border"])
def test_a_large_or_cut_off_blob_is_left_to_the_cells(cells: Blob) -> None:
    assert place_blob(cells, pixels_with_lamp) is None


def test_pixels_as_large_as_cells_show_no_more() -> None:
    assert place_blob(blob(3, 3, 3, 3), lambda: np.zeros((8, 8), np.uint8)) is None


def test_a_lamp_on_an_edge_of_its_background_has_a_larger_sigma() -> None:
    even = pixels_with_lamp()
    uneven = even.copy()
    uneven[:, 23:] = np.maximum(uneven[:, 23:], 60)
    before, found = (place_blob(blob(3, 3, 3, 3), lambda image=image: image) for image in (even, uneven))
    assert before is not None
    assert found is not None
    assert found.x_sigma > found.y_sigma > before.y_sigma
    assert found.x_sigma > 5.0 * before.x_sigma


@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (2, 1), (5, 2), (2, 5)])
def test_a_lamp_of_few_px_is_in_their_middle(shape: tuple[int, int]) -> None:
    found = lamp_centroid(np.full(shape, 100.0, np.float32))
    assert (found.x, found.y) == pytest.approx(((shape[1] - 1) / 2, (shape[0] - 1) / 2))
