"""Band-pass features of an image with exact derivatives: the graph of optical flow and the compass.

Two 7x7 depthwise convolutions without padding, so that every feature moves with the image:

1. the binomial kernel minus the 7x7 mean, which removes brightness and keeps details of about 3 to 15 px;
2. a cubic B-spline stretched by 2, and its derivatives. The outputs are samples of one smooth function
   D(x, y) and of *its* derivatives, not finite differences: D(x + e) = D + e Dx + e^2/2 Dxx.

All channels of the output share one scale; a gain for each channel makes use of its eight bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import GraphError, ModelUnsupportedError
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.tflite.tensor import TensorSpec

BORDER = 6
"""Px on each side of the input without features. Derived: 3 for each of two 7x7 convolutions."""

GAINS = (1.0, 2.0, 2.0, 2.0, 4.0, 2.0)
"""Factors on the channels D, Dx, Dy, Dxx, Dxy and Dyy in the graph.

D is the feature, the others are derivatives per px of the model's input, x right and y down. Order 1 has
three channels, order 2 all six.

Derived: powers of two that bring photographs to a similar range in all channels.
"""

BAND_SCALE = 0.25
"""Grey levels per step after the first convolution.

Photographs have a standard deviation of 5 to 16 grey levels here, a quarter of the range of +-32. Rows: flow,
any shift to 4, rmse against its bound.
"""

SCALE = 0.1875
"""Grey levels per step of D in the output: a range of +-24 grey levels.

