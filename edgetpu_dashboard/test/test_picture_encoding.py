"""Pictures as JPEG and PNG for the browser."""

from __future__ import annotations

import tracemalloc

import cv2
import numpy as np
import pytest

from edgetpu_dashboard.live.picture_encoding import error_picture, jpeg, png
from edgetpu_driver.errors import InputError

RED = (200, 10, 20)


def decoded(data: bytes) -> np.ndarray:
    return cv2.cvtColor(cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)


def test_a_picture_is_made_smaller_for_the_browser() -> None:
    picture = np.full((300, 400, 3), RED, np.uint8)
    assert decoded(jpeg(picture, 200)).shape == (150, 200, 3)
    assert decoded(jpeg(picture, 800)).shape == (300, 400, 3)


def test_png_is_exact() -> None:
    picture = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)
    assert np.array_equal(decoded(png(picture)), picture)


def test_errors_of_weights_are_blue_white_red_and_black() -> None:
    weights = np.array([[1.0, 1.25, 0.75, 200.0, 1e38]], np.float32)
    picture = error_picture(weights, np.array([1.0], np.float32))
    assert picture[0, 0].tolist() == [255, 255, 255]
    assert picture[0, 1].tolist() == [143, 187, 218]  # rounded down by a quarter of a step
    assert picture[0, 2].tolist() == [234, 147, 148]  # rounded up by a quarter
    assert picture[0, 3].tolist() == [0, 0, 0]
    assert error_picture(weights[:, 4:], np.array([1e-6], np.float32)).tolist() == [[[0, 0, 0]]]


def test_weights_that_the_driver_clips_are_black() -> None:
    """It rounds to whole steps first, and holds 127 on either side."""
    weights = np.array([[127.4, 127.6, -127.4, -127.6]], np.float32)
    picture = error_picture(weights, np.ones(1, np.float32))
    assert (picture == 0).all(axis=2).tolist() == [[False, True, False, True]]


def test_no_weight_is_black_if_the_driver_clipped_none() -> None:
    """As uint8 weights with a zero point reach beyond 127 steps."""
    weights = np.array([[127.0, 200.0]], np.float32)
    picture = error_picture(weights, np.ones(1, np.float32), has_clipped=False)
    assert picture.tolist() == [[[255, 255, 255], [255, 255, 255]]]


def test_a_picture_that_jpeg_cannot_hold_is_refused() -> None:
    with pytest.raises(InputError, match=r"OpenCV cannot encode one of \(70000, 1\)"):
        jpeg(np.zeros((70000, 1), np.uint8))


def test_a_picture_of_errors_takes_little_memory() -> None:
    """One of the largest matrix that the page takes, 4096 x 4096, fits into a process of nodes: 2 GiB."""
    weights = np.random.default_rng(0).normal(size=(300, 200)).astype(np.float32)
    tracemalloc.start()
    error_picture(weights, np.full(300, 0.1, np.float32))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak / weights.size < 32


def test_errors_have_colours_in_proportion() -> None:
    steps = np.linspace(-0.5, 0.5, 11, dtype=np.float32)[None] + 3
    picture = error_picture(steps, np.ones(1, np.float32)).astype(float)
    share = 2 * np.abs(np.rint(steps[0]) - steps[0])[:, None]
    tint = np.where((np.rint(steps[0]) > steps[0])[:, None], (214, 39, 40), (31, 119, 180))
    assert np.abs(picture[0] - (255 + share * (tint - 255))).max() <= 1
