"""Finds output tensors of a model by shape, and reads their values as real numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_vision.algorithm import Outputs, output
from edgetpu_vision.errors import OutputsError
from edgetpu_vision.output_values import real_values


def of_shape(outputs: Sequence[TensorSpec], matches: Callable[[tuple[int, ...]], bool]) -> TensorSpec | None:
    """The first output whose shape matches; None if there is none."""
    return next((spec for spec in outputs if matches(spec.shape)), None)


def maps(outputs: Sequence[TensorSpec], channels: int) -> list[TensorSpec]:
    """The outputs [1, height, width, channels], in order."""
    return [spec for spec in outputs if len(spec.shape) == 4 and spec.shape[::3] == (1, channels)]


def read(outputs: Outputs, spec: TensorSpec) -> NDArray[Any]:
    """One output, unchanged; OutputsError if it is missing or does not match its spec."""
    array = output(outputs, spec.name)
    if array.shape != spec.shape or array.dtype != spec.dtype:
        raise OutputsError(f"expected the output {spec}; got {array.dtype.name}{list(array.shape)}")
    return array


def read_real(outputs: Outputs, spec: TensorSpec) -> NDArray[np.float32]:
    """One output as real values; OutputsError also for NaN and infinity."""
    array = read(outputs, spec)
    real = real_values(array, spec)
    if not np.isfinite(real).all():
        raise OutputsError(f"expected finite values in the output {spec}; got NaN or infinity")
    return real
