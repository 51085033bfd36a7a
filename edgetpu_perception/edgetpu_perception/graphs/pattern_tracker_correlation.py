"""Cross-correlation of an image with a template: the graph of the pattern tracker, one convolution.

The template is the constant WEIGHTS and can be replaced in a loaded or compiled model. The scale of the
output stays the same: it fits templates of low contrast, and templates of higher contrast get smaller
weights.
"""

from __future__ import annotations

import math
import re
from typing import TypeVar

import cv2
import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import GraphError
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.tflite.tensor import TensorSpec

_Pixel = TypeVar("_Pixel", np.uint8, np.float32, np.float64)

Size = tuple[int, int]
"""Height and width."""

WEIGHTS = "response/weights"
"""Name of the constant that holds the template: int8 [1, height, width, 1]."""

LARGEST_KERNEL = 16
"""Height and width of the largest convolution; image and template are pooled for larger ones.

Limits the time on the stick. Rows: pattern, 128/32, any patch.
"""

CONTRAST = 5.0
"""Standard deviation of a template, in grey levels, up to which its weights use the full range of int8.

Rows: pattern, any patch, within 1 px.
"""

HEADROOM = 1.6
"""Range of the output over the response of the template to itself; copies of higher contrast respond more.

Rows: pattern, any patch, within 1 px.
"""

_PEAK_OVER_SIGMA = 2.5
"""Largest deviation of a patch from its mean over its standard deviation, as in photographs.

Rows: pattern, any patch, within 1 px.
"""

_NAME = re.compile(r"pattern_(\d+)x(\d+)_(\d+)x(\d+)")


def name(search: Size = (64, 64), template: Size = (16, 16)) -> str:
    """Name of the graph for search images and templates of these sizes, "pattern_64x64_16x16"."""
    return f"pattern_{search[0]}x{search[1]}_{template[0]}x{template[1]}"


def parse(graph_name: str) -> tuple[Size, Size] | None:
    """Sizes of search image and template from a name; None for the name of another graph."""
    match = _NAME.fullmatch(graph_name)
    if match is None:
        return None
    height, width, template_height, template_width = map(int, match.groups())
    return (height, width), (template_height, template_width)


