"""Plans for Dense models with uint8 weights, whose range is not the same on both sides of zero."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from edgetpu_driver.errors import InputError
from edgetpu_driver.matrix.dense_model import DenseModel
from edgetpu_driver.matrix.scaling import RowGains
from edgetpu_driver.matrix.tile_plan import PlanOptions, make_plan
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_driver.weights.replaceable_weights import WeightTensor


def spec(name: str, scale: float) -> TensorSpec:
    return TensorSpec(name, (1, 64), np.dtype(np.uint8), scale, 128)


def unsigned_model(zero_point: int) -> DenseModel:
    """A model of 64 rows, with weights in uint8 of 1/127 a step and outputs that hold whatever comes."""
    steps = np.full(64, 1 / 127, np.float32)
    weights = WeightTensor("w", "FULLY_CONNECTED", (64, 64), steps, is_pure_matmul=True)
    weights = replace(weights, dtype=np.dtype(np.uint8), zero_point=zero_point)
    return DenseModel.of([spec("x", 0.01)], [spec("y", 1e4)], weights)


@pytest.mark.parametrize("zero_point", [0, 10, 100, 128, 245, 255])
@pytest.mark.parametrize("gains", [RowGains.ANY, RowGains.IN_RANGE])
def test_weights_of_uint8_have_the_range_beside_their_zero_point(gains: RowGains, zero_point: int) -> None:
    matrix = np.random.default_rng(0).uniform(-zero_point, 255 - zero_point, (64, 64)) / 127
    (tile,) = make_plan(matrix, unsigned_model(zero_point), PlanOptions(gains=gains)).tiles
    rounded = tile.model_weights / (tile.row_gains / tile.unit)[:, np.newaxis]
    assert np.abs(rounded - matrix).max() * 127 < 0.501


@pytest.mark.parametrize("gains", [RowGains.ANY, RowGains.IN_RANGE])
def test_the_side_of_zero_that_is_full_first_limits_the_gain(gains: RowGains) -> None:
    matrix = np.array([[1.0, 0.0], [1.0, -0.01], [1.0, -0.05], [-0.05, 0.0]])
    (tile,) = make_plan(matrix, unsigned_model(10), PlanOptions(gains=gains)).tiles
    expected = [245 / 127, 245 / 127, 10 / 127 / 0.05, 10 / 127 / 0.05]
    assert tile.row_gains / tile.unit == pytest.approx(np.array(expected))


@pytest.mark.parametrize(
    ("zero_point", "matrix", "reason"),
    [
        (0, [[1.0, -1e-9]], "without negative values, as the model's weights are from 0 to 255"),
        (255, [[-1.0], [1e-9]], "without positive values, as the model's weights are from -255 to 0"),
    ],
)
def test_a_sign_that_the_model_lacks_is_refused(
    zero_point: int, matrix: list[list[float]], reason: str
) -> None:
    with pytest.raises(InputError, match=reason):
        make_plan(matrix, unsigned_model(zero_point), PlanOptions())


def test_a_row_of_a_sign_that_the_model_lacks_has_no_gain_if_others_are_to_stay_in_range() -> None:
    matrix = np.array([[-0.001, 0.5], [0.0, 0.5], [-1.0, 0.5]])
    options = PlanOptions(gains=RowGains.IN_RANGE, accept_clipping=True)
    (tile,) = make_plan(matrix, unsigned_model(0), options).tiles
    assert tile.row_gains == pytest.approx(np.array([1.0, 255 / 127 / 0.5, 1.0]))


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({}, True),
        ({"name": "other"}, True),
        ({"scales": np.full(64, 2 / 127, np.float32)}, False),
        ({"zero_point": 101}, False),
        ({"dtype": np.dtype(np.int8), "zero_point": 0}, False),
    ],
)
def test_plans_hold_for_models_of_the_same_weights_in_the_same_steps(
    changes: dict[str, Any], same: bool
) -> None:
    dense = unsigned_model(100)
    other = DenseModel.of([dense.input], [dense.output], replace(dense.tensor, **changes))
    assert dense.multiplies_like(other) == same
