"""A tiny embedding model: the mean colour of the image, as 8 values."""

from __future__ import annotations

import numpy as np

from edgetpu_driver.tflite.graph_builder import GraphBuilder

SIZE, VALUES = 8, 8


def color_embedding_graph() -> bytes:
    """A graph from an image, uint8 [1, 8, 8, 3], to its mean colour followed by five zeros."""
    graph = GraphBuilder("color_embedding")
    image = graph.input("image", (1, SIZE, SIZE, 3), np.uint8, scale=1.0, zero_point=0)
    colors = graph.quantize(image, np.int8, scale=1.0, zero_point=-128)
    mean = graph.average_pool_2d(colors, SIZE, padding="VALID")
    weights = np.zeros((VALUES, 1, 1, 3), np.int8)
    weights[:3, 0, 0] = 127 * np.eye(3)
    graph.output(graph.conv_2d(mean, weights, 1 / 127, scale=1.0, zero_point=-128, name="embedding"))
    return graph.build()


def colored(red: int, green: int, blue: int) -> np.ndarray:
    """An image of one colour, uint8 [8, 8, 3]."""
    return np.full((SIZE, SIZE, 3), (red, green, blue), np.uint8)
