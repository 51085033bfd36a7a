"""Resizing: exact averages over the area of each new pixel."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.images.resizing import resize

RANDOM = np.random.default_rng(2)


def test_resizing_averages_over_whole_cells() -> None:
    image = RANDOM.integers(0, 256, (6, 8), np.uint8)
    means = image.reshape(2, 3, 4, 2).mean(axis=(1, 3))
    assert np.array_equal(resize(image, 2, 4), np.rint(means))


def test_resizing_weighs_pixels_by_their_share_of_a_cell() -> None:
    # Three pixels into two cells: half of the middle one belongs to each.
    assert resize(np.array([[0, 90, 240]], np.uint8), 1, 2).tolist() == [[30, 190]]


def shares(pixels: int, cells: int) -> NDArray:
    """Share of each cell that each pixel covers, [cells, pixels]."""
    edges = np.arange(cells + 1) * pixels / cells
    pixel = np.arange(pixels)
    inside = np.minimum(edges[1:, None], pixel + 1) - np.maximum(edges[:-1, None], pixel)
    return np.maximum(inside, 0) * cells / pixels


@pytest.mark.parametrize(
    ("height", "width"),
    [(480, 640), (480, 752), (720, 1280), (375, 1242), (128, 96), (64, 100), (70, 70), (600, 64)],
)
@pytest.mark.parametrize("channels", [(), (3,)], ids=["grey", "rgb"])
def test_resizing_rounds_the_exact_average(height: int, width: int, channels: tuple[int, ...]) -> None:
    image = RANDOM.integers(0, 256, (height, width, *channels), np.uint8)
    rows = np.tensordot(shares(height, 64), image.astype(float), (1, 0))
    exact = np.moveaxis(np.tensordot(rows, shares(width, 64), (1, 1)), -1, 1)
    assert np.abs(resize(image, 64, 64) - exact).max() <= 0.5 + 1e-9


def test_resizing_rounds_halves_to_even() -> None:
    assert resize(np.array([[0, 1, 1, 2]], np.uint8), 1, 2).tolist() == [[0, 2]]


def test_resizing_takes_a_view_of_a_larger_image() -> None:
    image = RANDOM.integers(0, 256, (480, 700, 3), np.uint8)
    view = image[:, 30:670, ::-1]
    assert np.array_equal(resize(view, 64, 64), resize(view.copy(), 64, 64))


def test_a_result_outlives_the_next_images() -> None:
    images = [RANDOM.integers(0, 256, shape, np.uint8) for shape in ((480, 640), (96, 128, 3), (720, 1280))]
    alone = [resize(image, 64, 64).copy() for image in images]
    kept = [resize(image, 64, 64) for image in (*images, *images[::-1])]
    assert all(np.array_equal(a, b) for a, b in zip(kept, (*alone, *alone[::-1]), strict=True))


def test_threads_resize_at_the_same_time() -> None:
    images = [np.full((480, 640), level, np.uint8) for level in range(4)] * 10
    with ThreadPoolExecutor(4) as pool:
        results = pool.map(lambda image: np.unique(resize(image, 64, 64)).tolist(), images)
        assert list(results) == [[level] for level in range(4)] * 10


def test_resizing_has_no_bias() -> None:
    image = RANDOM.integers(0, 256, (480, 640), np.uint8)
    assert resize(image, 64, 64).mean() == pytest.approx(image.mean(), abs=0.03)


def test_small_images_are_interpolated() -> None:
    assert resize(np.array([[0, 100]], np.uint8), 1, 4).tolist() == [[0, 25, 75, 100]]


def test_a_wide_strip_is_averaged_along_its_width_and_interpolated_along_its_height() -> None:
    image = RANDOM.integers(0, 256, (2, 640, 3), np.uint8)
    averaged = image.reshape(2, 64, 10, 3).mean(axis=2)
    assert np.abs(resize(image, 4, 64)[[0, 3]] - averaged).max() <= 0.5
    assert np.array_equal(resize(image.transpose(1, 0, 2), 64, 4), resize(image, 4, 64).transpose(1, 0, 2))


def test_sizes_that_share_no_factor_are_averaged_exactly() -> None:
    image = RANDOM.integers(0, 256, (131, 97), np.uint8)
    exact = shares(131, 64) @ image.astype(float) @ shares(97, 64).T
    assert np.abs(resize(image, 64, 64) - exact).max() <= 0.5 + 1e-9


def test_an_image_of_many_strips_is_summed_in_all_of_them() -> None:
    levels = np.repeat(np.arange(64, dtype=np.uint8), 40)
    image = np.repeat(levels[:, np.newaxis], 2560, axis=1)
    assert np.array_equal(resize(image, 64, 64), np.repeat(levels[::40, np.newaxis], 64, axis=1))
