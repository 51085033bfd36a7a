"""Quantising real weights: extreme values, scales and gains, and arrays of any real dtype."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.errors import InputError
from edgetpu_driver.tflite.model_reader import Model, Operator, Subgraph, Tensor, per_tensor
from edgetpu_driver.weights.quantisation import WeightQuantiser, rescaled_rows
from edgetpu_driver.weights.replaceable_weights import WeightTensor, weight_tensors
from edgetpu_driver.weights.weight_request import WeightRequest

BIASED = WeightTensor(
    "w",
    "FULLY_CONNECTED",
    (1, 3),
    np.array([0.01], np.float32),
    has_row_scales=True,
    bias="b",
    bias_scales=np.array([1e-4]),
)


@pytest.mark.parametrize(
    ("values", "dtype"),
    [([-128, 5, 100], np.int8), ([1, 5, 100], np.uint8), ([-1e-4, 5e-5, 1e-4], np.float16)],
    ids=["int8", "uint8", "small float16"],
)
def test_rescaled_rows_are_the_same_for_an_array_of_any_dtype(values: list[float], dtype: type) -> None:
    array: NDArray[Any] = np.array([values], dtype)
    quantiser = WeightQuantiser(BIASED)
    result = quantiser.quantise(WeightRequest(array, rescale_rows=True))
    stored = quantiser.values.copy()
    expected = quantiser.quantise(WeightRequest(array.astype(np.float32), rescale_rows=True))
    assert (stored == quantiser.values).all()
    assert (result.row_scales, result.clipped) == (expected.row_scales, 0)


@pytest.mark.parametrize("gain", [np.inf, 1e300, 1e-300, 1e-40, np.nan, 0.0, -1.0])
def test_gains_that_float32_cannot_hold_are_refused(gain: float) -> None:
    request = WeightRequest(np.ones((1, 3)), row_gains=np.array([gain]), accept_clipping=True)
    tensor = WeightTensor("w", "FULLY_CONNECTED", (1, 3), np.array([1.0], np.float32))
    with pytest.raises(InputError, match="gains"):
        WeightQuantiser(tensor).quantise(request)


@pytest.mark.parametrize("gain", [np.inf, 1e300, 1e-300])
def test_gains_of_rescaled_rows_that_float32_cannot_hold_are_refused(gain: float) -> None:
    result = WeightQuantiser(BIASED).quantise(WeightRequest(np.ones((1, 3)), rescale_rows=True))
    with pytest.raises(InputError, match="gains that are positive and finite"):
        rescaled_rows(BIASED, result, np.array([gain]))


@pytest.mark.parametrize(
    "gains", [[], [2.0], [1.0] * 3, [[1.0, 1.0]], 2.0, ["1", "1"], [True, True]], ids=repr
)
@pytest.mark.parametrize("rescale_rows", [False, True])
def test_there_is_one_gain_for_each_row_of_the_weights(gains: object, rescale_rows: bool) -> None:
    tensor = replace(BIASED, shape=(4, 3), scales=np.full(4, 0.01, np.float32), bias_scales=np.full(4, 1e-4))
    request = WeightRequest(np.ones((2, 3)), row_gains=np.array(gains), rescale_rows=rescale_rows)
    with pytest.raises(InputError, match="expected 2 gains that are positive and finite"):
        rescaled_rows(tensor, WeightQuantiser(tensor).quantise(request), request.row_gains)


def test_rows_beyond_those_of_the_weights_keep_their_scale() -> None:
    tensor = replace(BIASED, shape=(3, 3), scales=np.full(3, 0.25, np.float32), bias_scales=np.full(3, 1e-4))
    request = WeightRequest(np.full((2, 3), 127.0), row_gains=np.array([2, 4]), rescale_rows=True)
    scales = rescaled_rows(tensor, WeightQuantiser(tensor).quantise(request), request.row_gains)
    np.testing.assert_allclose(scales, [2, 4, 0.25], rtol=1e-6)
    assert scales.dtype == np.float32


def test_a_scale_beyond_float32_of_a_rescaled_row_is_refused() -> None:
    request = WeightRequest(np.full((1, 3), 1e30), row_gains=np.array([1e30]), rescale_rows=True)
    with pytest.raises(InputError, match="within float32; got"):
        rescaled_rows(BIASED, WeightQuantiser(BIASED).quantise(request), request.row_gains)


def test_a_bias_that_no_scale_of_a_rescaled_row_holds_is_refused() -> None:
    request = WeightRequest(np.ones((1, 3)), bias=np.array([1e300]), rescale_rows=True, accept_clipping=True)
    with pytest.raises(InputError, match="expected a bias small enough for rescaled rows"):
        WeightQuantiser(BIASED).quantise(request)


def graph_with(scales: NDArray[np.float32]) -> Model:
    """A matrix with these scales of its rows."""
    data = np.ones((len(scales), 3), np.int8).tobytes()
    quantization = per_tensor(1.0, 0)
    rows = type(quantization)(scales, np.zeros(len(scales), np.int64))
    tensors = (
        Tensor("x", (1, 3), np.dtype(np.int8), quantization=quantization),
        Tensor("w", (len(scales), 3), np.dtype(np.int8), 1, data, quantization=rows),
        Tensor("y", (1, len(scales)), np.dtype(np.int8), quantization=quantization),
    )
    graph = Subgraph("", tensors, (0,), (2,), (Operator("FULLY_CONNECTED", "", (0, 1), (2,)),))
    return Model(3, "", (graph,))


def test_weights_with_a_scale_of_zero_cannot_be_replaced() -> None:
    assert len(weight_tensors(graph_with(np.array([0.5, 1.0], np.float32)))) == 1
    assert weight_tensors(graph_with(np.array([0.0, 1.0], np.float32))) == ()
