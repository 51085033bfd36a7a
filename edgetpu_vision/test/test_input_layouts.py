"""Inputs with other axes than [1, height, width, 3]: channels first, without batch or without channels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from edgetpu_driver.images.conversion_cache import CameraImage
from edgetpu_driver.images.encodings import to_grey
from edgetpu_driver.images.region import WHOLE
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_vision import Detector
from edgetpu_vision.preprocessing.preprocessor import Preprocessor, image_input

RGB = np.random.default_rng(0).integers(0, 256, (8, 12, 3), np.uint8)


def filled(shape: tuple[int, ...], dtype: Any = np.uint8) -> np.ndarray:
    """What a model with an input of this shape gets for RGB."""
    preprocessor = Preprocessor(image_input([TensorSpec("image", shape, np.dtype(dtype), 0.0, 0)]), "stretch")
    return preprocessor.fill(CameraImage(RGB), preprocessor.place(WHOLE.within(12, 8)))


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((1, 8, 12, 3), RGB[None]),
        ((8, 12, 3), RGB),
        ((1, 3, 8, 12), RGB.transpose(2, 0, 1)[None]),
        ((3, 8, 12), RGB.transpose(2, 0, 1)),
        ((1, 8, 12), to_grey(RGB)[None]),
        ((1, 1, 8, 12), to_grey(RGB)[None, None]),
        ((8, 12, 1), to_grey(RGB)[:, :, None]),
    ],
    ids=str,
)
def test_an_image_has_the_axes_of_the_input(shape: tuple[int, ...], expected: np.ndarray) -> None:
    found = filled(shape)
    assert found.flags.c_contiguous
    assert not found.flags.writeable
    np.testing.assert_array_equal(found, expected)


def test_integers_of_32_bits_are_the_grey_levels() -> None:
    found = filled((1, 8, 12, 3), np.int32)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, RGB[None])


def test_boxes_of_a_model_with_channels_first_are_in_px_of_the_image() -> None:
    rows = np.zeros((1, 84, 525), np.float32)
    rows[0, :4, 5], rows[0, 4 + 16, 5] = (0.25, 0.5, 0.2, 0.1), 0.9
    detector = Detector(labels="coco")
    detector.bind(
        [TensorSpec("images", (1, 3, 160, 160), np.dtype(np.float32), 0.0, 0)],
        [TensorSpec("output0", rows.shape, rows.dtype, 0.0, 0)],
    )
    frame = detector.preprocess(np.zeros((320, 320, 3), np.uint8))
    assert frame.inputs["images"].shape == (1, 3, 160, 160)
    (found,) = detector.postprocess(frame, {"output0": rows}).detections
    assert found.label == "dog"
    assert (found.x_min, found.y_min, found.x_max, found.y_max) == pytest.approx(
        (48, 144, 112, 176), abs=1e-3
    )
