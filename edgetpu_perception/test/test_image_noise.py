from __future__ import annotations

import cv2
import numpy as np
import pytest

from edgetpu_perception.graphs.flow_and_compass_features import BORDER, feature_kernel
from edgetpu_perception.optical_flow.image_noise import ImageNoise

ROWS, COLUMNS = 51, 48


@pytest.fixture
def influence() -> np.ndarray:
    """Derivatives of a texture as fine as the features: [2, ROWS, COLUMNS]."""
    random = np.random.default_rng(1)
    texture = cv2.GaussianBlur(random.normal(size=(ROWS, COLUMNS)), (0, 0), 2.0)
    return np.stack(np.gradient(texture)).astype(np.float32)


def sums(features: np.ndarray, influence: np.ndarray) -> np.ndarray:
    return (influence * features).sum(axis=(1, 2))


def test_noise_of_pixels_passes_through_the_filter(influence: np.ndarray) -> None:
    random, kernel = np.random.default_rng(2), feature_kernel()
    noise = ImageNoise(ROWS, COLUMNS, kernel, step=0.0)
    inside = slice(BORDER, -BORDER)
    told, seen = [], []
    for _ in range(400):
        image = random.normal(size=(ROWS + 2 * BORDER, COLUMNS + 2 * BORDER))
        features = cv2.filter2D(image, -1, kernel)[inside, inside].astype(np.float32)
        told.append(noise.variance(influence, features, 1))
        seen.append(sums(features, influence))
    assert np.mean(told, axis=0) == pytest.approx(np.var(seen, axis=0), rel=0.15)


def test_rounding_is_independent_in_each_feature(influence: np.ndarray) -> None:
    noise = ImageNoise(ROWS, COLUMNS, feature_kernel(), step=0.5)
    features = np.full((ROWS, COLUMNS), 0.5 / np.sqrt(12), np.float32)
    expected = 0.5**2 / 12 * np.square(influence).sum(axis=(1, 2))
    assert noise.variance(influence, features, 1) == pytest.approx(expected, rel=1e-4)


def test_ignored_features_do_not_reduce_the_noise(influence: np.ndarray) -> None:
    noise = ImageNoise(ROWS, COLUMNS, feature_kernel(), step=0.0)
    features = np.random.default_rng(3).normal(size=(ROWS, COLUMNS)).astype(np.float32)
    cropped = noise.variance(influence[:, :, :20], features[:, :20], 1)
    influence[:, :, 20:] = 0
    features[:, 20:] = 0
    assert noise.variance(influence, features, 1) == pytest.approx(cropped, rel=1e-5)
