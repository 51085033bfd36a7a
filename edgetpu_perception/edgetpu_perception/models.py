"""The suite's own graphs, built on demand: quantised TFLite models of operators that Google's compiler maps.

A name says everything about a graph, so that a node can ask a driver for it: "spot_bright_64x64" (height x
width), "spot_color_7ec1c1_64x64" (the three 1x1 filter weights as int8 in hexadecimal).
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import EdgeTpuError
from edgetpu_driver.tensor import TensorSpec
from edgetpu_driver.tflite.builder import GraphBuilder

COLORS: dict[str, tuple[float, float, float]] = {
    "red": (1.0, -0.5, -0.5),
    "green": (-0.5, 1.0, -0.5),
    "blue": (-0.5, -0.5, 1.0),
    "yellow": (0.5, 0.5, -1.0),
    "cyan": (-1.0, 0.5, 0.5),
    "magenta": (0.5, -1.0, 0.5),
    "white": (1 / 3, 1 / 3, 1 / 3),
}
"""Weights of red, green and blue for each preset: the channels the colour has, minus those it has not."""

# 126 steps make 1, 1/2 and 1/3 of the largest weight whole numbers, so that a grey pixel cancels exactly.
WEIGHT_STEPS = 126

# One grey level per step on the int8 side.
_ZERO_POINT = -128

_NAME = re.compile(r"spot_(?:bright|color_([0-9a-f]{6}))_([1-9]\d*)x([1-9]\d*)")


class ModelNameError(EdgeTpuError, ValueError):
    """A name that is none of the suite's own graphs."""


class ColorError(EdgeTpuError, ValueError):
    """A colour that is neither a preset nor three usable weights."""


def color_weights(color: str | Sequence[float]) -> tuple[int, int, int]:
    """Quantise a colour, a preset's name or three weights for red, green and blue, to its filter weights.

    Only the proportions of the weights count: the largest becomes +-126. Raises ColorError for an unknown
    preset, for anything but three finite numbers, and when no weight is positive.
    """
    if isinstance(color, str) and color not in COLORS:
        raise ColorError(f"expected a colour of {', '.join(COLORS)}; got '{color}'")
    weights = np.asarray(COLORS[color] if isinstance(color, str) else color, np.float64)
    if weights.shape != (3,) or not np.all(np.isfinite(weights)):
        raise ColorError(f"expected three finite weights for red, green and blue; got {weights.tolist()}")
    steps = np.rint(weights / (np.abs(weights).max() or 1.0) * WEIGHT_STEPS).astype(int)
    if steps.max() <= 0:
        raise ColorError(f"expected at least one positive weight; got {weights.tolist()}")
    red, green, blue = steps.tolist()
    return red, green, blue


def spot_name(color: str | Sequence[float] | None = None, height: int = 64, width: int = 64) -> str:
    """Name of the spot graph for a colour, or of the one for brightness."""
    if color is None:
        return f"spot_bright_{height}x{width}"
    digits = "".join(f"{weight & 0xFF:02x}" for weight in color_weights(color))
    return f"spot_color_{digits}_{height}x{width}"


def spot_bright(height: int = 64, width: int = 64) -> bytes:
    """Graph that shows where an image is bright.

    Input "image": uint8 [1, height, width, 1], grey. Output "evidence": uint8 [1, height, width, 1], the same
    image without single hot pixels, averaged over 3x3 px.
    """
    graph = GraphBuilder(spot_name(None, height, width))
    image = graph.input("image", (1, height, width, 1), np.uint8, scale=1.0, zero_point=0)
    grey = graph.quantize(image, np.int8, scale=1.0, zero_point=_ZERO_POINT)
    return _evidence(graph, grey)


def spot_color(color: str | Sequence[float], height: int = 64, width: int = 64) -> bytes:
    """Graph that shows where an image has a colour: a preset's name, or weights of red, green and blue.

    Input "image": uint8 [1, height, width, 3], RGB. Output "evidence": uint8 [1, height, width, 1], as of
    `spot_bright` for the weighted sum of the channels; 255 is the largest value the sum can take.
    """
    return _spot_filter(
        np.array(color_weights(color), np.int8), spot_name(color, height, width), height, width
    )


def build(name: str) -> bytes:
    """Build the graph of that name, always the same bytes. Raises ModelNameError for any other name."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise ModelNameError(f"expected spot_bright_<height>x<width> or spot_color_<hex>_...; got '{name}'")
    digits, height, width = match[1], int(match[2]), int(match[3])
    if digits is None:
        return spot_bright(height, width)
    return _spot_filter(np.frombuffer(bytes.fromhex(digits), np.int8), name, height, width)


def write_model(name: str, directory: Path) -> Path:
    """Put the graph of that name into a directory, made when absent, and return the file's path.

    A file with these bytes is left alone; any other is replaced in one step, so that a reader never sees
    half a graph. Raises ModelNameError, and OSError when the directory cannot be written.
    """
    data = build(name)
    path = directory / f"{name}.tflite"
    if path.is_file() and path.read_bytes() == data:
        return path
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=directory, prefix=f".{name}.", delete=False) as file:
        try:
            file.write(data)
            os.fchmod(file.fileno(), 0o644)
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise
    return path


def _spot_filter(weights: NDArray[np.int8], name: str, height: int, width: int) -> bytes:
    positive = float(weights[weights > 0].sum())
    if not positive:
        raise ModelNameError(f"expected at least one positive weight in the name; got '{name}'")
    graph = GraphBuilder(name)
    image = graph.input("image", (1, height, width, 3), np.uint8, scale=1.0, zero_point=0)
    pixels = graph.quantize(image, np.int8, scale=1.0, zero_point=_ZERO_POINT)
    color = graph.conv_2d(
        pixels,
        weights.reshape(1, 1, 1, 3),
        weight_scale=1.0 / positive,
        scale=1.0,
        zero_point=_ZERO_POINT,
        activation="RELU",
        name="color",
    )
    return _evidence(graph, color)


def _evidence(graph: GraphBuilder, grey: TensorSpec) -> bytes:
    """Finish a spot graph: remove hot pixels, average over 3x3 px, out as uint8.

    A pixel is limited to the largest value within reach that a whole 2x2 block has (an opening, dilated to
    the neighbours): what is one pixel wide on its own goes, while the tips of a round spot, one pixel wide
    as well, stay. The minimum of a block comes as the maximum of its negative.
    """
    minus_one = np.full((1, 1, 1, 1), -1, np.int8)
    negative = graph.depthwise_conv_2d(grey, minus_one, 1.0, scale=1.0, zero_point=127, name="negative")
    ahead = graph.max_pool_2d(negative, 2, stride=1, padding="SAME", name="negative_of_block_ahead")
    # A pool of size 2 looks ahead only. Moved by one pixel, its picture tells of the block behind; what moves
    # in is black, so that no block reaches beyond the image.
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
