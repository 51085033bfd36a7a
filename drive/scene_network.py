"""An embedding network that needs no training: edges by place, direction and colour."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.tflite.graph_builder import GraphBuilder

NAME = "scene_64x64"
"""Name of the graph."""
SIZE = 64
"""Width and height of the graph's input, px."""
GRID = 4
"""Number of parts of the image along each axis whose edges are averaged separately."""
KERNEL = 9
"""Width and height of a filter, px."""
DIRECTIONS = 8
"""Number of directions of edges, from dark to light, over a full turn."""
WAVELENGTHS = 4.0, 8.0
"""Wavelengths of the filters, px; the sigma of their envelopes is WIDTH times the wavelength."""
WIDTH = 0.4
COLORS = ((1 / 3, 1 / 3, 1 / 3), (1.0, -1.0, 0.0), (0.5, 0.5, -1.0))
"""Weights of R, G and B in the channels: grey, red against green, yellow against blue."""
OUTPUT_STEP = 0.25
"""Grey levels of a pixel's edge per step of the output; edges of usual walls then have some 20 steps."""


def scene_network() -> bytes:
    """Return a graph from an image, uint8 [1, 64, 64, 3], to 768 values.

    The values are rectified Gabor filters, averaged over 4 x 4 parts of the image. There is no bias, so an
    image with half the light has half the values, and its embedding, of length 1, does not change.
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
