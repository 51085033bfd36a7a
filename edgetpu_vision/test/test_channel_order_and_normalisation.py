"""Inputs of models that were trained on BGR images, or on grey levels less a mean, divided by a std."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.errors import InputError
from edgetpu_driver.images.conversion_cache import CameraImage
from edgetpu_driver.images.region import WHOLE
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_vision import BodyPix, Classifier, Detector, Embedder, Normalisation, PoseEstimator, Segmenter
from edgetpu_vision.preprocessing.channel_order import ChannelOrder
from edgetpu_vision.preprocessing.image_fit import Fit
from edgetpu_vision.preprocessing.pixel_scaling import PixelScaling
from edgetpu_vision.preprocessing.preprocessor import Preprocessor
from testdata.pictures.fixed_outputs import spec

RGB = np.random.default_rng(0).integers(0, 256, (48, 64, 3), np.uint8)
BGR = np.ascontiguousarray(RGB[:, :, ::-1])
CAFFE = Normalisation.of((103.939, 116.779, 123.68), (1.0, 1.0, 1.0))
TORCH = Normalisation.of((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))


def filled(
    pixels: NDArray[np.uint8],
    target: TensorSpec,
    normalisation: Normalisation | None = None,
    fit: Fit = "stretch",
    channel_order: ChannelOrder = "bgr",
    *,
    truncates: bool = False,
) -> NDArray[Any]:
    preprocessor = Preprocessor(target, fit, normalisation, channel_order=channel_order, truncates=truncates)
    placement = preprocessor.place(WHOLE.within(pixels.shape[1], pixels.shape[0]))
    return preprocessor.fill(CameraImage(pixels), placement)


def test_red_is_the_last_channel_of_a_bgr_model() -> None:
    red = np.zeros((4, 4, 3), np.uint8)
    red[:, :, 0] = 200
    assert filled(red, spec("image", (1, 4, 4, 3), np.uint8))[0, 0, 0].tolist() == [0, 0, 200]


@pytest.mark.parametrize("truncates", [False, True])
@pytest.mark.parametrize("fit", ["stretch", "letterbox"])
@pytest.mark.parametrize(
    "target",
    [
        spec("image", (1, 48, 64, 3), np.uint8),
        spec("image", (1, 48, 64, 3), np.int8, 1 / 255, -128),
        spec("image", (1, 20, 30, 3), np.uint8, 1 / 128, 128),
        spec("image", (1, 20, 30, 3), np.int8, 0.02, -3),
        spec("image", (1, 20, 30, 3), np.int32),
        spec("image", (1, 20, 30, 3), np.float32),
        spec("image", (1, 3, 20, 30), np.float32),
    ],
    ids=str,
)
def test_a_bgr_model_gets_what_an_rgb_model_gets_for_the_image_in_bgr(
    target: TensorSpec, fit: Fit, truncates: bool
) -> None:
    before = RGB.copy()
    expected = filled(BGR, target, fit=fit, channel_order="rgb", truncates=truncates)
    np.testing.assert_array_equal(filled(RGB, target, fit=fit, truncates=truncates), expected)
    np.testing.assert_array_equal(RGB, before)


def test_mean_and_std_are_in_the_order_of_the_models_channels() -> None:
    result = filled(RGB, spec("image", (1, 48, 64, 3)), CAFFE)
    np.testing.assert_allclose(result[0], BGR - np.array(CAFFE.mean), atol=1e-4)


@pytest.mark.parametrize("channel_order", ["rgb", "bgr"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_each_channel_of_a_quantised_input_is_normalised_then_quantised(
    dtype: Any, channel_order: ChannelOrder
) -> None:
    target = spec("image", (1, 48, 64, 3), dtype, 0.0187, 113 + np.iinfo(dtype).min)
    result = filled(RGB, target, TORCH, channel_order=channel_order)
    levels = RGB if channel_order == "rgb" else BGR
    real = (levels - np.array(TORCH.mean)) / np.array(TORCH.std)
    steps = np.rint(real / target.scale + target.zero_point)
    np.testing.assert_array_equal(result[0], np.clip(steps, np.iinfo(dtype).min, np.iinfo(dtype).max))


@pytest.mark.parametrize(
    ("dtype", "scale", "zero_point", "mean", "std"),
    [
        (np.uint8, 1 / 128, 128, 128.0, 128.0),
        (np.uint8, 1 / 128, 128, 127.5, 127.5),
        (np.uint8, 1 / 255, 0, 0.0, 255.0),
        (np.int8, 1 / 127.5, 0, 128.0, 127.5),
    ],
)
def test_a_normalisation_that_the_quantisation_undoes_costs_nothing(
    dtype: Any, scale: float, zero_point: int, mean: float, std: float
) -> None:
    target = spec("image", (1, 48, 64, 3), dtype, scale, zero_point)
    plain, normalised = (PixelScaling(target, each) for each in (None, Normalisation.of(mean, std)))
    assert (
        (normalised.in_place, normalised.flips) == (plain.in_place, plain.flips) == (True, dtype == np.int8)
    )
    normal = filled(RGB, target, channel_order="rgb")
    np.testing.assert_array_equal(
        filled(RGB, target, Normalisation.of(mean, std), channel_order="rgb"), normal
    )


def test_models_of_both_orders_share_an_image_but_no_input() -> None:
    image = CameraImage(RGB)
    target = spec("image", (1, 20, 30, 3), np.uint8)

    def made(channel_order: ChannelOrder) -> NDArray[Any]:
        preprocessor = Preprocessor(target, "stretch", channel_order=channel_order)
        return preprocessor.fill(image, preprocessor.place(WHOLE.within(64, 48)))

    first, other = made("rgb"), made("bgr")
    np.testing.assert_array_equal(first[..., ::-1], other)
    assert (made("rgb") is first, made("bgr") is other) == (True, True)


def test_grey_has_no_order() -> None:
    grey = np.ascontiguousarray(RGB[:, :, 1])
    for pixels, channels in ((grey, 3), (RGB, 1)):
        target = spec("image", (1, 20, 30, channels), np.uint8)
        expected = filled(pixels, target, channel_order="rgb")
        np.testing.assert_array_equal(filled(pixels, target), expected)


@pytest.mark.parametrize("kind", [BodyPix, Classifier, Detector, Embedder, PoseEstimator, Segmenter])
def test_every_decoder_takes_a_channel_order_and_refuses_an_unknown_one(kind: Callable[..., Any]) -> None:
    kind(channel_order="bgr")
    with pytest.raises(InputError, match="expected a channel order of rgb or bgr; got 'gbr'"):
        kind(channel_order="gbr")


def embedder(image: TensorSpec, **options: Any) -> Embedder:
    found = Embedder(**options)
    found.bind([image], [spec("vector", (1, 9))])
    return found


def test_a_decoder_hands_the_model_its_order_and_normalisation() -> None:
    made = embedder(spec("image", (1, 48, 64, 3)), channel_order="bgr", normalisation=CAFFE)
    blue = np.full((48, 64, 3), (0, 0, 255), np.uint8)
    frame = made.preprocess(blue)
    np.testing.assert_allclose(frame.inputs["image"][0, 0, 0], [255 - 103.939, -116.779, -123.68], atol=1e-4)
    large = cv2.resize(blue, (100, 90))
    np.testing.assert_allclose(made.preprocess(large).inputs["image"], frame.inputs["image"], atol=1e-4)


def test_a_normalisation_of_three_channels_does_not_suit_a_grey_model() -> None:
    with pytest.raises(InputError, match="expected a mean and std for 1 channel; got 3"):
        embedder(spec("image", (1, 8, 8, 1)), normalisation=TORCH)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_integers_without_a_scale_cannot_be_normalised(dtype: Any) -> None:
    with pytest.raises(InputError) as refused:
        embedder(spec("image", (1, 8, 8, 3), dtype), normalisation=Normalisation.of_range(-1.0, 1.0))
    assert str(refused.value) == (
        f"expected neither input_range nor mean and std for 'image' {np.dtype(dtype)}[1, 8, 8, 3], which has "
        "no scale; got mean [127.5], std [127.5]"
    )


@pytest.mark.parametrize(("mean", "std"), [(0.0, 1e-40), (1e39, 1.0), (0.0, 5e-324)])
def test_numbers_beyond_float32_are_refused(mean: float, std: float) -> None:
    with pytest.raises(InputError, match="expected a mean and std that give numbers within float32; got"):
        Normalisation.of(mean, std)


@pytest.mark.parametrize(
    ("limits", "came"),
    [
        ((-1e39, 0.0), "-1e+39..0.0"),
        ((-1e308, 1e308), "-1e+308..1e+308"),
        ((0.0, float("inf")), "0.0..inf"),
        ((float("nan"), 1.0), "nan..1.0"),
        ((1.0, 1.0), "1.0..1.0"),
        ((0.0, 1e-310), "0.0..1e-310"),  # 0 in float32
        ((1.0, 1.00000001), "1.0..1.00000001"),  # 1 in float32
    ],
)
def test_a_range_that_float32_cannot_hold_is_refused(limits: tuple[float, float], came: str) -> None:
    with pytest.raises(InputError) as refused:
        Normalisation.of_range(*limits)
    assert str(refused.value) == f"expected black < white, both within float32; got {came}"


@pytest.mark.parametrize("limits", [(0.0, 1e-36), (-3.4e38, 3.4e38), (1.0, 1.0000002)])
def test_a_range_that_float32_can_hold_gives_its_limits(limits: tuple[float, float]) -> None:
    made = embedder(spec("image", (1, 1, 2, 3)), normalisation=Normalisation.of_range(*limits))
    levels = np.array([[[0] * 3, [255] * 3]], np.uint8)
    found = made.preprocess(levels).inputs["image"]
    np.testing.assert_allclose(found[0, 0, :, 0], np.float32(limits), rtol=1e-7)
