"""Evidence map of bright or coloured spots: the graphs of the spot tracker.

A name determines a graph: "spot_bright_64x64" (height x width), "spot_color_7ec1c1_64x64" (the
three 1x1 filter weights as int8 in hexadecimal).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import EdgeTpuError, GraphError
from edgetpu_driver.tensor import TensorSpec
from edgetpu_driver.tflite.graph_builder import GraphBuilder

COLORS: dict[str, tuple[float, float, float]] = {
    "red": (1.0, -0.5, -0.5),
    "green": (-0.5, 1.0, -0.5),
    "blue": (-0.5, -0.5, 1.0),
    "yellow": (0.5, 0.5, -1.0),
    "cyan": (-1.0, 0.5, 0.5),
    "magenta": (0.5, -1.0, 0.5),
    "white": (1 / 3, 1 / 3, 1 / 3),
}
"""Weights of red, green and blue for each preset. Derived: channels of the colour minus the others.

The sum of all but white is 0, so that grey pixels cancel.
"""

WEIGHT_STEPS = 126
"""Largest quantised weight. Derived: with 126 steps 1, 1/2 and 1/3 are whole numbers, so grey pixels cancel.

All colours have the same steps, so one graph becomes another by a change of its three weights.
"""

_ZERO_POINT = -128
"""Zero point of int8 tensors. Derived: one step is one grey level, and black is the lowest value."""


class ColorError(EdgeTpuError, ValueError):
    """A colour that is neither a preset nor three usable weights."""


def color_weights(color: str | Sequence[float]) -> tuple[int, int, int]:
    """Quantise a colour, a preset's name or three weights for red, green and blue, to its filter weights.

    Only the proportions of the weights count: the positive ones together become 126 steps, or less where a
    negative one would be below -126. Raises ColorError for an unknown preset, for anything but three finite
    numbers, and when no weight is positive.
    """
    if isinstance(color, str) and color not in COLORS:
        raise ColorError(f"expected a colour of {', '.join(COLORS)}; got '{color}'")
    weights = np.asarray(COLORS[color] if isinstance(color, str) else color, np.float64)
    if weights.shape != (3,) or not np.all(np.isfinite(weights)):
        raise ColorError(f"expected three finite weights for red, green and blue; got {weights.tolist()}")
    largest = max(float(weights[weights > 0].sum()), -float(weights.min()))
    steps = np.rint(weights / (largest or 1.0) * WEIGHT_STEPS).astype(int)
    if steps.max() <= 0:
        raise ColorError(f"expected at least one positive weight; got {weights.tolist()}")
    red, green, blue = steps.tolist()
    return red, green, blue


def color_filter(color: str | Sequence[float]) -> NDArray[np.float32]:
    """Real weights of the graph's filter for a colour, float32 [1, 1, 1, 3]. Raises ColorError."""
    return np.array(color_weights(color), np.float32).reshape(1, 1, 1, 3) / np.float32(WEIGHT_STEPS)


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
    graph = GraphBuilder(_label(weights, height, width))
    channels = 1 if weights is None else 3
    image = graph.input("image", (1, height, width, channels), np.uint8, scale=1.0, zero_point=0)
    evidence = graph.quantize(image, np.int8, scale=1.0, zero_point=_ZERO_POINT)
    if weights is not None:
        evidence = _weighted_sum(graph, evidence, np.array(weights, np.int8))
    return _evidence(graph, evidence)


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


def _evidence(graph: GraphBuilder, grey: TensorSpec) -> bytes:
    """Finish a spot graph: remove hot pixels, average over 3x3 px, out as uint8.

    A pixel is limited to the largest minimum of the 2x2 blocks near it (an opening, dilated to the
    neighbours). This removes isolated structures one pixel wide, and keeps the tips of round spots, which are
    one pixel wide as well. The minimum of a block is computed as the maximum of its negative.
    """
    minus_one = np.full((1, 1, 1, 1), -1, np.int8)
    negative = graph.depthwise_conv_2d(grey, minus_one, 1.0, scale=1.0, zero_point=127, name="negative")
    ahead = graph.max_pool_2d(negative, 2, stride=1, padding="SAME", name="negative_of_block_ahead")
    # A pool of size 2 covers the px to the right and below. Moved by one px it covers those to the left and
    # above; black moves in, so that no block extends beyond the image.
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
    return graph.build()