Photographs have a standard deviation of 1 to 10. Rows: flow, any shift to 4, rmse against its bound.
"""

ROUGHNESS = 0.42
"""Variance of Dx, or Dy, over the variance of D for white image noise. Derived from `kernels`."""

_BINOMIAL = np.array([1, 6, 15, 20, 15, 6, 1]) / 64
"""Binomial kernel of 7 taps. Derived: the coefficients of (1 + x)^6."""

_SPLINE = np.array([1, 8, 23, 32, 23, 8, 1]) / 96
"""Cubic B-spline stretched by 2, at whole px. Derived: B(x / 2) for whole x."""

_SLOPE = np.array([-1, -4, -5, 0, 5, 4, 1]) / 32
"""First derivative of the spline. Derived like _SPLINE."""

_CURVATURE = np.array([1, 2, -1, -4, -1, 2, 1]) / 16
"""Second derivative of the spline. Derived like _SPLINE."""


def name(height: int = 64, width: int = 64, order: int = 1) -> str:
    """Name of the graph for images of this size: "features1_64x64", of order 2 "features2_64x64"."""
    return f"features{order}_{height}x{width}"


def build(height: int = 64, width: int = 64, order: int = 1) -> bytes:
    """Graph of features for images of this size, with derivatives up to that order, 1 or 2.

    Input "image": uint8 [1, height, width, 1], grey. Output "features": int8 [1, height - 12, width - 12, 3
    or 6], the channels times GAINS; the first feature belongs to the input's px (6, 6). Raises GraphError
    for an image of less than 13 px and for any other order.
    """
    return draft(height, width, order).build()


def draft(height: int = 64, width: int = 64, order: int = 1) -> GraphBuilder:
    """The graph of `build` before serialisation; same arguments and errors."""
    if order not in (1, 2):
        raise GraphError(f"expected derivatives of order 1 or 2; got {order}")
    graph = GraphBuilder(name(height, width, order))
    image = graph.input("image", (1, height, width, 1), np.uint8, scale=1.0, zero_point=0)
    grey = graph.quantize(image, np.int8, scale=1.0, zero_point=-128)
    weights, weight_scale = _band_weights()
    band = graph.depthwise_conv_2d(
        grey, weights, weight_scale, scale=BAND_SCALE, zero_point=0, padding="VALID", name="band"
    )
    weights, scales = _derivative_weights(order)
    graph.output(
        graph.depthwise_conv_2d(
            band, weights, scales, scale=SCALE, zero_point=0, padding="VALID", name="features"
        )
    )
    return graph


@dataclass(frozen=True)
class FeatureMap:
    """Features of one image; each array is float32 [height - 12, width - 12] of the model's input.

    Element [row, column] belongs to px (column + 6, row + 6) of the model's input.
    """

    channels: NDArray[np.float32]
    """[3 or 6, rows, columns] in the order of GAINS: grey levels, per px and per px^2."""
    inside: NDArray[np.bool_]
    """bool [rows, columns]: no channel is clipped."""

    @property
    def d(self) -> NDArray[np.float32]:
        """D, grey levels."""
        plane: NDArray[np.float32] = self.channels[0]
        return plane

    @property
    def gradient(self) -> NDArray[np.float32]:
        """Dx and Dy, grey levels per px: [2, rows, columns]."""
        return self.channels[1:3]


@dataclass(frozen=True)
class FeatureReader:
    """Decodes a model's output to feature maps; `of` recognises the model."""

    output: TensorSpec
    order: int
    factors: NDArray[np.float32]
    """Value of one step of each channel."""

    @classmethod
    def of(cls, height: int, width: int, outputs: Sequence[TensorSpec]) -> FeatureReader:
        """Recognise the outputs of a model whose input is height x width px.

        Raises ModelUnsupportedError for outputs of another type or shape.
        """
        if len(outputs) == 1 and outputs[0].dtype == np.int8:
            for order, channels in ((1, 3), (2, 6)):
                if outputs[0].shape == (1, height - 2 * BORDER, width - 2 * BORDER, channels):
                    factors = outputs[0].scale / np.array(GAINS[:channels])
                    return cls(outputs[0], order, factors.astype(np.float32))
        came = ", ".join(map(str, outputs)) or "none"
        raise ModelUnsupportedError(
            f"expected an output int8[1, {height - 2 * BORDER}, {width - 2 * BORDER}, 3 or 6]; got {came}"
        )

    def read(self, outputs: Mapping[str, NDArray[Any]]) -> FeatureMap:
        """Decode the features of one image from the model's outputs by name."""
        steps = self._steps(outputs)
        inside: NDArray[np.bool_] = np.logical_and.reduce((steps < 127) & (steps > -127), axis=0)
        return FeatureMap(self._values(steps), inside)

    def channels(self, outputs: Mapping[str, NDArray[Any]]) -> NDArray[np.float32]:
        """FeatureMap.channels alone, without the check for clipping: float32 [3 or 6, rows, columns]."""
        return self._values(self._steps(outputs))

    def _steps(self, outputs: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        return np.ascontiguousarray(outputs[self.output.name][0].transpose(2, 0, 1))

    def _values(self, steps: NDArray[Any]) -> NDArray[np.float32]:
        if self.output.zero_point:
            steps = steps.astype(np.float32) - np.float32(self.output.zero_point)
        values: NDArray[np.float32] = steps * self.factors[:, np.newaxis, np.newaxis]
        return values


def kernels(order: int = 1) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both convolutions before quantisation: [7, 7], and [3 or 6, 7, 7] without gains. For comparisons."""
    band = np.outer(_BINOMIAL, _BINOMIAL) - 1 / 49
    along = (_SPLINE, _SLOPE, _CURVATURE)
    powers = [(x, n - x) for n in range(order + 1) for x in range(n, -1, -1)]
    return band, np.array([np.outer(along[y], along[x]) for x, y in powers])


def feature_kernel(order_x: int = 0, order_y: int = 0) -> NDArray[np.float64]:
    """Weights [13, 13] of the px around a feature: both convolutions in one, before quantisation.

    `order_x`, `order_y`: order of the derivative along each axis, 0 or 1; D if both are 0. Derivatives are
    mirrored.
    """
    along = (_SPLINE, _SLOPE)
    band = np.pad(np.outer(_BINOMIAL, _BINOMIAL) - 1 / 49, BORDER)
    windows = np.lib.stride_tricks.sliding_window_view(band, (7, 7))
    weights: NDArray[np.float64] = windows @ along[order_x] @ along[order_y]
    return weights


def _band_weights() -> tuple[NDArray[np.int8], float]:
    """Quantised weights with a sum of exactly 0, and their scale."""
    band, _ = kernels()
    scale = band.max() / 127
    steps = np.rint(band / scale).astype(int)
    steps[3, 3] -= steps.sum()
    return steps.astype(np.int8).reshape(1, 7, 7, 1), float(scale)


def _derivative_weights(order: int) -> tuple[NDArray[np.int8], NDArray[np.float64]]:
    _, derivatives = kernels(order)
    derivatives = derivatives * np.array(GAINS[: len(derivatives)])[:, np.newaxis, np.newaxis]
    scales = np.abs(derivatives).max(axis=(1, 2)) / 127
    steps = np.rint(derivatives / scales[:, np.newaxis, np.newaxis]).astype(np.int8)
    return steps.transpose(1, 2, 0)[np.newaxis], scales
