"""The compiler's requantisation arithmetic: from the scales of a layer to the values in its program.

Every operation is rounded to float32, and quotients are products with the reciprocal of the output scale:
this gives all 84 multipliers of three MobileNets, division gives only 43. Zero points are those of uint8; in
an int8 graph they are 128 less.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Activation = Literal["NONE", "RELU", "RELU6"]
ACTIVATIONS: dict[str, Activation] = {"NONE": "NONE", "RELU": "RELU", "RELU6": "RELU6"}
"""The activations whose clamps are known, by their TFLite name."""

_LARGEST = 255
"""Largest value of the chip's outputs, which are uint8."""
_RELU6 = np.float32(6)


@dataclass(frozen=True)
class Requantisation:
    """The requantisation of a sum of products, in output steps.

    output = clip(multiplier * sum, minimum, maximum) + output_zero_point, where the zero points of inputs and
    weights are already subtracted. Floats have float32 values.
    """

    multiplier: float
    """1 if the parameters hold one for each output channel."""
    minimum: float
    maximum: float
    input_zero_point: int
    weight_zero_point: int
    """0 if the parameters hold it."""
    output_zero_point: int


def reciprocal(output_scale: float) -> np.float32:
    """The factor that replaces a division by the output scale."""
    return np.float32(1) / np.float32(output_scale)


def multipliers(input_scale: float, weight_scales: ArrayLike, output_scale: float) -> NDArray[np.float32]:
    """float32 of the shape of weight_scales: input scale * weight scale / output scale."""
    products = np.float32(input_scale) * np.asarray(weight_scales, np.float32)
    return np.asarray(products * reciprocal(output_scale), np.float32)


def clamps(output_scale: float, output_zero_point: int, activation: Activation) -> tuple[float, float]:
    """Minimum and maximum output in steps from the zero point, as float32 values.

    RELU6 clamps at 6, or at the end of the output range if that is less, as in layers of public networks.
    """
    scale, factor = np.float32(output_scale), reciprocal(output_scale)
    minimum, maximum = (np.float32(end - output_zero_point) * scale * factor for end in (0, _LARGEST))
    if activation != "NONE":
        minimum = np.float32(0)
    if activation == "RELU6":
        maximum = min(maximum, _RELU6 * factor)
    return float(minimum), float(maximum)
