"""An embedding network without training: edges by their place, direction and colour."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.tflite.graph_builder import GraphBuilder

NAME = "scene_64x64"
"""Of the graph."""
SIZE = 64
"""Width and height of its input, px."""
GRID = 4
"""Parts of the image along each side, whose edges are summed separately."""
KERNEL = 9
"""Width and height of a filter, px."""
DIRECTIONS = 8
"""Of edges, over a full turn: from dark to light."""
WAVELENGTHS = 4.0, 8.0
"""Of the filters, px; their envelopes are WIDTH of them."""
WIDTH = 0.4
COLORS = ((1 / 3, 1 / 3, 1 / 3), (1.0, -1.0, 0.0), (0.5, 0.5, -1.0))
"""Grey, red against green, and yellow against blue."""
OUTPUT_STEP = 0.25
"""Grey levels of a pixel's edge per step of the output, so that those of usual walls are some 20 steps."""


def scene_network() -> bytes:
    """Return a graph from an image, uint8 [1, 64, 64, 3], to 768 values.

    Rectified Gabor filters, averaged over 4 x 4 parts of the image. There is no bias, so that an image with
    half the light gives half the values: the embedding, of length 1, stays.
    """
    graph = GraphBuilder(NAME)
    image = graph.input("image", (1, SIZE, SIZE, 3), np.uint8, scale=1.0, zero_point=0)
    pixels = graph.quantize(image, np.int8, scale=1.0, zero_point=-128)
    filters = _filters()
    scale = float(np.abs(filters).max() / 127)
    weights = np.round(filters / scale).astype(np.int8)
    edges = graph.conv_2d(
        pixels, weights, scale, scale=OUTPUT_STEP, zero_point=-128, padding="VALID", activation="RELU"
    )
    parts = graph.average_pool_2d(edges, (SIZE - KERNEL + 1) // GRID)
    graph.output(graph.reshape(parts, (1, GRID * GRID * len(filters)), name="embedding"))
    return graph.build()


def _filters() -> NDArray[np.float64]:
    """Odd Gabor filters, [out, KERNEL, KERNEL, 3], that give 1 at an edge of one grey level."""
    y, x = np.mgrid[:KERNEL, :KERNEL] - (KERNEL - 1) / 2
    filters = []
    for color in COLORS:
        for number in range(DIRECTIONS):
            angle = 2 * math.pi * number / DIRECTIONS
            along = x * math.cos(angle) + y * math.sin(angle)
            for wavelength in WAVELENGTHS:
                envelope = np.exp(-(x**2 + y**2) / (2 * (WIDTH * wavelength) ** 2))
                wave = envelope * np.sin(2 * math.pi * along / wavelength)
                wave /= np.abs(wave).sum() / 2
                filters.append(wave[:, :, np.newaxis] * np.array(color))
    return np.array(filters)
