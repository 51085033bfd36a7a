"""Pictures as JPEG and PNG for the browser."""

from __future__ import annotations

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
    weights = np.array([[1.0, 1.25, 0.75, 200.0]], np.float32)
    picture = error_picture(weights, np.array([1.0], np.float32))
    assert picture[0, 0].tolist() == [255, 255, 255]
    assert picture[0, 1].tolist() == [143, 187, 218]  # rounded down by a quarter of a step
    assert picture[0, 2].tolist() == [234, 147, 148]  # rounded up by a quarter
    assert picture[0, 3].tolist() == [0, 0, 0]


def test_a_picture_that_jpeg_cannot_hold_is_refused() -> None:
    with pytest.raises(InputError, match=r"OpenCV cannot encode one of \(70000, 1\)"):
        jpeg(np.zeros((70000, 1), np.uint8))
