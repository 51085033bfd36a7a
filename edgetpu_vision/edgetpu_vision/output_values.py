"""The meaning of the numbers in a model's output: real values, probabilities or logits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.tflite.tensor import TensorSpec

_SLACK = 0.02
"""How far the range of a quantised probability may exceed 0..1: the last step of 8 bits, and rounding."""
_LOGISTIC_SCALE = 1 / 256
"""Scale of 8-bit outputs of LOGISTIC and SOFTMAX, whose zero point is the least integer (TFLite's
specification)."""
_LOGISTIC_SCALE_16 = 1 / 32768
"""Scale of 16-bit outputs of LOGISTIC and SOFTMAX, whose zero point is 0 (TFLite's specification)."""
NAME_ONE = "; name the one to take"
"""The end of a message about several outputs of which one could be meant."""
_UNSCALED = "; integers of 8 bits mean nothing without a scale, which the file does not have"


def is_quantised(spec: TensorSpec) -> bool:
    """Whether the output holds integers that stand for real values."""
    return spec.dtype.kind in "iu" and spec.scale > 0


def scaled(outputs: Sequence[TensorSpec]) -> list[TensorSpec]:
    """The outputs whose values have a meaning: all but 8-bit integers without a scale."""
    return [spec for spec in outputs if spec.dtype.itemsize > 1 or spec.scale > 0]


def unscaled_hint(outputs: Sequence[TensorSpec]) -> str:
    """The end of a message about unexpected outputs; "" unless one lacks a scale."""
    return "" if len(scaled(outputs)) == len(outputs) else _UNSCALED


def is_symmetric(spec: TensorSpec) -> bool:
    """Whether an output is int16 around 0, whose range says nothing about the sign of its values."""
    return is_quantised(spec) and spec.dtype == np.int16 and spec.zero_point == 0


def real_range(spec: TensorSpec) -> tuple[float, float] | None:
    """The least and the largest real value of a quantised output.

    None if it is not quantised, or if its range is symmetric whatever the values are.
    """
    return spec.real_limits if is_quantised(spec) and not is_symmetric(spec) else None


def real_values(values: NDArray[Any], spec: TensorSpec) -> NDArray[np.float32]:
    """The real values of an output, or of any part of it, as float32 of the same shape."""
    return spec.dequantise(values) if is_quantised(spec) else values.astype(np.float32, copy=False)


def always_probabilities(spec: TensorSpec) -> bool | None:
    """Whether the range of a quantised output is that of probabilities.

    None if it is not quantised, or if it is symmetric and neither has the scale of SOFTMAX nor exceeds 1.
    """
    if is_symmetric(spec):
        if spec.real_limits[1] > 1 + _SLACK:
            return False
        return True if like_logistic(spec) else None
    limits = real_range(spec)
    return None if limits is None else limits[0] >= -_SLACK and limits[1] <= 1 + _SLACK


def like_logistic(spec: TensorSpec) -> bool:
    """Whether an output has the quantisation of LOGISTIC and SOFTMAX in 8 or 16 bits."""
    if is_symmetric(spec):
        return abs(spec.scale / _LOGISTIC_SCALE_16 - 1) < 1e-6
    least = np.iinfo(spec.dtype).min if spec.dtype.kind in "iu" else None
    return spec.zero_point == least and abs(spec.scale - _LOGISTIC_SCALE) < 1e-6


def within_0_and_1(values: NDArray[Any], spec: TensorSpec) -> bool:
    """Whether all values of an output are within 0..1, which logits of many classes rarely are.

    NaN is ignored.
    """
    zero, one = 0.0, 1.0
    if is_quantised(spec):
        zero, one = spec.zero_point, spec.zero_point + 1 / spec.scale
    return not np.any(values < zero) and not np.any(values > one)


def log_sum_exp(values: NDArray[Any], spec: TensorSpec) -> float:
    """The logarithm of the sum of the exponentials of an output's real values."""
    counts = np.ones(1, np.intp)
    if is_quantised(spec):  # few different values
        values, counts = np.unique(values, return_counts=True)
    real = real_values(values, spec).astype(np.float64)
    greatest = float(real.max())
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        return greatest + float(np.log(np.sum(counts * np.exp(real - greatest))))


def sigmoid(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """1 / (1 + exp(-x)), without overflow."""
    half = np.float32(0.5)
    result: NDArray[np.float32] = half * np.tanh(half * values) + half
    return result


def single_output(
    outputs: Sequence[TensorSpec], name: str, fits: Callable[[TensorSpec], bool], expected: str
) -> TensorSpec:
    """The output of that name, or if it is "" the model's only one.

    fits: whether an output is suitable. expected: description of a suitable one, for the message. Raises
    ModelUnsupportedError if there is no such output.
    """
    chosen = [spec for spec in outputs if not name or spec.name == name]
    if len(chosen) == 1 and fits(chosen[0]):
        return chosen[0]
    came = ", ".join(map(str, outputs)) or "none"
    wanted = f"an output '{name}', {expected}" if name else f"one output that is {expected}"
    hint = NAME_ONE if len(chosen) > 1 and any(map(fits, outputs)) else unscaled_hint(outputs)
    raise ModelUnsupportedError(f"expected {wanted}; got {came}{hint}")
