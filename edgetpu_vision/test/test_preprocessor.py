"""From an image to a model's input: size, numbers, and back to px of the image."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.errors import InputError, ModelUnsupportedError
from edgetpu_driver.images.conversion_cache import CameraImage
from edgetpu_driver.images.region import WHOLE, Region
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_vision.preprocessing.image_fit import Fit, Placement, check_fit
from edgetpu_vision.preprocessing.pixel_scaling import Normalisation, covers
from edgetpu_vision.preprocessing.preprocessor import PADDING, Preprocessor, image_input


def spec(
    height: int, width: int, dtype: Any = np.uint8, scale: float = 0.0, zero_point: int = 0, channels: int = 3
) -> TensorSpec:
    return TensorSpec("image", (1, height, width, channels), np.dtype(dtype), scale, zero_point)


def filled(
    pixels: NDArray[np.uint8],
    target: TensorSpec,
    fit: Fit = "stretch",
    normalisation: Normalisation | None = None,
    region: Region = WHOLE,
) -> NDArray[Any]:
    image = CameraImage(pixels)
    preprocessor = Preprocessor(target, fit, normalisation)
    return preprocessor.fill(image, preprocessor.place(region.within(image.width, image.height)))


@pytest.fixture
def picture() -> NDArray[np.uint8]:
    return np.random.default_rng(3).integers(0, 256, (48, 64, 3), np.uint8)


def test_an_image_of_the_inputs_size_is_taken_as_it_is(picture: NDArray[np.uint8]) -> None:
    np.testing.assert_array_equal(filled(picture, spec(48, 64)), picture[None])


def test_stretching_is_opencvs_linear_interpolation(picture: NDArray[np.uint8]) -> None:
    expected = cv2.resize(picture, (30, 20), interpolation=cv2.INTER_LINEAR)
    np.testing.assert_array_equal(filled(picture, spec(20, 30))[0], expected)


def test_a_letterboxed_image_is_centred_between_grey_bars(picture: NDArray[np.uint8]) -> None:
    expected = np.full((32, 32, 3), PADDING, np.uint8)
    expected[4:28] = cv2.resize(picture, (32, 24), interpolation=cv2.INTER_LINEAR)
    np.testing.assert_array_equal(filled(picture, spec(32, 32), "letterbox")[0], expected)


def test_an_upright_image_has_its_bars_next_to_it(picture: NDArray[np.uint8]) -> None:
    upright = np.ascontiguousarray(picture.transpose(1, 0, 2))
    expected = np.full((32, 32, 3), PADDING, np.uint8)
    expected[:, 4:28] = cv2.resize(upright, (24, 32), interpolation=cv2.INTER_LINEAR)
    np.testing.assert_array_equal(filled(upright, spec(32, 32), "letterbox")[0], expected)


def test_only_the_region_is_taken(picture: NDArray[np.uint8]) -> None:
    cut = picture[10:30, 5:35]
    np.testing.assert_array_equal(filled(picture, spec(20, 30), region=Region(5, 10, 30, 20))[0], cut)


def test_int8_inputs_take_grey_levels_less_128(picture: NDArray[np.uint8]) -> None:
    result = filled(picture, spec(48, 64, np.int8, 1 / 255, -128))
    assert result.dtype == np.int8
    np.testing.assert_array_equal(result[0], picture.astype(int) - 128)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize(
    ("mean", "std"),
    [((0, 0, 0), (2, 2, 2)), ((3, 3, 3), (61, 61, 61)), ((1, 2, 3), (60, 61, 62))],
    ids=["grey levels", "one line", "a line for each channel"],
)
def test_a_region_of_the_inputs_size_is_converted_and_the_image_left_as_it_is(
    picture: NDArray[np.uint8], mean: tuple[float, ...], std: tuple[float, ...], dtype: Any
) -> None:
    before = picture.copy()
    scale, zero_point = (0.5, np.iinfo(dtype).min) if std[0] == 2 else (0.02, -3 if dtype == np.int8 else 3)
    target = spec(32, 32, dtype, scale, zero_point)
    result = filled(picture, target, "letterbox", Normalisation.of(mean, std), Region(5, 10, 32, 24))
    expected = target.quantise((picture[10:34, 5:37] - np.array(mean)) / np.array(std))
    np.testing.assert_array_equal(result[0, 4:28], expected)
    np.testing.assert_array_equal(picture, before)


def test_float_inputs_take_0_to_1_by_default(picture: NDArray[np.uint8]) -> None:
    result = filled(picture, spec(48, 64, np.float32))
    assert result.dtype == np.float32
    np.testing.assert_allclose(result[0], picture / 255, atol=1e-7)


def test_float_inputs_are_normalised(picture: NDArray[np.uint8]) -> None:
    result = filled(picture, spec(48, 64, np.float32), normalisation=Normalisation.of(127.5, 127.5))
    np.testing.assert_allclose(result[0], (picture - 127.5) / 127.5, atol=1e-7)


@pytest.mark.parametrize("size", [(32, 32), (24, 40)], ids=["bars above and below", "bars left and right"])
def test_a_letterboxed_float_input_has_grey_bars_too(
    picture: NDArray[np.uint8], size: tuple[int, int]
) -> None:
    dim = picture // 2 + 20  # neither black nor white
    pixels = filled(dim, spec(*size), "letterbox")
    expected = (pixels - np.float32(127.5)) / np.float32(127.5)
    result = filled(dim, spec(*size, np.float32), "letterbox", Normalisation.of(127.5, 127.5))
    assert (result.shape, result.flags.c_contiguous) == ((1, *size, 3), True)
    np.testing.assert_allclose(result, expected, atol=1e-6)


def test_a_float_input_may_be_a_negative(picture: NDArray[np.uint8]) -> None:
    result = filled(picture, spec(48, 64, np.float32), normalisation=Normalisation.of(255.0, -255.0))
    np.testing.assert_allclose(result[0], 1 - picture / 255, atol=1e-6)


def test_each_channel_has_its_normalisation(picture: NDArray[np.uint8]) -> None:
    mean, std = (10.0, 20.0, 30.0), (1.0, 2.0, 4.0)
    result = filled(picture, spec(48, 64, np.float32), normalisation=Normalisation.of(mean, std))
    np.testing.assert_allclose(result[0], (picture - np.array(mean)) / np.array(std), rtol=1e-6)


def test_a_quantised_input_takes_normalised_values_in_its_quantisation() -> None:
    levels = np.arange(256, dtype=np.uint8).reshape(16, 16, 1).repeat(3, axis=2)
    target = spec(16, 16, np.uint8, 0.02, 110)
    result = filled(levels, target, normalisation=Normalisation.of(128.0, 64.0))
    np.testing.assert_array_equal(result[0], target.quantise((levels - 128.0) / 64.0))


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize(
    ("mean", "std", "scale", "zero_point"),
    [
        (127.5, 127.5, 1 / 64, 3),  # clips
        (0.0, 255.0, 1 / 255 * 2, -7),  # every other level in the middle between two integers
        (118.3, -57.1, 0.037, 11),  # a negative
        (0.0, 2.0, 3.7, 0),
    ],
)
def test_the_numbers_of_a_quantised_input_are_exact(
    mean: float, std: float, scale: float, zero_point: int, dtype: Any, channels: int
) -> None:
    levels = np.random.default_rng(5).permutation(np.arange(17 * 61) % 256).astype(np.uint8)
    levels = levels.reshape(17, 61)
    target = spec(17, 61, dtype, scale, zero_point, channels)
    result = filled(levels, target, normalisation=Normalisation.of(mean, std))
    for channel in range(channels):
        np.testing.assert_array_equal(result[0, :, :, channel], target.quantise((levels - mean) / std))


def test_each_channel_of_a_quantised_input_has_its_normalisation(picture: NDArray[np.uint8]) -> None:
    target = spec(48, 64, np.int8, 0.02, -3)
    mean, std = (10.0, 120.0, 30.0), (50.0, 60.0, -70.0)
    result = filled(picture, target, "letterbox", Normalisation.of(mean, std))
    np.testing.assert_array_equal(result[0], target.quantise((picture - np.array(mean)) / np.array(std)))


def test_an_input_without_quantisation_takes_grey_levels(picture: NDArray[np.uint8]) -> None:
    np.testing.assert_array_equal(filled(picture, spec(48, 64, np.uint8))[0], picture)


def test_a_colour_image_becomes_grey_for_a_grey_model(picture: NDArray[np.uint8]) -> None:
    expected = cv2.resize(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY), (30, 20))
    np.testing.assert_array_equal(filled(picture, spec(20, 30, channels=1))[0, :, :, 0], expected)


def test_a_grey_image_has_three_equal_channels_for_a_colour_model(picture: NDArray[np.uint8]) -> None:
    grey = np.ascontiguousarray(picture[:, :, 0])
    result = filled(grey, spec(32, 32), "letterbox")[0]
    expected = cv2.resize(grey, (32, 24))
    for channel in range(3):
        np.testing.assert_array_equal(result[4:28, :, channel], expected)


def test_a_single_pixel_fills_the_input() -> None:
    assert (filled(np.full((1, 1, 3), 7, np.uint8), spec(4, 6)) == 7).all()
    assert (filled(np.full((1, 1, 3), 7, np.uint8), spec(4, 6, channels=1)) == 7).all()


def test_a_long_thin_image_keeps_at_least_a_row() -> None:
    result = filled(np.full((1, 5000, 3), 7, np.uint8), spec(10, 10), "letterbox")[0]
    assert (result[:, 0, 0] == 7).sum() == 1


def test_models_with_the_same_input_share_the_array(picture: NDArray[np.uint8]) -> None:
    image = CameraImage(picture)
    region = WHOLE.within(64, 48)

    def made(*arguments: Any) -> NDArray[Any]:
        preprocessor = Preprocessor(*arguments)
        return preprocessor.fill(image, preprocessor.place(region))

    first = made(spec(20, 30), "stretch")
    assert made(spec(20, 30), "stretch") is first
    assert not first.flags.writeable
    for other in (
        (spec(20, 31), "stretch"),
        (spec(20, 30), "letterbox"),
        (spec(20, 30, np.int8), "stretch"),
        (spec(20, 30), "stretch", Normalisation.of(0.0, 2.0)),
    ):
        assert made(*other) is not first


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.float32])
def test_the_memory_of_an_input_is_reused_once_it_is_free(picture: NDArray[np.uint8], dtype: Any) -> None:
    preprocessor = Preprocessor(spec(32, 32, dtype), "letterbox")
    placement = preprocessor.place(WHOLE.within(64, 48))

    def made() -> NDArray[Any]:
        return preprocessor.fill(CameraImage(picture), placement)

    row = made()[0, 3]  # a part keeps the whole
    place = row.ctypes.data
    kept = [made(), made(), row]
    assert len({each.ctypes.data for each in [*(each[0, 3] for each in kept[:2]), row]}) == 3
    del row, kept
    assert made()[0, 3].ctypes.data == place


def test_an_input_in_use_keeps_its_values(picture: NDArray[np.uint8]) -> None:
    preprocessor = Preprocessor(spec(32, 32), "letterbox")
    placement = preprocessor.place(WHOLE.within(64, 48))
    first = preprocessor.fill(CameraImage(picture), placement)
    values = first.copy()
    for _ in range(5):
        preprocessor.fill(CameraImage(255 - picture), placement)
    np.testing.assert_array_equal(first, values)


def test_an_image_of_another_size_leaves_nothing_of_the_last_one() -> None:
    target = spec(32, 32, np.float32)
    preprocessor = Preprocessor(target, "letterbox")
    for height, width in ((48, 64), (64, 48), (48, 64), (20, 20)):
        pixels = np.full((height, width, 3), 200, np.uint8)
        placement = preprocessor.place(WHOLE.within(width, height))
        for _ in range(2):
            result = preprocessor.fill(CameraImage(pixels), placement)
            np.testing.assert_array_equal(result, filled(pixels, target, "letterbox"))
            assert np.unique(result).size == (1 if height == width else 2)


@pytest.mark.parametrize("fit", ["stretch", "letterbox"])
def test_corners_of_the_filled_part_are_those_of_the_region(fit: Fit) -> None:
    region = Region(100, 40, 320, 240)
    placement = Placement.of(region, 300, 300, fit)
    right, bottom = placement.left + placement.width, placement.top + placement.height
    assert (placement.image_x(placement.left), placement.image_y(placement.top)) == (100, 40)
    assert (placement.image_x(right), placement.image_y(bottom)) == (420, 280)


def test_letterboxing_640x480_leaves_bars_above_and_below() -> None:
    placement = Placement.of(Region(0, 0, 640, 480), 300, 300, "letterbox")
    assert (placement.left, placement.top, placement.width, placement.height) == (0, 37, 300, 225)


def test_a_normalisation_meant_for_float_does_not_cover_a_quantised_input() -> None:
    target = spec(8, 8, np.uint8, 1 / 128, 128)
    assert covers(target, Normalisation.of(127.5, 127.5))
    assert not covers(target, Normalisation.of(0.0, 1.0))


def test_a_normalisation_of_other_channels_covers_no_input() -> None:
    assert not covers(spec(8, 8, np.float32), Normalisation.of((1, 2), (1, 2)))


def test_a_single_column_of_grey_levels_is_normalised() -> None:
    column, target = np.full((8, 1), 255, np.uint8), spec(8, 8, np.float32, channels=1)
    result = filled(column, target, "letterbox", Normalisation.of_range(-1.0, 1.0))
    np.testing.assert_allclose(result[0, :, 3, 0], 1.0, atol=1e-6)


@pytest.mark.parametrize(
    "shape", [(1, 8, 8, 4), (2, 8, 8, 3), (2, 8, 8), (1, 8, 7), (3, 1, 8, 8), (1, 0, 8, 3), (8, 8)], ids=str
)
def test_other_inputs_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ModelUnsupportedError, match="expected one input"):
        image_input([TensorSpec("image", shape, np.dtype(np.uint8), 0.0, 0)])


def test_an_input_of_any_size_is_refused() -> None:
    with pytest.raises(ModelUnsupportedError, match=r"of a fixed size; got 'image' uint8\[1, 1, 1, 3\]"):
        image_input([TensorSpec("image", (1, 1, 1, 3), np.dtype(np.uint8), 0.0, 0)])


def test_two_inputs_are_refused() -> None:
    with pytest.raises(ModelUnsupportedError, match="expected one input"):
        image_input([spec(8, 8), spec(8, 8)])


def test_an_input_of_other_numbers_is_refused() -> None:
    with pytest.raises(ModelUnsupportedError, match="uint8, int8, int32 or float32"):
        Preprocessor(spec(8, 8, np.int16), "stretch")


def test_a_normalisation_of_other_channels_is_refused() -> None:
    with pytest.raises(InputError, match="1 or 3 channels; got 2"):
        Preprocessor(spec(8, 8), "stretch", Normalisation.of((1, 2), (1, 2)))


@pytest.mark.parametrize(("mean", "std"), [(0, 0), (float("nan"), 1), ((1, 2), 1), ((), ())])
def test_an_unusable_normalisation_is_refused(mean: Any, std: Any) -> None:
    with pytest.raises(InputError, match="expected a finite mean and std"):
        Normalisation.of(mean, std)


def test_an_unknown_fit_is_refused() -> None:
    with pytest.raises(InputError, match="letterbox or stretch; got 'crop'"):
        check_fit("crop")


def test_equal_grey_levels_stay_as_they_are_when_rounded_down() -> None:
    for level in (1, 77, 254):
        pixels = np.full((97, 131, 3), level, np.uint8)
        preprocessor = Preprocessor(spec(64, 89), "stretch", truncates=True)
        placement = preprocessor.place(WHOLE.within(131, 97))
        assert np.unique(preprocessor.fill(CameraImage(pixels), placement)).tolist() == [level]


def test_interpolated_grey_levels_are_rounded_down_where_wanted() -> None:
    image = CameraImage(np.repeat(np.array([[10, 13, 20, 23]], np.uint8)[..., None], 3, axis=2))  # means x.5
    for truncates, expected in ((False, [12, 22]), (True, [11, 21])):
        preprocessor = Preprocessor(spec(1, 2), "stretch", truncates=truncates)
        placement = preprocessor.place(WHOLE.within(4, 1))
        assert preprocessor.fill(image, placement)[0, 0, :, 0].tolist() == expected


class Interrupted(str):
    """A fit at whose first use as a key another thread prepares an input, as it may between any two steps."""

    def __new__(cls, _other: Callable[[], object]) -> Interrupted:
        return super().__new__(cls, "stretch")

    def __init__(self, other: Callable[[], object]) -> None:
        self._others = [other]

    def __hash__(self) -> int:
        if self._others:
            self._others.pop()()
        return super().__hash__()


def test_inputs_that_two_threads_prepare_at_once_are_told_apart(picture: NDArray[np.uint8]) -> None:
    small: list[Preprocessor] = []
    fit: Any = Interrupted(lambda: small.append(Preprocessor(spec(10, 12), "stretch")))
    both = [Preprocessor(spec(20, 24), fit), *small]
    image = CameraImage(picture)
    region = WHOLE.within(image.width, image.height)
    filled = [each.fill(image, each.place(region)) for each in both]
    assert [each.shape for each in filled] == [(1, 20, 24, 3), (1, 10, 12, 3)]
