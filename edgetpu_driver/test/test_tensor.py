"""Tensor specifications and the values they allow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from edgetpu_driver.errors import InputError
from edgetpu_driver.tflite.tensor import TensorSpec, check_inputs, named_inputs


@pytest.mark.parametrize(
    ("dtype", "scale", "zero_point", "steps"),
    [
        (np.int8, 0.5, 0, 127),
        (np.uint8, 0.5, 128, 127),
        (np.uint8, 0.5, 100, 100),
        (np.int8, 0.5, 100, 27),
        (np.int8, 0.5, -128, 0),
        (np.int8, 0.0, 0, 0),
        (np.int32, 0.5, 0, 0),
        (np.float32, 0.0, 0, 0),
    ],
)
def test_symmetric_steps_are_those_on_the_shorter_side_of_zero(
    dtype: type, scale: float, zero_point: int, steps: int
) -> None:
    assert TensorSpec("t", (1, 4), np.dtype(dtype), scale, zero_point).symmetric_steps == steps


X = TensorSpec("x", (1, 4), np.dtype(np.uint8), 0.5, 0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.zeros((1, 4), np.uint8), r"expected arrays by name, such as {'x': array}; got ndarray"),
        ([np.zeros((1, 4), np.uint8)], r"expected arrays by name, such as {'x': array}; got list"),
        ({"x": [0, 0, 0, 0]}, r"expected a NumPy array for 'x' uint8\[1, 4\]; got list"),
        ({"x": np.zeros(4, np.uint8)}, r"expected 'x' uint8\[1, 4\]; got uint8\[4\]"),
        ({"y": np.zeros((1, 4), np.uint8)}, r"expected the inputs 'x' uint8\[1, 4\]; got 'y'"),
    ],
)
def test_inputs_that_are_no_arrays_by_name_are_refused(given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_inputs([X], given)


def test_the_only_input_may_be_unnamed() -> None:
    array = np.zeros((1, 4), np.uint8)
    assert named_inputs([X], {"": array}) == {"x": array}


def test_one_of_several_inputs_must_be_named() -> None:
    given = {"": np.zeros((1, 4), np.uint8)}
    assert named_inputs([X, X], given) is given
