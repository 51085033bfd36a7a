"""The result of a swap of weights, through the answer of ~/set_weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from edgetpu_driver.errors import InputError
from edgetpu_driver.node_kit.messages.weight_messages import fill_weight_result, weight_result
from edgetpu_driver.weights.quantisation import WeightQuantiser
from edgetpu_driver.weights.replaceable_weights import WeightTensor
from edgetpu_driver.weights.weight_request import WeightRequest
from edgetpu_msgs.msg import Tensor
from edgetpu_msgs.srv import SetWeights

SIGNED = WeightTensor("w", "FULLY_CONNECTED", (2, 3), np.array([0.5, 0.25], np.float32))
UNSIGNED = replace(SIGNED, dtype=np.dtype(np.uint8), zero_point=100)


@pytest.mark.parametrize(("tensor", "dtype"), [(SIGNED, Tensor.INT8), (UNSIGNED, Tensor.UINT8)])
def test_a_result_comes_back_as_it_was(tensor: WeightTensor, dtype: int) -> None:
    result = WeightQuantiser(tensor).quantise(WeightRequest(np.array([[1.1, -2.0], [0.3, 0.0]])))
    answer = SetWeights.Response(success=True)
    fill_weight_result(answer, result)
    assert (answer.weight_dtype, answer.weight_zero_point) == (dtype, tensor.zero_point)
    read: Any = weight_result(answer)
    assert (read.dtype, read.zero_point) == (tensor.dtype, tensor.zero_point)
    assert (read.shape, read.row_scales.tolist()) == ((2, 3), [0.5, 0.25])
    assert read.worst_error == np.float32(result.worst_error)


def test_weights_of_an_unknown_type_are_an_error() -> None:
    error = weight_result(SetWeights.Response(success=True, weight_dtype=77))
    assert isinstance(error, InputError)
    assert str(error).startswith("expected a tensor dtype of 0 (float32)")
