"""Smoothed brightness of an image and its slopes: the graph of the time to contact.

One convolution without padding. The features of `flow_and_compass_features` are unsuitable: nearby surfaces
have mostly low frequencies, which those features remove (measured: the error of the time to contact is five
times larger).
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

CELLS = 64
"""Images of at least twice this size are smoothed more and sampled at every second px.

Derived: maps of about 64x64 elements keep the time of the CPU part.
"""

_SMOOTH = {1: np.array([1, 4, 1]), 2: np.array([1, 4, 6, 4, 1])}
"""Smoothing taps along one axis by stride.

Derived: the cubic B-spline, and for stride 2 the binomial of 5 taps, which passes little above the new
sampling limit.
"""

_DIFFERENCE = np.array([-1, 0, 1])
"""Central difference over two px. Given by the definition of the graph."""


def name(height: int = 64, width: int = 64) -> str:
    """Name of the graph for images of this size: "looming_64x64"."""
    return f"looming_{height}x{width}"


def build(height: int = 64, width: int = 64) -> bytes:
    """Graph for images of this size, with stride 2 from 128 x 128 px on.

    Input "image": uint8 [1, height, width, 1], grey. Output "slopes": uint8 [1, rows, columns, 3], zero point
    128, grey levels: the smoothed image less 128, and its slope to the right and down per element; slopes
    beyond 127 are clipped. Without stride, rows = height - 4 and the first element belongs to px (2, 2); with
    stride 2, rows = (height - 5) // 2 and it belongs to px (3, 3). Raises GraphError for less than 16 px.
    """
    return draft(height, width).build()


def draft(height: int = 64, width: int = 64) -> GraphBuilder:
    """The graph of `build` before serialisation; same arguments and errors."""
    if min(height, width) < 16:
        raise GraphError(f"expected an image of at least 16x16 px; got {height}x{width}")
    layout = Layout.of_size(height, width)
    weights, scales = _weights(layout.stride)
    graph = GraphBuilder(name(height, width))
    image = graph.input("image", (1, height, width, 1), np.uint8, scale=1.0, zero_point=0)
    grey = graph.quantize(image, np.int8, scale=1.0, zero_point=-128)
    # Brightness is relative to 128, while the int8 zero point stands for 0.
    bias = np.array([-128 * weights[0].sum(), 0, 0])
    slopes = graph.conv_2d(
        grey,
        weights[..., np.newaxis],
        scales,
        scale=1.0,
        zero_point=0,
        bias=bias,
        stride=layout.stride,
        padding="VALID",
    )
    graph.output(graph.quantize(slopes, np.uint8, scale=1.0, zero_point=128, name="slopes"))
    return graph


@dataclass(frozen=True)
class Layout:
    """Layout of the output's elements on the input."""

    rows: int
    columns: int
    stride: int
    first: int
    """Row and column, px of the input, of the first element."""
    noise: float
    """Standard deviation of a slope over that of the smoothed image, for white noise."""

    @classmethod
    def of_size(cls, height: int, width: int) -> Layout:
        """Layout of the graph for images of this size."""
        stride = 2 if min(height, width) >= 2 * CELLS else 1
        weights, scales = _weights(stride)
        size = weights.shape[1]
        power = (weights.astype(float) ** 2).sum(axis=(1, 2)) * scales**2
        return cls(
            (height - size) // stride + 1,
            (width - size) // stride + 1,
            stride,
            size // 2,
            float(np.sqrt(power[1] / power[0])),
        )


@dataclass(frozen=True)
class SlopeReader:
    """Decodes the output of the graph; `of` recognises the model."""

    output: TensorSpec
    layout: Layout

    @classmethod
    def of(cls, height: int, width: int, outputs: Sequence[TensorSpec]) -> SlopeReader:
        """Recognise the outputs of a model for height x width px.

        Raises ModelUnsupportedError for outputs of another shape.
        """
        if min(height, width) >= 16 and len(outputs) == 1:
            layout = Layout.of_size(height, width)
            if outputs[0].shape == (1, layout.rows, layout.columns, 3):
                return cls(outputs[0], layout)
        came = ", ".join(map(str, outputs)) or "none"
        raise ModelUnsupportedError(f"expected slopes of a {height}x{width} image; got {came}")

    def read(self, outputs: Mapping[str, NDArray[Any]]) -> NDArray[np.float32]:
        """Brightness, slope to the right and slope down: float32 [3, rows, columns], grey levels."""
        steps = outputs[self.output.name][0].transpose(2, 0, 1)
        slopes: NDArray[np.float32] = steps.astype(np.float32, order="C")
        slopes -= np.float32(self.output.zero_point)
        slopes *= np.float32(self.output.scale)
        return slopes


def kernels(stride: int = 1) -> NDArray[np.float64]:
    """The convolution kernels of the graph, [3, size, size]. For comparisons."""
    weights, scales = _weights(stride)
    return weights * scales[:, np.newaxis, np.newaxis]


def _weights(stride: int) -> tuple[NDArray[np.int8], NDArray[np.float64]]:
    """Three kernels [3, size, size] of whole numbers, and the scale of each."""
    smooth = _SMOOTH[stride]
    slope = np.convolve(smooth, _DIFFERENCE)
    padded = np.pad(smooth, 1)
    kernels = np.array([np.outer(padded, padded), np.outer(padded, slope), np.outer(slope, padded)])
    # The difference spans two px; a slope is per element, that is per `stride` px.
    scale = 1 / smooth.sum() ** 2
    return kernels.astype(np.int8), np.array([scale, scale * stride / 2, scale * stride / 2])
