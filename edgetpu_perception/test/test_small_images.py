"""Optical flow in images of fewer px than the model's input, such as a small region or a thermal camera's."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_perception.graphs.flow_and_compass_features import ROUGHNESS, feature_kernel
from edgetpu_perception.optical_flow.magnification import NONE, Magnification
from edgetpu_perception.optical_flow.optical_flow import OpticalFlow

Image = NDArray[np.uint8]

TEXELS = 16
"""Texels of a photograph per px of a window: windows can be 1/16 px apart, exactly."""


@pytest.fixture(scope="module")
def photographs() -> list[NDArray[np.float64]]:
    data = pytest.importorskip("skimage.data", reason="needs scikit-image for photographs")
    photos = (getattr(data, name)() for name in ("camera", "coffee", "gravel", "chelsea", "grass"))
    grey = (photo if photo.ndim == 2 else cv2.cvtColor(photo, cv2.COLOR_RGB2GRAY) for photo in photos)
    return [cv2.resize(photo, (40 * TEXELS, 40 * TEXELS)).astype(np.float64) for photo in grey]


def window(
    photo: NDArray[np.float64], x: int, y: int, size: tuple[int, int], random: np.random.Generator
) -> Image:
    """A window of width x height px, with noise of 2 grey levels; x, y: its first texel."""
    width, height = size
    texels = photo[y : y + height * TEXELS, x : x + width * TEXELS]
    px = texels.reshape(height, TEXELS, width, TEXELS).mean(axis=(1, 3))
    return np.clip(np.rint(px + random.normal(0, 2, px.shape)), 0, 255).astype(np.uint8)


def errors_over_sigmas(
    photographs: list[NDArray[np.float64]], size: tuple[int, int], model_size: int = 64
) -> NDArray[np.float64]:
    """Errors of the valid results of 100 pairs, in their standard deviations: [n, 2]."""
    pytest.importorskip("ai_edge_litert", reason="needs LiteRT")
    random, flow, errors = np.random.default_rng(1), OpticalFlow(size=model_size), []
    for photo in photographs * 20:
        dx, dy = random.integers(-2 * TEXELS, 2 * TEXELS + 1, 2).tolist()
        x, y = random.integers(2 * TEXELS, 10 * TEXELS, 2).tolist()
        flow.reset()
        flow.update(window(photo, x, y, size, random), 0.0)
        result = flow.update(window(photo, x - dx, y - dy, size, random), 0.1)
        if result.valid:
            right, down = result.dx - dx / TEXELS, result.dy - dy / TEXELS
            errors.append((right / result.dx_sigma, down / result.dy_sigma))
    return np.array(errors)


@pytest.mark.parametrize("size", [(20, 20), (28, 28), (28, 20)])
def test_sigmas_are_honest(photographs: list[NDArray[np.float64]], size: tuple[int, int]) -> None:
    errors = errors_over_sigmas(photographs, size)
    assert len(errors) >= 80
    assert 0.5 < np.mean(np.abs(errors) < 1.0) < 0.85
    assert np.mean(np.abs(errors) < 3.0) > 0.93


def test_waves_that_no_px_shows_are_in_the_sigmas(photographs: list[NDArray[np.float64]]) -> None:
    errors = errors_over_sigmas(photographs, (28, 28), model_size=128)
    assert len(errors) >= 60
    assert 0.5 < np.mean(np.abs(errors) < 1.0) < 0.85
    assert np.mean(np.abs(errors) < 3.0) > 0.93


def test_features_of_larger_images_are_taken_as_they_are() -> None:
    assert Magnification.of(width=320, height=240, columns=64, rows=64) == NONE
    assert Magnification.of(width=48, height=43, columns=64, rows=64) == NONE
    features, inside = np.ones((3, 52, 52), np.float32), np.ones((52, 52), bool)
    assert NONE.smoothed(features, inside)[0] is features
    assert NONE.roughness == ROUGHNESS
    assert NONE.independent == 1.0
    np.testing.assert_array_equal(NONE.noise_kernel, feature_kernel())


def test_each_axis_has_its_own_magnification() -> None:
    magnification = Magnification.of(width=640, height=16, columns=64, rows=64)
    assert magnification == (1.0, 4.0)
    features = np.zeros((1, 52, 52), np.float32)
    features[0, 26, 26] = 1.0
    smooth, _ = magnification.smoothed(features, np.ones((52, 52), bool))
    assert np.flatnonzero(smooth[0].any(axis=0)).tolist() == [26]
    assert (64 * smooth[0, 22:31, 26]).tolist() == [1, 4, 8, 12, 14, 12, 8, 4, 1]
    assert smooth.sum() == pytest.approx(1.0)


def test_a_clipped_feature_has_no_part_in_an_average() -> None:
    inside = np.ones((52, 52), bool)
    inside[26, 26] = False
    smooth, weight = Magnification(3.0, 3.0).smoothed(np.zeros((3, 52, 52), np.float32), inside)
    used = np.argwhere(weight[3:-3, 3:-3] == 0) + 3
    assert used.min(axis=0).tolist() == [24, 24]
    assert used.max(axis=0).tolist() == [28, 28]
    assert smooth.shape == (3, 52, 52)


def test_noise_of_a_px_spreads_as_the_kernel_tells() -> None:
    random, size, magnification = np.random.default_rng(2), 32, Magnification(4.0, 4.0)
    image = random.normal(size=(size, size)).astype(np.float32)
    enlarged = cv2.resize(image, None, fx=4, fy=4, interpolation=cv2.INTER_LINEAR)
    features = cv2.filter2D(enlarged, -1, feature_kernel())[np.newaxis]
    seen = magnification.smoothed(features, np.ones(enlarged.shape, bool))[0][0, 20:-20, 20:-20]
    # Sixteen cells for each px, each of which counts with the kernel's weights at its distance.
    told = np.square(magnification.noise_kernel).sum() * 16
    assert np.mean(np.square(seen)) == pytest.approx(told, rel=0.25)