def pooling(template: Size) -> int:
    """Distance of neighbouring cells of the convolution along each axis, px; 1 without pooling."""
    return max(1, -(-max(template) // LARGEST_KERNEL))


def cells(image: NDArray[_Pixel], pool: int) -> NDArray[_Pixel]:
    """The cells of an image [H, W] that the graph convolves: [H, W], or with pooling fewer.

    With pooling a cell is the average of 2 * pool px along each axis. Neighbouring cells share half of them,
    so that cells change little if a pattern moves by less than a cell.
    """
    if pool == 1:
        return image
    rows, columns = (_cell_count(size, pool) * pool for size in image.shape)
    averages: NDArray[_Pixel] = cv2.boxFilter(image, -1, (2 * pool, 2 * pool), anchor=(0, 0))
    return np.ascontiguousarray(averages[:rows:pool, :columns:pool])


def _cell_count(size: int, pool: int) -> int:
    return size // pool - (pool > 1)


def kernel_size(search: Size, template: Size) -> Size:
    """Height and width of the convolution, cells; GraphError for sizes without a graph."""
    pool = pooling(template)
    label = name(search, template)
    if min(template) < 2 or template[0] > search[0] or template[1] > search[1]:
        raise GraphError(f"{label}: expected a template of at least 2x2 px, no larger than the image")
    if any(size % pool for size in (*search, *template)):
        raise GraphError(f"{label}: expected sizes that are multiples of {pool}")
    return _cell_count(template[0], pool), _cell_count(template[1], pool)


def image(search: Size) -> TensorSpec:
    """The input of the graph: see `build`."""
    return TensorSpec("image", (1, *search, 1), np.dtype(np.uint8), 1.0, 0)


def response(search: Size, template: Size) -> TensorSpec:
    """The output of the graph: see `build`."""
    pool = pooling(template)
    height, width = kernel_size(search, template)
    shape = (1, _cell_count(search[0], pool) - height + 1, _cell_count(search[1], pool) - width + 1, 1)
    return TensorSpec("response", shape, np.dtype(np.int8), response_scale((height, width)), 0)


def response_scale(kernel: Size) -> float:
    """Response per step of the output, in products of weight and grey level, for a kernel of this size."""
    return HEADROOM * CONTRAST / _PEAK_OVER_SIGMA * math.prod(kernel)


def build(
    search: Size = (64, 64), template: Size = (16, 16), weights: NDArray[np.int8] | None = None
) -> bytes:
    """Graph of the responses to a template; by default to a checkerboard.

    Input "image": uint8 [1, height, width, 1], grey. Output "response": int8, zero point 0, one cell for each
    position of the template inside the image: [1, (H - h) / p + 1, (W - w) / p + 1, 1], H x W being
    the image, h x w the template, p the `pooling`. `weights`: int8 of the `kernel_size`, their sum 0.
    Raises GraphError when p does not divide the sizes or the template is larger than the image.
    """
    return draft(search, template, weights).build()


def draft(
    search: Size = (64, 64), template: Size = (16, 16), weights: NDArray[np.int8] | None = None
) -> GraphBuilder:
    """The graph of `build` before serialisation; same arguments and errors."""
    label = name(search, template)
    pool = pooling(template)
    kernel = kernel_size(search, template)
    if weights is None:
        weights = _checkerboard(kernel)
    if weights.shape != kernel:
        raise GraphError(f"{label}: expected weights {list(kernel)}, got {list(weights.shape)}")
    graph = GraphBuilder(label)
    grey = graph.input("image", (1, *search, 1), np.uint8, scale=1.0, zero_point=0)
    cells = graph.quantize(grey, np.int8, scale=1.0, zero_point=-128)
    if pool > 1:
        cells = graph.average_pool_2d(cells, 2 * pool, stride=pool, name="cells")
    graph.output(
        graph.conv_2d(
            cells,
            weights.reshape(1, *kernel, 1),
            1.0,
            scale=response_scale(kernel),
            zero_point=0,
            padding="VALID",
            name="response",
        )
    )
    return graph


def without_mean(patch: NDArray[np.float32], mask: NDArray[np.bool_]) -> NDArray[np.float64]:
    """A patch of grey levels minus the mean of the pixels in the mask, 0 outside it: [h, w].

    NumPy 1 subtracts a float64 scalar from a float32 array in float32, NumPy 2 in float64.
    """
    mean = patch[mask].mean(dtype=np.float64)
    return np.where(mask, patch.astype(np.float64) - mean, 0.0)


def quantise(
    patch: NDArray[np.float32], mask: NDArray[np.bool_], largest_response: float = math.inf
) -> NDArray[np.int8]:
    """Weights, int8 [h, w], for a patch of grey levels: proportional to it inside the mask, 0 outside.

    Their sum is exactly 0, so that brightness has no influence. They use the full range of int8, or less if
    the patch's response to itself, times HEADROOM, would exceed `largest_response`. All are 0 for a patch
    without contrast.
    """
    deviation = without_mean(patch, mask)
    peak, power = float(np.abs(deviation).max()), float(np.sum(deviation**2))
    if peak < 1e-3:
        return np.zeros(patch.shape, np.int8)
    ideal = deviation * min(127 / peak, largest_response / (HEADROOM * power))
    weights = np.rint(ideal)
    excess = int(weights.sum())
    if excess:
        # Correct the sum by changing the weights with the largest rounding error by one.
        error = np.where(mask & (np.abs(weights - np.sign(excess)) <= 127), weights - ideal, 0.0)
        order = np.argsort(-np.sign(excess) * error, axis=None, kind="stable")
        weights.flat[order[: abs(excess)]] -= np.sign(excess)
    return weights.astype(np.int8)


def _checkerboard(kernel: Size) -> NDArray[np.int8]:
    rows, columns = np.indices(kernel)
    board = np.where((rows + columns) % 2, -127, 127).astype(np.int8)
    board[-1, -1] -= board.sum(dtype=np.int8)  # odd sizes have one more of one sign
    return board
