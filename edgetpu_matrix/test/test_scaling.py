"""Real matrices in the eight bits of a Dense model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.errors import InputError, ModelUnsupportedError
from edgetpu_driver.tensor import TensorSpec
from edgetpu_matrix.scaling import DenseModel, fit, quantise

random = np.random.default_rng(1)


def spec(dtype: type, scale: float, zero_point: int, columns: int = 4) -> TensorSpec:
    return TensorSpec("t", (1, columns), np.dtype(dtype), scale, zero_point)


def test_a_dense_model_is_recognised_by_its_tensors() -> None:
    dense = DenseModel.of([spec(np.uint8, 0.5, 127, columns=3)], [spec(np.uint8, 0.02, 129)])
    assert dense == DenseModel(
        rows=4, columns=3, input_scale=0.5, output_scale=0.02, output_limit=pytest.approx(126 * 0.02)
    )


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        ([spec(np.float32, 0.0, 0)], [spec(np.uint8, 0.02, 129)]),
        ([spec(np.uint8, 0.5, 127)], [spec(np.float32, 0.0, 0)]),
        ([spec(np.uint8, 0.5, 0)], [spec(np.uint8, 0.02, 129)]),
        ([spec(np.uint8, 0.5, 127)], [spec(np.uint8, 0.02, 0)]),
        ([spec(np.uint8, 0.5, 127)] * 2, [spec(np.uint8, 0.02, 129)]),
    ],
    ids=["float in", "float out", "one-sided in", "one-sided out", "two inputs"],
)
def test_any_other_model_is_refused(inputs: list[TensorSpec], outputs: list[TensorSpec]) -> None:
    with pytest.raises(ModelUnsupportedError, match="expected a Dense model"):
        DenseModel.of(inputs, outputs)


@pytest.fixture
def roomy(dense: DenseModel) -> DenseModel:
    """Like a compiled model, but its outputs hold whatever comes."""
    return replace(dense, output_limit=1e6)


def test_rows_fill_their_range_and_are_whole_steps(
    roomy: DenseModel, row_scales: NDArray[np.float32]
) -> None:
    matrix = random.choice([-1.0, 0.5, 1.0], (10, 256)) * 10.0 ** np.arange(-5, 5)[:, None]
    steps = fit(matrix, roomy, row_scales).weights / row_scales[:10, None]
    assert np.abs(steps).max(axis=1) == pytest.approx(np.full(10, 127), rel=0.1)
    assert np.abs(steps - np.rint(steps)).max() < 1e-4


def test_a_row_longer_than_most_is_shortened(roomy: DenseModel) -> None:
    matrix = np.eye(16)
    matrix[0] = 1.0
    steps = fit(matrix, roomy, np.ones(16, np.float32)).weights
    assert steps[1].max() == 127
    assert steps[0].max() == round(127 / 4)


def test_the_matrix_in_force_is_off_by_half_a_step(
    roomy: DenseModel, row_scales: NDArray[np.float32]
) -> None:
    matrix = random.normal(size=(256, 256))
    error = np.abs(fit(matrix, roomy, row_scales).effective - matrix)
    assert np.median(error.max(axis=1) / np.abs(matrix).max(axis=1)) < 0.53 / 127


def test_a_vector_along_a_row_has_its_product_although_the_row_was_rounded(
    dense: DenseModel, row_scales: NDArray[np.float32]
) -> None:
    matrix = random.normal(size=(256, 256)) * 10.0 ** np.linspace(-200, 100, 256)[:, None]
    products = np.einsum("ij,ij->i", fit(matrix, dense, row_scales).effective, matrix)
    assert products == pytest.approx(np.einsum("ij,ij->i", matrix, matrix), rel=1e-6)


def test_it_tells_how_much_of_each_row_was_lost(dense: DenseModel, row_scales: NDArray[np.float32]) -> None:
    matrix = random.normal(size=(256, 256))
    fitted = fit(matrix, dense, row_scales)
    assert fitted.lost == pytest.approx(np.linalg.norm(fitted.effective - matrix, axis=1))
    assert 0.0 < fitted.lost.max() < 0.02 * np.linalg.norm(matrix, axis=1).min()


def test_a_row_of_zeros_stays_one(dense: DenseModel, row_scales: NDArray[np.float32]) -> None:
    fitted = fit([[0.0, 0.0], [1.0, -1.0]], dense, row_scales)
    assert fitted.effective == pytest.approx(np.array([[0, 0], [1, -1]]))


@pytest.mark.parametrize("rescale_rows", [False, True], ids=["compiled scales", "rescaled rows"])
@pytest.mark.parametrize("columns", [1, 16, 256])
def test_no_input_whatsoever_clips_an_output(eight_bits: Any, columns: int, rescale_rows: bool) -> None:
    matrix = random.normal(size=(64, columns))
    model = eight_bits(matrix, rescale_rows=rescale_rows)
    for vector in (*matrix, np.ones(columns), np.eye(columns)[0] * 1e-6, random.normal(size=columns) * 1e6):
        model.multiply(vector)
    assert model.clipped == 0


@pytest.mark.parametrize(
    ("rescale_rows", "reach"), [(False, 0.021), (True, 0.0135)], ids=["compiled scales", "rescaled rows"]
)
def test_random_products_are_nearly_as_good_as_eight_bits_allow(
    eight_bits: Any, rescale_rows: bool, reach: float
) -> None:
    matrix = random.uniform(-1, 1, (256, 256))
    model = eight_bits(matrix, headroom=4.0, rescale_rows=rescale_rows)
    errors, products = [], []
    for vector in random.normal(size=(50, 256)):
        products.append(matrix @ vector)
        errors.append(model.multiply(vector).outputs - products[-1])
    # Steps of 4 / 126 of the output's deviation, 3.3 / 127 of the input's and 1.7 / 127 of the weights'
    # make 0.0124 together; this model's fixed range uses half of the outputs.
    assert np.std(errors) / np.std(products) < reach
    assert model.clipped <= 4


def test_where_outputs_are_narrow_weights_and_inputs_share_the_loss(dense: DenseModel) -> None:
    matrix = random.uniform(-1, 1, (64, 256))
    narrow = replace(dense, output_limit=dense.output_limit / 100)
    fitted = fit(matrix, narrow, np.full(64, 8.5e-4, np.float32))
    vector = random.normal(size=256)
    steps, scale = quantise(vector, narrow, fitted.reach)
    from_weights = np.std((fitted.effective - matrix) @ vector)
    from_inputs = np.std(fitted.effective @ (steps * scale - vector))
    assert from_weights == pytest.approx(from_inputs, rel=0.5)


def test_zeros_are_multiplied_at_the_scale_of_the_model(dense: DenseModel) -> None:
    steps, scale = quantise(np.zeros(4), dense, 1.0)
    assert (steps.tolist(), scale) == ([0, 0, 0, 0], dense.input_scale)


@pytest.mark.parametrize("matrix", [[[np.nan]], [[np.inf]], [1.0], np.zeros((0, 3))])
def test_what_is_no_finite_matrix_is_refused(dense: DenseModel, matrix: object) -> None:
    with pytest.raises(InputError, match="expected a matrix"):
        fit(matrix, dense)
