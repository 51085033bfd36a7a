from __future__ import annotations

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.images.encodings import (
    ENCODINGS,
    ImageError,
    ImageFault,
    check_image,
    decode,
    to_grey,
    to_rgb,
)

HEIGHT, WIDTH = 6, 8
RANDOM = np.random.default_rng(2)


def pixels(channels: int, dtype: type = np.uint8) -> NDArray:
    shape = (HEIGHT, WIDTH, channels) if channels > 1 else (HEIGHT, WIDTH)
    return RANDOM.integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)


def decoded(encoding: str, image: NDArray, bigendian: bool = False) -> NDArray:
    return decode(encoding, HEIGHT, WIDTH, image.nbytes // HEIGHT, image.tobytes(), bigendian)


@pytest.mark.parametrize(("encoding", "channels"), [("mono8", 1), ("rgb8", 3)])
def test_grey_and_rgb_pixels_are_unchanged(encoding: str, channels: int) -> None:
    image = pixels(channels)
    assert np.array_equal(decoded(encoding, image), image)


@pytest.mark.parametrize(
    ("encoding", "order"),
    [("bgr8", (2, 1, 0)), ("rgba8", (0, 1, 2)), ("bgra8", (2, 1, 0))],
)
def test_channels_are_reordered_and_alpha_is_dropped(encoding: str, order: tuple[int, ...]) -> None:
    image = pixels(len(encoding) - 1)
    assert np.array_equal(decoded(encoding, image), image[..., order])


@pytest.mark.parametrize(
    ("encoding", "code"),
    [
        ("bayer_rggb8", cv2.COLOR_BayerBG2RGB),
        ("bayer_bggr8", cv2.COLOR_BayerRG2RGB),
        ("bayer_gbrg8", cv2.COLOR_BayerGR2RGB),
        ("bayer_grbg8", cv2.COLOR_BayerGB2RGB),
    ],
)
def test_bayer_patterns_are_interpolated_as_cv_bridge_does(encoding: str, code: int) -> None:
    image = pixels(1)
    assert np.array_equal(decoded(encoding, image), cv2.cvtColor(image, code))


@pytest.mark.parametrize(
    ("encoding", "row"),
    [
        ("bayer_rggb8", [[255, 0], [0, 0]]),
        ("bayer_grbg8", [[0, 255], [0, 0]]),
        ("bayer_gbrg8", [[0, 0], [255, 0]]),
        ("bayer_bggr8", [[0, 0], [0, 255]]),
    ],
)
def test_the_letters_of_a_bayer_pattern_are_its_first_two_rows(encoding: str, row: list[list[int]]) -> None:
    red_sensor = np.tile(np.array(row, np.uint8), (HEIGHT // 2, WIDTH // 2))
    assert decoded(encoding, red_sensor)[2:4, 2:4].tolist() == [[[255, 0, 0]] * 2] * 2


@pytest.mark.parametrize(("unnamed", "channels", "encoding"), [("8UC1", 1, "mono8"), ("8UC3", 3, "bgr8")])
def test_arrays_without_an_encoding_are_bgr(unnamed: str, channels: int, encoding: str) -> None:
    image = pixels(channels)
    assert np.array_equal(decoded(unnamed, image), decoded(encoding, image))


@pytest.mark.parametrize(
    ("encoding", "code"),
    [
        ("yuv422", cv2.COLOR_YUV2RGB_UYVY),
        ("uyvy", cv2.COLOR_YUV2RGB_UYVY),
        ("yuv422_yuy2", cv2.COLOR_YUV2RGB_YUY2),
        ("yuyv", cv2.COLOR_YUV2RGB_YUY2),
    ],
)
def test_yuv422_is_converted_as_cv_bridge_does(encoding: str, code: int) -> None:
    image = pixels(2)
    assert np.array_equal(decoded(encoding, image), cv2.cvtColor(image, code))


def test_a_white_pixel_of_yuv422_has_its_luma_in_the_right_byte() -> None:
    uyvy = np.tile(np.array([128, 235], np.uint8), (HEIGHT, WIDTH))
    assert np.all(decode("yuv422", HEIGHT, WIDTH, 2 * WIDTH, uyvy.tobytes()) == 255)
    assert np.all(decode("yuv422_yuy2", HEIGHT, WIDTH, 2 * WIDTH, uyvy[:, ::-1].tobytes()) == 255)


@pytest.mark.parametrize("bigendian", [False, True], ids=["little endian", "big endian"])
def test_16_bits_become_8_by_rounding(bigendian: bool) -> None:
    image = pixels(1, np.uint16)
    image[0, :4] = [0, 128, 129, 65535]  # 65535 / 255 = 257 steps each; 128 is the last one rounded down
    expected = np.rint(image / 257).astype(np.uint8)
    assert expected[0, :4].tolist() == [0, 0, 1, 255]
    assert np.array_equal(decoded("mono16", image.astype(">u2" if bigendian else "<u2"), bigendian), expected)


def test_16_bits_of_bayer_are_interpolated_before_they_become_8() -> None:
    image = pixels(1, np.uint16)
    expected = np.rint(cv2.cvtColor(image, cv2.COLOR_BayerBG2RGB) / 257).astype(np.uint8)
    assert np.array_equal(decoded("bayer_rggb16", image), expected)


def test_padding_at_the_end_of_rows_is_skipped() -> None:
    image = pixels(3)
    padded = np.pad(image.reshape(HEIGHT, -1), ((0, 0), (0, 5)), constant_values=99)
    assert np.array_equal(decode("bgr8", HEIGHT, WIDTH, 3 * WIDTH + 5, padded.tobytes()), image[..., ::-1])


def test_padding_is_skipped_with_16_bits() -> None:
    image = pixels(1, np.uint16)
    padded = np.pad(image, ((0, 0), (0, 3)), constant_values=9999)
    assert np.array_equal(
        decode("mono16", HEIGHT, WIDTH, 2 * WIDTH + 6, padded.tobytes()), decoded("mono16", image)
    )


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize(("height", "width"), [(1, 2), (2, 2), (3, 2), (3, 6)])
def test_every_encoding_accepts_the_smallest_images(encoding: str, height: int, width: int) -> None:
    data = bytes(height * width * 8)
    assert decode(encoding, height, width, width * 8, data).shape[:2] == (height, width)


@pytest.mark.parametrize(
    ("encoding", "height", "width", "step", "length", "fault", "message"),
    [
        ("mono8", 0, 8, 8, 0, ImageFault.EMPTY, "at least one pixel; got 8x0"),
        ("mono8", 6, 0, 0, 0, ImageFault.EMPTY, "at least one pixel; got 0x6"),
        ("mono9", 6, 8, 8, 48, ImageFault.ENCODING, "got 'mono9'"),
        ("", 6, 8, 8, 48, ImageFault.ENCODING, "got ''"),
        ("rgb8", 6, 8, 8, 48, ImageFault.STEP, "at least 24 bytes a row for rgb8; got 8"),
        ("mono16", 6, 8, 8, 48, ImageFault.STEP, "at least 16 bytes a row for mono16; got 8"),
        ("yuv422", 6, 7, 14, 84, ImageFault.WIDTH, "an even width for yuv422; got 7"),
        ("mono8", 6, 8, 8, 47, ImageFault.LENGTH, "6 rows of 8 = 48 bytes; got 47"),
        ("mono8", 6, 8, 8, 49, ImageFault.LENGTH, "6 rows of 8 = 48 bytes; got 49"),
        ("mono8", 2**31, 2**31, 2**31, 10, ImageFault.LENGTH, "got 10"),
    ],
)
def test_malformed_images_are_refused_with_expected_and_actual_values(
    encoding: str, height: int, width: int, step: int, length: int, fault: ImageFault, message: str
) -> None:
    with pytest.raises(ImageError, match=message) as caught:
        decode(encoding, height, width, step, bytes(length))
    assert caught.value.fault is fault


def test_grey_is_the_luma_of_rec_601() -> None:
    colors = np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 255]]], np.uint8)
    assert to_grey(colors).tolist() == [[76, 150, 29, 255]]


def test_grey_as_rgb_has_its_brightness_in_every_channel() -> None:
    assert to_rgb(np.array([[7, 9]], np.uint8)).tolist() == [[[7, 7, 7], [9, 9, 9]]]


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((4, 4), np.float32),
        np.zeros((4, 4, 4), np.uint8),
        np.zeros((4,), np.uint8),
        np.zeros((0, 4), np.uint8),
    ],
    ids=["float", "four channels", "one dimension", "no pixel"],
)
def test_arrays_that_are_not_images_are_refused(array: NDArray) -> None:
    with pytest.raises(ImageError, match="expected"):
        check_image(array)
