"""Evidence map of bright or coloured spots: the graphs of the spot tracker.

A name determines a graph: "spot_bright_64x64" (height x width), "spot_color_7ec1c1_64x64" (the
three 1x1 filter weights as int8 in hexadecimal).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import GraphError
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_perception.graphs.color_weights import WEIGHT_STEPS, color_weights

_ZERO_POINT = -128
"""Zero point of int8 tensors. Derived: one step is one grey level, and black is the lowest value."""


def name(color: str | Sequence[float] | None = None, height: int = 64, width: int = 64) -> str:
    """Name of the graph for a colour, or of the one for brightness. Raises ColorError as `color_weights`."""
    return _label(None if color is None else color_weights(color), height, width)


def build(weights: tuple[int, int, int] | None = None, height: int = 64, width: int = 64) -> bytes:
    """Graph of the brightness of an image, or with `color_weights` of its amount of a colour.

    Input "image": uint8 [1, height, width, 1], grey, or with weights [1, height, width, 3], RGB. Output
    "evidence": uint8 [1, height, width, 1], the grey image or the positive part of the weighted sum of the
    channels, at most 255; single hot pixels are removed, and 3x3 px averaged.
    Raises GraphError when no weight is positive.
    """
    return draft(weights, height, width).build()


def draft(weights: tuple[int, int, int] | None = None, height: int = 64, width: int = 64) -> GraphBuilder:
    """The graph of `build` before serialisation; same arguments and errors."""
    graph = GraphBuilder(_label(weights, height, width))
    channels = 1 if weights is None else 3
    image = graph.input("image", (1, height, width, channels), np.uint8, scale=1.0, zero_point=0)
    evidence = graph.quantize(image, np.int8, scale=1.0, zero_point=_ZERO_POINT)
    if weights is not None:
        evidence = _weighted_sum(graph, evidence, np.array(weights, np.int8))
    _evidence(graph, evidence)
    return graph


def _label(weights: tuple[int, int, int] | None, height: int, width: int) -> str:
    if weights is None:
        return f"spot_bright_{height}x{width}"
    return f"spot_color_{''.join(f'{weight & 0xFF:02x}' for weight in weights)}_{height}x{width}"


def _weighted_sum(graph: GraphBuilder, pixels: TensorSpec, weights: NDArray[np.int8]) -> TensorSpec:
    if weights.max() <= 0:
        raise GraphError(f"expected at least one positive weight; got {weights.tolist()}")
    return graph.conv_2d(
        pixels,
        weights.reshape(1, 1, 1, 3),
        weight_scale=1.0 / WEIGHT_STEPS,
        scale=1.0,
        zero_point=_ZERO_POINT,
        activation="RELU",
        name="color",
    )


def _evidence(graph: GraphBuilder, grey: TensorSpec) -> None:
    """Finish a spot graph: remove hot pixels, average over 3x3 px, output uint8.

    A pixel is limited to the largest minimum of the 2x2 blocks near it (an opening, dilated to the
    neighbours). This removes isolated structures one pixel wide, and keeps the tips of round spots, which are
    one pixel wide as well. The minimum of a block is computed as the maximum of its negative.
    """
    minus_one = np.full((1, 1, 1, 1), -1, np.int8)
    negative = graph.depthwise_conv_2d(grey, minus_one, 1.0, scale=1.0, zero_point=127, name="negative")
    ahead = graph.max_pool_2d(negative, 2, stride=1, padding="SAME", name="negative_of_block_ahead")
    # A pool of size 2 covers the px to the right and below. Moved by one px, it covers those to the left and
    # above; the px that move in are black, so that no block extends beyond the image.
    negate_and_move = np.zeros((1, 3, 3, 1), np.int8)
    negate_and_move[0, 0, 0, 0] = -1
    block = graph.depthwise_conv_2d(
        ahead, negate_and_move, 1.0, scale=1.0, zero_point=_ZERO_POINT, name="block"
    )
    limit = graph.max_pool_2d(block, 4, stride=1, padding="SAME", name="limit")
    excess = graph.sub(grey, limit, scale=1.0, zero_point=_ZERO_POINT, activation="RELU", name="excess")
    clean = graph.sub(grey, excess, scale=1.0, zero_point=_ZERO_POINT, name="clean")
    smooth = graph.average_pool_2d(clean, 3, stride=1, padding="SAME", name="smooth")
    graph.output(graph.quantize(smooth, np.uint8, scale=1.0, zero_point=0, name="evidence"))
