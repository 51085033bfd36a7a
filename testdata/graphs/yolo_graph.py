"""A graph with the input and the output of an 8-bit YOLOv8 that finds the same objects in every image."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.tflite.graph_builder import GraphBuilder

SIZE = 32
CELLS = sum((SIZE // stride) ** 2 for stride in (8, 16, 32))
_SCALE, _ZERO_POINT = 1 / 250, -128


def yolo_graph(objects: Sequence[tuple[int, float, Sequence[float]]], classes: int) -> bytes:
    """A graph from int8 "image" [1, 32, 32, 3] to int8 "output" [1, 4 + classes, 21].

    objects: class, score, and x, y, width and height of each in shares of the image.
    """
    values = np.zeros((4 + classes, CELLS))
    for cell, (class_id, score, box) in enumerate(objects):
        values[:4, cell] = box
        values[4 + class_id, cell] = score
    return _constant_graph(values)


def _constant_graph(values: NDArray[np.float64]) -> bytes:
    """A graph that adds 0 times the image's mean to the values."""
    builder = GraphBuilder("detector")
    image = builder.input("image", (1, SIZE, SIZE, 3), np.int8, scale=1 / 255, zero_point=-128)
    mean = builder.reshape(builder.average_pool_2d(image, SIZE), (1, 3))
    weight_scale = 1 / 255
    output = builder.fully_connected(
        mean,
        np.zeros((values.size, 3), np.int8),
        weight_scale=weight_scale,
        bias=np.rint(values.ravel() / (weight_scale * mean.scale)).astype(np.int64),
        scale=_SCALE,
        zero_point=_ZERO_POINT,
    )
    builder.output(builder.reshape(output, (1, *values.shape), name="output"))
    return builder.build()
