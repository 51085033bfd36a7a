"""The compiler's arithmetic of requantisation: from the scales of a layer to what its program holds.

All of it is float32, each operation rounded, and quotients are products with the reciprocal of the output
scale: dividing instead gives 43 of the 84 multipliers of three MobileNets, this all of them. Zero points are
those of uint8; those of an int8 graph are 128 less.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Activation = Literal["NONE", "RELU", "RELU6"]

_LARGEST = 255
"""Value of a uint8, which the chip's outputs are."""
_RELU6 = np.float32(6)


@dataclass(frozen=True)
class Requantisation:
    """What an operation does to a sum of products, in output steps.

    output = clip(multiplier * sum, minimum, maximum) + output_zero_point, where inputs and weights count from
    their zero points. Floats have the values of float32.
    """

    multiplier: float
    """1 where each output channel has its own in the parameters."""
    minimum: float
    maximum: float
    input_zero_point: int
    weight_zero_point: int
    """0 where the parameters hold it."""
    output_zero_point: int


def reciprocal(output_scale: float) -> np.float32:
    """The factor that stands for a division by the output scale."""
    return np.float32(1) / np.float32(output_scale)


def multipliers(input_scale: float, weight_scales: ArrayLike, output_scale: float) -> NDArray[np.float32]:
    """float32 of the shape of weight_scales: input scale * weight scale / output scale."""
    products = np.float32(input_scale) * np.asarray(weight_scales, np.float32)
    return np.asarray(products * reciprocal(output_scale), np.float32)


def clamps(output_scale: float, output_zero_point: int, activation: Activation) -> tuple[float, float]:
    """The least and the largest output in steps from the zero point, both values of float32.

    RELU6 ends at 6, or where the range of the outputs ends if that is less, as in layers of public networks.
    """
    scale, factor = np.float32(output_scale), reciprocal(output_scale)
    minimum, maximum = (np.float32(end - output_zero_point) * scale * factor for end in (0, _LARGEST))
    if activation != "NONE":
        minimum = np.float32(0)
    if activation == "RELU6":
        maximum = min(maximum, _RELU6 * factor)
    return float(minimum), float(maximum)
