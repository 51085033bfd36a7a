"""Real matrices in the eight bits of a Dense model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.errors import InputError
from edgetpu_driver.tensor import TensorSpec
from edgetpu_matrix.scaling import DenseRange, fit

random = np.random.default_rng(1)


def spec(dtype: type, scale: float, zero_point: int) -> TensorSpec:
    return TensorSpec("t", (1, 4), np.dtype(dtype), scale, zero_point)


def test_the_range_of_a_model_is_symmetric() -> None:
    dense = DenseRange.of(spec(np.uint8, 0.5, 127), spec(np.uint8, 0.02, 129))
    assert dense == DenseRange(input_scale=0.5, output_scale=0.02, output_limit=pytest.approx(126 * 0.02))


def test_a_model_of_floats_is_refused() -> None:
    with pytest.raises(InputError, match="8-bit"):
        DenseRange.of(spec(np.float32, 0.0, 0), spec(np.uint8, 0.02, 129))


def test_rows_fill_their_range_and_are_whole_steps(
    dense: DenseRange, row_scales: NDArray[np.float32]
) -> None:
    matrix = random.choice([-1.0, 0.5, 1.0], (10, 256)) * 10.0 ** np.arange(-5, 5)[:, None]
    steps = fit(matrix, dense, row_scales).weights / row_scales[:10, None]
    assert np.abs(steps).max(axis=1) == pytest.approx(np.full(10, 127), rel=0.1)
    assert np.abs(steps - np.rint(steps)).max() < 1e-4


def test_a_row_longer_than_most_is_shortened(dense: DenseRange) -> None:
    matrix = np.eye(16)
    matrix[0] = 1.0
    steps = fit(matrix, dense, np.ones(16, np.float32)).weights
    assert steps[1].max() == 127
    assert steps[0].max() == round(127 / 4)


def test_the_matrix_in_force_is_off_by_half_a_step(
    dense: DenseRange, row_scales: NDArray[np.float32]
) -> None:
    matrix = random.normal(size=(256, 256))
    error = np.abs(fit(matrix, dense, row_scales).in_force - matrix)
    assert np.median(error.max(axis=1) / np.abs(matrix).max(axis=1)) < 0.501 / 127


def test_a_row_of_zeros_stays_one(dense: DenseRange, row_scales: NDArray[np.float32]) -> None:
    fitted = fit([[0.0, 0.0], [1.0, -1.0]], dense, row_scales)
    assert fitted.in_force == pytest.approx(np.array([[0, 0], [1, -1]]))


@pytest.mark.parametrize("rescale_rows", [False, True], ids=["compiled scales", "rescaled rows"])
@pytest.mark.parametrize("columns", [1, 16, 256])
def test_no_input_whatsoever_clips_an_output(eight_bits: Any, columns: int, rescale_rows: bool) -> None:
    matrix = random.normal(size=(64, columns))
    model = eight_bits(matrix, rescale_rows=rescale_rows)
    for vector in (*matrix, np.ones(columns), np.eye(columns)[0] * 1e-6, random.normal(size=columns) * 1e6):
        model.multiply(vector)
    assert model.clipped == 0


@pytest.mark.parametrize("rescale_rows", [False, True], ids=["compiled scales", "rescaled rows"])
def test_random_products_are_as_good_as_eight_bits_allow(eight_bits: Any, rescale_rows: bool) -> None:
    matrix = random.uniform(-1, 1, (256, 256))
    model = eight_bits(matrix, crest=4.0, rescale_rows=rescale_rows)
    errors, products = [], []
    for _ in range(50):
        vector = random.uniform(-1, 1, 256)
        products.append(matrix @ vector)
        errors.append(model.multiply(vector).outputs - products[-1])
    # An output step of 4 / 126 of the root mean square alone makes 0.0092.
    assert np.std(errors) / np.std(products) < 0.0125
    assert model.clipped <= 4


def test_zeros_are_multiplied_at_the_scale_of_the_model(
    dense: DenseRange, row_scales: NDArray[np.float32]
) -> None:
    fitted = fit(np.eye(4), dense, row_scales)
    assert fitted.input_scale(np.zeros(4)) == dense.input_scale


def test_scaling_a_fitted_matrix_scales_what_is_in_force(
    dense: DenseRange, row_scales: NDArray[np.float32]
) -> None:
    fitted = fit(np.eye(4), dense, row_scales)
    assert fitted.scaled(3.0).in_force == pytest.approx(3 * fitted.in_force)
    assert np.array_equal(fitted.scaled(3.0).weights, fitted.weights)


@pytest.mark.parametrize("matrix", [[[np.nan]], [[np.inf]], [1.0], np.zeros((0, 3))])
def test_what_is_no_finite_matrix_is_refused(dense: DenseRange, matrix: object) -> None:
    with pytest.raises(InputError, match="expected a matrix"):
        fit(matrix, dense)
