"""Tensor specifications and the values they allow."""

from __future__ import annotations

import numpy as np
import pytest

from edgetpu_driver.tensor import TensorSpec


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
