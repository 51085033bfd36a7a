"""Matrices larger than a model, tile by tile."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from edgetpu_driver.errors import InputError

random = np.random.default_rng(5)


@pytest.mark.parametrize("size", [(1, 1), (3, 256), (256, 3), (300, 256), (256, 300), (700, 600)])
def test_the_product_is_right_within_its_bound(eight_bits: Any, size: tuple[int, int]) -> None:
    model = eight_bits(random.normal(size=size))
    for vector in random.normal(size=(5, size[1])):
        product = model.multiply(vector)
        exact = model.tiled.effective @ product.inputs
        assert product.outputs.shape == (size[0],)
        assert (np.abs(product.outputs - exact) <= product.bound).all()
        assert np.std(product.outputs - exact) < 1.5 * product.sigma.max()
    assert model.clipped == 0


def test_inputs_are_rounded_finely_enough(eight_bits: Any) -> None:
    model = eight_bits(random.normal(size=(10, 300)))
    vector = random.uniform(-1, 1, 300)
    assert model.multiply(vector).inputs == pytest.approx(vector, abs=0.07)


@pytest.mark.parametrize(("passes", "left"), [(2, 0.8), (8, 0.6)])
def test_passes_average_out_what_rounding_took(eight_bits: Any, passes: int, left: float) -> None:
    repeatable = np.random.default_rng(8)
    model = eight_bits(repeatable.normal(size=(300, 300)))
    one, more, sigmas = [], [], []
    for vector in repeatable.normal(size=(10, 300)):
        exact = model.tiled.effective @ vector
        one.append(model.multiply(vector).outputs - exact)
        product = model.multiply(vector, passes)
        more.append(product.outputs - exact)
        sigmas.append(product.sigma)
        assert (np.abs(product.outputs - model.tiled.effective @ product.inputs) <= product.bound).all()
    assert np.std(more) < left * np.std(one)
    assert np.std(more) == pytest.approx(np.sqrt(np.mean(np.square(sigmas))), rel=0.4)


def test_all_rows_are_multiplied_by_the_same_rounded_vector(eight_bits: Any) -> None:
    matrix = random.normal(size=(300, 64))
    matrix[256:] = np.eye(44, 64)
    model = eight_bits(matrix)
    requests = model.tiled.requests(random.normal(size=64))
    assert requests[0].input_scale == requests[1].input_scale
    assert np.array_equal(requests[0].steps, requests[1].steps)


def test_only_tiles_with_changed_rows_are_set_again(eight_bits: Any) -> None:
    matrix = random.normal(size=(700, 300))
    model = eight_bits(matrix)
    assert len(model.tiled.tiles) == 6
    matrix[300] = 1.0
    assert model.set(matrix, {300}) == [2, 3]
    assert model.set(matrix, set()) == []
    assert model.tiled.effective[300] == pytest.approx(np.ones(300), abs=1e-2)


def test_a_matrix_that_grows_or_shrinks_keeps_what_is_unchanged(eight_bits: Any) -> None:
    matrix = random.normal(size=(300, 8))
    model = eight_bits(matrix)
    grown = np.concatenate([matrix, random.normal(size=(300, 8))])
    assert model.set(grown, set(range(300, 600))) == [1, 2]
    assert model.set(grown[:500], set(range(500, 600))) == [1]
    assert model.tiled.effective.shape == (500, 8)
    assert model.set(grown[:500, :4], set()) == [0, 1]


@pytest.mark.parametrize("vector", [[1.0], [[1.0, 2.0]], [1.0, np.nan], [np.inf, 1.0]])
def test_what_is_no_finite_vector_is_refused(eight_bits: Any, vector: Any) -> None:
    with pytest.raises(InputError, match="expected a vector"):
        eight_bits(np.eye(2)).multiply(vector)


def test_weights_that_are_not_a_matrix_are_refused(eight_bits: Any) -> None:
    with pytest.raises(InputError, match="expected a matrix"):
        eight_bits(np.ones(3))
