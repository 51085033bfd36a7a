"""Layers learned from examples."""

from __future__ import annotations

import numpy as np
import pytest

from edgetpu_vision.learning.layer_training import PENALTY, LinearLayer, imprint, regress
from edgetpu_vision.learning.taught_examples import ExampleSet


def examples(counts: tuple[int, ...], dimension: int, seed: int = 0, spread: float = 1.0) -> ExampleSet:
    """Unit vectors around one random direction a class."""
    rng = np.random.default_rng(seed)
    numbers = np.repeat(np.arange(len(counts)), counts)
    directions = np.abs(rng.normal(size=(len(counts), dimension)))
    vectors = directions[numbers] + spread * rng.normal(size=(len(numbers), dimension))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return ExampleSet(tuple(f"class {index}" for index in range(len(counts))), vectors, numbers)


def gradient(layer: LinearLayer, shown: ExampleSet) -> tuple[np.ndarray, np.ndarray]:
    """Of the loss of softmax regression with classes of equal weight, written as in a textbook."""
    count = len(shown.labels)
    weights, bias = PENALTY * layer.weights, np.zeros(count)
    for vector, number in zip(shown.vectors, shown.numbers, strict=True):
        logits = layer.weights @ vector + layer.bias
        errors = np.exp(logits) / np.exp(logits).sum() - np.eye(count)[number]
        errors /= count * np.count_nonzero(shown.numbers == number)
        weights += np.outer(errors, vector)
        bias += errors
    return weights, bias


@pytest.mark.parametrize("dimension", [4, 12, 60], ids=["fewer", "as many", "more"])
def test_softmax_regression_ends_where_the_loss_is_least(dimension: int) -> None:
    shown = examples((5, 1, 6), dimension)
    layer = regress(shown)
    assert max(np.abs(part).max() for part in gradient(layer, shown)) < 2e-6


def test_one_class_needs_no_layer() -> None:
    layer = regress(examples((3,), 6))
    assert (layer.weights.tolist(), layer.bias.tolist()) == ([[0] * 6], [0])


def test_imprinted_rows_are_normalised_means() -> None:
    shown = ExampleSet(("a", "b"), np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1.0]]), np.array([0, 0, 1]))
    layer = imprint(shown)
    np.testing.assert_allclose(layer.weights, [[0.5**0.5, 0.5**0.5, 0], [0, 0, 1]])
    assert layer.bias.tolist() == [0, 0]


def test_classes_that_are_hard_to_tell_apart_get_less_certain_probabilities() -> None:
    easy, hard = (imprint(examples((8, 8), 20, spread=spread)).sharpness for spread in (0.3, 3.0))
    assert (easy, hard) == (32.0, 1.0)
